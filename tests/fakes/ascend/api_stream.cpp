// Streams and events.

#include "ascend/codes.hpp"
#include "common/environment.hpp"
#include "common/export.hpp"
#include "cuda/driver.hpp"

namespace fake_ascend {
namespace {

using fake_cuda::Driver;

enum EventFlag : uint32_t { kTimeLine = 0x8, kEveryFlag = 0x3b };
constexpr uint64_t kStopOnFailure = 1;
/// As of the fake CUDA: a query that finds work pending lets that work run.
constexpr std::chrono::microseconds kQueryPatience{200};

template <typename T>
std::shared_ptr<T> own(const fake_common::HandleTable<T>& table, const void* handle) {
  return Driver::instance().own(table, handle);
}

std::shared_ptr<fake_cuda::Stream> stream_behind(const void* handle) {
  auto stream = Driver::instance().streams.find(handle);
  require(stream != nullptr, "this is no stream", kInvalidHandle);
  require(stream->context == Driver::instance().current(), "the stream is of another context",
          kStreamOfOtherContext);
  return stream;
}

}  // namespace

FAKE_API int aclrtCreateStream(void** stream) {
  return guarded("aclrtCreateStream", [&] {
    require(stream != nullptr, "there is no place for the stream");
    auto context = Driver::instance().current();
    *stream = Driver::instance().streams.add(fake_cuda::Stream::start(std::move(context)));
  });
}

FAKE_API int aclrtDestroyStream(void* stream) {
  return guarded("aclrtDestroyStream", [&] {
    stream_behind(stream);
    Driver::instance().streams.take(stream)->close();
  });
}

/// The streams of the fake stop at a failure in any case.
FAKE_API int aclrtSetStreamFailureMode(void* stream, uint64_t mode) {
  return guarded("aclrtSetStreamFailureMode", [&] {
    stream_behind(stream);
    require(mode <= kStopOnFailure, "the mode is none");
  });
}

/// CCLMARK_FAKE_HOST_FUNCTIONS=none: an installation that refuses them.
FAKE_API int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  return guarded("aclrtLaunchHostFunc", [&] {
    require(function != nullptr, "there is no function");
    bool known = !fake_common::environment_is("CCLMARK_FAKE_HOST_FUNCTIONS", "none");
    require(known, "host functions are not supported", kNotSupported);
    stream_behind(stream)->push(std::make_shared<const std::function<void()>>(
        [function, argument] { function(argument); }));
  });
}

FAKE_API int aclrtStreamQuery(void* stream, int* state) {
  return guarded("aclrtStreamQuery", [&] {
    require(state != nullptr, "there is no place for the state");
    auto queried = stream_behind(stream);
    bool idle = queried->idle(kQueryPatience);
    if (auto error = queried->error(); error != 0) throw fake_cuda::Refusal{error};
    *state = idle ? 0 : 1;
  });
}

FAKE_API int aclrtSynchronizeStream(void* stream) {
  return guarded("aclrtSynchronizeStream", [&] {
    auto awaited = stream_behind(stream);
    awaited->drain();
    if (auto error = awaited->error(); error != 0) throw fake_cuda::Refusal{error};
  });
}

FAKE_API int aclrtCreateEventWithFlag(void** event, uint32_t flag) {
  return guarded("aclrtCreateEventWithFlag", [&] {
    require(event != nullptr, "there is no place for the event");
    require(flag != 0 && (flag & ~uint32_t{kEveryFlag}) == 0, "the flag is none");
    auto context = Driver::instance().current();
    *event = Driver::instance().events.add(
        std::make_shared<fake_cuda::Event>(std::move(context), (flag & kTimeLine) != 0));
  });
}

FAKE_API int aclrtDestroyEvent(void* event) {
  return guarded("aclrtDestroyEvent",
                 [&] { Driver::instance().take(Driver::instance().events, event); });
}

FAKE_API int aclrtRecordEvent(void* event, void* stream) {
  return guarded("aclrtRecordEvent", [&] {
    auto recorded = own(Driver::instance().events, event);
    fake_cuda::Event::record(recorded, stream_behind(stream));
  });
}

FAKE_API int aclrtEventElapsedTime(float* elapsed_ms, void* start, void* end) {
  return guarded("aclrtEventElapsedTime", [&] {
    require(elapsed_ms != nullptr, "there is no place for the time");
    auto from = own(Driver::instance().events, start);
    *elapsed_ms = fake_cuda::Event::elapsed_ms(*from, *own(Driver::instance().events, end));
  });
}

}  // namespace fake_ascend

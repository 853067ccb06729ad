// Streams, events, captures and graphs.

#include "common/environment.hpp"
#include "common/export.hpp"
#include "cuda/driver.hpp"
#include "cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

constexpr unsigned kStreamFlags = 0x1;
constexpr unsigned kEventFlags = 0x7;
constexpr unsigned kEventDisableTiming = 0x2;
constexpr unsigned long long kInstantiateFlags = 0xf;
/// Callers poll without a pause, more of them than there are processors: a query that finds work
/// pending lets that work run.
constexpr std::chrono::microseconds kQueryPatience{200};

enum WaitCondition : unsigned { kAtLeast = 0, kEqual = 1 };
constexpr unsigned kWriteNoMemoryBarrier = 0x1;

/// Raises Refusal unless the address is one that streams can wait on.
Memory word_memory(unsigned long long address) {
  require(address % sizeof(uint32_t) == 0, kInvalidValue);
  std::optional<Memory> memory =
      Driver::instance().find_memory(reinterpret_cast<const void*>(address), sizeof(uint32_t));
  require(memory.has_value(), kInvalidValue);
  return *memory;
}

/// CCLMARK_FAKE_NO_CAPTURE: the number of the device whose streams cannot be captured.
bool refuses_captures(int device) {
  constexpr unsigned long long kNone = ~0ull;
  return fake_common::environment_number("CCLMARK_FAKE_NO_CAPTURE", kNone, 0) ==
         static_cast<unsigned long long>(device);
}

bool satisfied(const uint32_t* word, uint32_t value, unsigned condition) {
  uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  // The driver's "at least" allows for counters that wrap.
  return condition == kEqual ? now == value : static_cast<int32_t>(now - value) >= 0;
}

template <typename T>
std::shared_ptr<T> own(const fake_common::HandleTable<T>& table, const void* handle) {
  return Driver::instance().own(table, handle);
}

}  // namespace

FAKE_API int cuStreamCreate(void** stream, unsigned flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    require(stream != nullptr && (flags & ~kStreamFlags) == 0, kInvalidValue);
    *stream = driver.streams.add(Stream::start(std::move(context)));
  });
}

FAKE_API int cuStreamDestroy_v2(void* stream) {
  return guarded([&] { Driver::instance().take(Driver::instance().streams, stream)->close(); });
}

FAKE_API int cuStreamQuery(void* stream) {
  return guarded([&] {
    std::shared_ptr<Stream> queried = own(Driver::instance().streams, stream);
    if (queried->capturing()) {
      Driver::instance().refuse_during_capture();
      throw Refusal{kCaptureUnsupported};
    }
    bool idle = queried->idle(kQueryPatience);
    require(queried->error() == kSuccess, queried->error());
    require(idle, kNotReady);
  });
}

FAKE_API int cuStreamWaitValue32_v2(void* stream, unsigned long long address, uint32_t value,
                                    unsigned condition) {
  return guarded([&] {
    std::shared_ptr<Stream> target = own(Driver::instance().streams, stream);
    require(condition == kAtLeast || condition == kEqual, kInvalidValue);
    word_memory(address);
    auto word = reinterpret_cast<const uint32_t*>(address);
    target->push(std::make_shared<const std::function<void()>>(
        [word, value, condition, context = target->context] {
          context->wait_until([&] { return satisfied(word, value, condition); });
        }));
  });
}

/// CCLMARK_FAKE_HOST_FUNCTIONS: `none` are taken; `inline`: they run in the call; `beside`: the
/// stream does not wait for them; `blocking`: the next copy waits in its call until they end.
FAKE_API int cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  return guarded([&] {
    std::shared_ptr<Stream> target = own(Driver::instance().streams, stream);
    require(function != nullptr, kInvalidValue);
    const char* how = "CCLMARK_FAKE_HOST_FUNCTIONS";
    require(!fake_common::environment_is(how, "none"), kNotSupported);
    if (fake_common::environment_is(how, "inline")) {
      function(argument);
    } else if (fake_common::environment_is(how, "beside")) {
      std::thread(function, argument).detach();
    } else {
      if (fake_common::environment_is(how, "blocking")) target->block_next_copy();
      target->push(std::make_shared<const std::function<void()>>(
          [function, argument] { function(argument); }));
    }
  });
}

FAKE_API int cuStreamWriteValue32_v2(void* stream, unsigned long long address, uint32_t value,
                                     unsigned flags) {
  return guarded([&] {
    std::shared_ptr<Stream> target = own(Driver::instance().streams, stream);
    require((flags & ~kWriteNoMemoryBarrier) == 0, kInvalidValue);
    require(word_memory(address).writable, kInvalidValue);
    auto word = reinterpret_cast<uint32_t*>(address);
    bool barrier = (flags & kWriteNoMemoryBarrier) == 0;
    target->push(std::make_shared<const std::function<void()>>([word, value, barrier] {
      if (barrier) {
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
      } else {
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
      }
    }));
  });
}

FAKE_API int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return guarded([&] {
    std::shared_ptr<Stream> target = own(Driver::instance().streams, stream);
    std::shared_ptr<Event> awaited = Driver::instance().events.find(event);
    require(awaited != nullptr, kInvalidHandle);
    require(flags == 0, kInvalidValue);
    if (target->capturing()) {
      target->spoil_capture(std::this_thread::get_id());
      throw Refusal{kCaptureUnsupported};
    }
    std::shared_ptr<const Event::Mark> mark = awaited->last();
    if (mark == nullptr) return;
    target->push(std::make_shared<const std::function<void()>>([mark, context = target->context] {
      context->wait_until([&] { return mark->reached(); });
    }));
  });
}

FAKE_API int cuEventCreate(void** event, unsigned flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    require(event != nullptr && (flags & ~kEventFlags) == 0, kInvalidValue);
    bool timed = (flags & kEventDisableTiming) == 0;
    *event = driver.events.add(std::make_shared<Event>(std::move(context), timed));
  });
}

FAKE_API int cuEventDestroy_v2(void* event) {
  return guarded([&] { Driver::instance().take(Driver::instance().events, event); });
}

FAKE_API int cuEventRecord(void* event, void* stream) {
  return guarded([&] {
    std::shared_ptr<Event> recorded = own(Driver::instance().events, event);
    Event::record(recorded, own(Driver::instance().streams, stream));
  });
}

FAKE_API int cuEventElapsedTime(float* elapsed_ms, void* start, void* end) {
  return guarded([&] {
    require(elapsed_ms != nullptr, kInvalidValue);
    std::shared_ptr<Event> from = own(Driver::instance().events, start);
    *elapsed_ms = Event::elapsed_ms(*from, *own(Driver::instance().events, end));
  });
}

FAKE_API int cuStreamBeginCapture_v2(void* stream, int mode) {
  return guarded([&] {
    require(mode >= 0 && mode <= static_cast<int>(CaptureMode::relaxed), kInvalidValue);
    std::shared_ptr<Stream> captured = own(Driver::instance().streams, stream);
    require(!refuses_captures(captured->context->device), kNotSupported);
    captured->begin_capture(static_cast<CaptureMode>(mode));
  });
}

FAKE_API int cuStreamEndCapture(void* stream, void** graph) {
  return guarded([&] {
    require(graph != nullptr, kInvalidValue);
    *graph = nullptr;
    std::shared_ptr<Stream> captured = own(Driver::instance().streams, stream);
    *graph = Driver::instance().graphs.add(
        std::make_shared<Graph>(Graph{captured->context, captured->end_capture()}));
  });
}

FAKE_API int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  return guarded([&] {
    require(executable != nullptr && (flags & ~kInstantiateFlags) == 0, kInvalidValue);
    std::shared_ptr<Graph> source = own(Driver::instance().graphs, graph);
    *executable = Driver::instance().executables.add(
        std::make_shared<Executable>(Executable{{source->context, source->work}}));
  });
}

FAKE_API int cuGraphLaunch(void* executable, void* stream) {
  return guarded([&] {
    std::shared_ptr<Executable> launched = own(Driver::instance().executables, executable);
    std::shared_ptr<Stream> target = own(Driver::instance().streams, stream);
    for (const Work& work : launched->work) target->push(work);
  });
}

FAKE_API int cuGraphDestroy(void* graph) {
  return guarded([&] { Driver::instance().take(Driver::instance().graphs, graph); });
}

FAKE_API int cuGraphExecDestroy(void* executable) {
  return guarded([&] { Driver::instance().take(Driver::instance().executables, executable); });
}

}  // namespace fake_cuda

#include "measure/concurrency.hpp"

#include <atomic>
#include <exception>
#include <thread>

#include "core/clock.hpp"
#include "core/waiting.hpp"

namespace cclmark {
namespace {

void provide(std::vector<Event>& events, size_t count, Device& device) {
  while (events.size() < count) events.emplace_back(device);
}

/// A thread that begins its work when it is released, and is joined in any case. It spins until
/// then: a thread that has slept is preferred by the scheduler afterwards, and on a host with fewer
/// processors than threads the collective would hardly advance beside it.
class SecondThread {
 public:
  template <typename Work>
  explicit SecondThread(const Work& work)
      : thread_([this, work] {
          while (!released_.load(std::memory_order_acquire)) {
            if (ended_.load(std::memory_order_relaxed)) return;
            relax_cpu();
          }
          try {
            work(ended_);
          } catch (...) {
            error_ = std::current_exception();
          }
        }) {}
  ~SecondThread() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  void release() { released_.store(true, std::memory_order_release); }
  /// Returns when the work is complete. Raises its error.
  void join() {
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> released_ = false, ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

Concurrency::Concurrency(Device& device, RankGroup& rank_group, Communicator& communicator,
                         void* stream)
    : device_(device),
      rank_group_(rank_group),
      communicator_(communicator),
      stream_(stream),
      compute_stream_(device),
      reference_(device) {}

void Concurrency::require_events() const {
  if (communicator_.own_stream() != nullptr) {
    throw UnsupportedError(
        "this library works on a separate stream, whose times beside other work are not measured");
  }
  if (device_.synchronous() || !communicator_.blocking()) return;
  throw UnsupportedError(
      "calls of this library return only when their work is complete, so that their times on the "
      "device beside other work cannot be measured");
}

void Concurrency::wait_until_idle(void* stream) {
  cclmark::wait_until_idle(device_, stream, communicator_, rank_group_);
}

void Concurrency::run_span(const Spans& spans, const std::function<void()>& issue, const Event& end,
                           void* stream) {
  for (size_t i = 0; i < spans.operations; ++i) issue();
  device_.record(end.get(), stream);
}

/// The spans of both streams are expected to last equally long altogether: the next span is of the
/// stream with the smaller share of its spans enqueued.
void Concurrency::enqueue_in_turns(const Spans& communication, const std::function<void()>& issue,
                                   const Spans& products, const std::function<void()>& multiply) {
  size_t sent = 0, multiplied = 0;
  while (sent < communication.count || multiplied < products.count) {
    bool compute_is_next =
        sent == communication.count ||
        (multiplied < products.count && multiplied * communication.count <= sent * products.count);
    if (compute_is_next) {
      run_span(products, multiply, compute_events_[++multiplied], compute_stream_.get());
    } else {
      run_span(communication, issue, communication_events_[++sent], stream_);
    }
  }
}

StreamTimes Concurrency::run(const Spans& communication, const std::function<void()>& issue,
                             const Spans& products, Compute* compute) {
  require_events();
  provide(communication_events_, communication.count + 1, device_);
  provide(compute_events_, products.count + 1, device_);
  auto multiply = [&] { compute->enqueue(compute_stream_.get()); };
  const bool in_thread = device_.synchronous() && products.count > 0;
  device_.record(reference_.get(), stream_);
  wait_until_idle(stream_);
  StreamTimes times;
  auto begin = Clock::now();
  auto mark_beginning = [&](const Spans& spans, const std::vector<Event>& events, void* stream) {
    if (spans.count > 0) device_.record(events[0].get(), stream);
  };
  if (in_thread) {
    SecondThread second([&](const std::atomic<bool>& ended) {
      mark_beginning(products, compute_events_, compute_stream_.get());
      for (size_t i = 1; i <= products.count && !ended; ++i) {
        run_span(products, multiply, compute_events_[i], compute_stream_.get());
      }
    });
    rank_group_.barrier();
    second.release();
    begin = Clock::now();
    mark_beginning(communication, communication_events_, stream_);
    enqueue_in_turns(communication, issue, {}, multiply);
    times.enqueue_s = seconds_between(begin, Clock::now());
    wait_until_idle(stream_);
    second.join();
  } else {
    rank_group_.barrier();
    begin = Clock::now();
    mark_beginning(products, compute_events_, compute_stream_.get());
    mark_beginning(communication, communication_events_, stream_);
    enqueue_in_turns(communication, issue, products, multiply);
    times.enqueue_s = seconds_between(begin, Clock::now());
    wait_until_idle(stream_);
    wait_until_idle(compute_stream_.get());
  }
  times.host_s = seconds_between(begin, Clock::now());
  communicator_.check();
  times.communication_s = times_of(communication_events_, communication);
  times.compute_s = times_of(compute_events_, products);
  return times;
}

std::vector<double> Concurrency::times_of(const std::vector<Event>& events, const Spans& spans) {
  std::vector<double> times_s;
  if (spans.count == 0) return times_s;
  for (size_t i = 0; i <= spans.count; ++i) {
    times_s.push_back(device_.elapsed_s(reference_.get(), events[i].get()));
  }
  return times_s;
}

void Concurrency::poison(Compute& compute) {
  compute.poison(compute_stream_.get());
  wait_until_idle(compute_stream_.get());
}

ComputeFinding Concurrency::check(Compute& compute) {
  return compute.check(compute_stream_.get(), [this] { wait_until_idle(compute_stream_.get()); });
}

}  // namespace cclmark

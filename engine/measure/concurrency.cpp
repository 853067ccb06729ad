#include "measure/concurrency.hpp"

#include <atomic>
#include <cmath>
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
      reference_(device),
      after_reference_(device) {}

void Concurrency::require_events() const {
  if (device_.synchronous() || !communicator_.blocking()) return;
  throw UnsupportedError(
      "calls of this library return only when their work is complete, so that their times on the "
      "device beside other work cannot be measured");
}

void Concurrency::wait_until_idle(void* stream) {
  cclmark::wait_until_idle(device_, stream, communicator_, rank_group_);
}

void Concurrency::mark_communication(size_t number) {
  if (OwnStream* own = communicator_.own_stream()) return own->record(number);
  device_.record(communication_events_[number].get(), stream_);
}

void Concurrency::run_span(const Spans& products, const std::function<void()>& multiply,
                           size_t end) {
  for (size_t i = 0; i < products.operations; ++i) multiply();
  device_.record(compute_events_[end].get(), compute_stream_.get());
}

void Concurrency::send_span(const Spans& communication, const std::function<void()>& issue,
                            size_t end) {
  for (size_t i = 0; i < communication.operations; ++i) issue();
  mark_communication(end);
}

/// The origin of all times. The mark of a library's own stream is behind the others' numbers.
void Concurrency::record_reference() {
  wait_until_idle(stream_);
  device_.record(reference_.get(), stream_);
  if (OwnStream* own = communicator_.own_stream()) {
    own->record(communication_events_.size());
    device_.record(after_reference_.get(), stream_);
  }
  wait_until_idle(stream_);
}

/// The time of a mark of the communication after the reference.
double Concurrency::communication_s(size_t number) {
  OwnStream* own = communicator_.own_stream();
  if (own == nullptr) {
    return device_.elapsed_s(reference_.get(), communication_events_[number].get());
  }
  return own->elapsed_s(communication_events_.size(), number) +
         device_.elapsed_s(reference_.get(), after_reference_.get()) / 2;
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
      run_span(products, multiply, ++multiplied);
    } else {
      send_span(communication, issue, ++sent);
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
  record_reference();
  StreamTimes times;
  auto begin = Clock::now();
  auto begin_products = [&] {
    if (products.count > 0) device_.record(compute_events_[0].get(), compute_stream_.get());
  };
  auto begin_communication = [&] {
    if (communication.count > 0) mark_communication(0);
  };
  if (in_thread) {
    SecondThread second([&](const std::atomic<bool>& ended) {
      begin_products();
      for (size_t i = 1; i <= products.count && !ended; ++i) run_span(products, multiply, i);
    });
    rank_group_.barrier();
    second.release();
    begin = Clock::now();
    begin_communication();
    enqueue_in_turns(communication, issue, {}, multiply);
    times.enqueue_s = seconds_between(begin, Clock::now());
    wait_until_idle(stream_);
    second.join();
  } else {
    rank_group_.barrier();
    begin = Clock::now();
    begin_products();
    begin_communication();
    enqueue_in_turns(communication, issue, products, multiply);
    times.enqueue_s = seconds_between(begin, Clock::now());
    wait_until_idle(stream_);
    wait_until_idle(compute_stream_.get());
  }
  times.host_s = seconds_between(begin, Clock::now());
  communicator_.check();
  for (size_t i = 0; communication.count > 0 && i <= communication.count; ++i) {
    times.communication_s.push_back(communication_s(i));
  }
  for (size_t i = 0; products.count > 0 && i <= products.count; ++i) {
    times.compute_s.push_back(device_.elapsed_s(reference_.get(), compute_events_[i].get()));
  }
  for (const std::vector<double>& of_stream : {times.communication_s, times.compute_s}) {
    if (of_stream.empty() || !std::isnan(of_stream.back())) continue;
    throw UnsupportedError(
        "events of these devices measure no times, so that work beside other work is not timed");
  }
  return times;
}

void Concurrency::poison(Compute& compute) {
  compute.poison(compute_stream_.get());
  wait_until_idle(compute_stream_.get());
}

ComputeFinding Concurrency::check(Compute& compute) {
  return compute.check(compute_stream_.get(), [this] { wait_until_idle(compute_stream_.get()); });
}

}  // namespace cclmark

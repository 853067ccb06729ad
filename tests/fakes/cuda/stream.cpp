#include "cuda/stream.hpp"

#include <pthread.h>
#include <signal.h>

namespace fake_cuda {
namespace {

Status perform(const std::function<void()>& work) {
  try {
    work();
    return kSuccess;
  } catch (const Refusal& refusal) {
    return refusal.status;
  }
}

}  // namespace

std::shared_ptr<Stream> Stream::start(std::shared_ptr<Context> context) {
  auto stream = std::make_shared<Stream>(std::move(context));
  // Signals are the program's business: none may end up on this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Detached: a stream may be destroyed while work that hangs is on it, as on a real device.
  std::thread([stream] { stream->work_off(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return stream;
}

void Stream::work_off() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    if (error_ == kSuccess) {
      busy_ = true;
      lock.unlock();
      Status result = perform(*work);
      work.reset();
      lock.lock();
      busy_ = false;
      error_ = result;
    }
    finished_.notify_all();
  }
}

void Stream::push(Work work) {
  std::lock_guard lock(mutex_);
  if (capture_) {
    require(capture_->valid, kCaptureInvalidated);
    capture_->work.push_back(std::move(work));
    return;
  }
  queue_.push_back(std::move(work));
  arrived_.notify_one();
}

bool Stream::idle(std::chrono::microseconds patience) {
  std::unique_lock lock(mutex_);
  return finished_.wait_for(lock, patience, [&] { return queue_.empty() && !busy_; });
}

void Stream::drain() {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

Status Stream::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

void Stream::close() {
  std::lock_guard lock(mutex_);
  capture_.reset();
  closing_ = true;
  arrived_.notify_one();
}

void Stream::begin_capture(CaptureMode mode) {
  std::lock_guard lock(mutex_);
  require(!capture_, kIllegalState);
  capture_ = Capture{mode, std::this_thread::get_id(), true, {}};
}

std::vector<Work> Stream::end_capture() {
  std::lock_guard lock(mutex_);
  require(capture_.has_value(), kIllegalState);
  require(capture_->mode == CaptureMode::relaxed || capture_->thread == std::this_thread::get_id(),
          kCaptureWrongThread);
  Capture ended = std::move(*capture_);
  capture_.reset();
  require(ended.valid, kCaptureInvalidated);
  return std::move(ended.work);
}

bool Stream::capturing() const {
  std::lock_guard lock(mutex_);
  return capture_.has_value();
}

bool Stream::spoil_capture(std::thread::id thread) {
  std::lock_guard lock(mutex_);
  if (!capture_ || capture_->mode == CaptureMode::relaxed) return false;
  if (capture_->mode == CaptureMode::thread_local_ && capture_->thread != thread) return false;
  capture_->valid = false;
  return true;
}

void Event::Mark::reach() {
  time_ = std::chrono::steady_clock::now();
  reached_ = true;
}

bool Event::Mark::reached() const {
  // Asked for before, as the stream may get here and fail in between.
  Status error = stream_->error();
  if (reached_) return true;
  require(error == kSuccess, error);
  return false;
}

void Event::record(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream) {
  bool captured = stream->capturing();
  auto mark = std::make_shared<Mark>(stream);
  {
    std::lock_guard lock(event->mutex_);
    event->captured_ = captured;
    if (!captured) event->last_ = mark;
  }
  auto reach = [mark] { mark->reach(); };
  auto nothing = [] {};
  // In a graph, an event orders work and takes no time: here nothing is left of it.
  stream->push(captured ? std::make_shared<const std::function<void()>>(nothing)
                        : std::make_shared<const std::function<void()>>(reach));
}

std::shared_ptr<const Event::Mark> Event::last() const {
  std::lock_guard lock(mutex_);
  require(!captured_, kCapturedEvent);
  return last_;
}

std::chrono::steady_clock::time_point Event::reached() const {
  std::shared_ptr<const Mark> mark = last();
  require(timed_ && mark != nullptr, kInvalidHandle);
  require(mark->reached(), kNotReady);
  return mark->time();
}

float Event::elapsed_ms(const Event& start, const Event& end) {
  auto from = start.reached();
  return std::chrono::duration<float, std::milli>(end.reached() - from).count();
}

}  // namespace fake_cuda

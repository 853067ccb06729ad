#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "ccl/communicator.hpp"

namespace cclmark {
namespace {

#include "kernels/dialect.cu"
#include "kernels/pattern.cu"
#include "kernels/reduce.cu"

}  // namespace

/// Work in order on a thread of its own, begun late now and then: what is not made to wait for
/// other streams overtakes them sooner or later.
class LazyStream {
 public:
  LazyStream(unsigned seed, bool slow) : random_(seed), slow_(slow), thread_([this] { run(); }) {}
  ~LazyStream() {
    {
      std::lock_guard guard(lock_);
      closing_ = true;
    }
    arrived_.notify_one();
    thread_.join();
  }

  void push(std::function<void()> work) {
    {
      std::lock_guard guard(lock_);
      queue_.push_back(std::move(work));
    }
    arrived_.notify_one();
  }
  bool idle() {
    std::lock_guard guard(lock_);
    return queue_.empty() && !busy_;
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock guard(lock_);
        arrived_.wait(guard, [&] { return closing_ || !queue_.empty(); });
        if (queue_.empty()) return;
        work = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      unsigned chance = random_() % 100;
      if (slow_ || chance < 5) {
        usleep(2000);
      } else if (chance < 30) {
        usleep(random_() % 200);
      }
      work();
      std::lock_guard guard(lock_);
      busy_ = false;
    }
  }

  std::mutex lock_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool closing_ = false;
  std::mt19937 random_;
  bool slow_;
  std::thread thread_;
};

/// The host as an accelerator: calls only enqueue, streams wait for events and flags. `slow`: the
/// number of the stream, in the order of their making, that is behind all the time.
class LazyDevice : public Device {
 public:
  LazyDevice(int index, unsigned seed, int slow)
      : host_(open_host_device(index)), info_(host_->info()), seed_(seed), slow_(slow) {
    info_.cache_bytes = 4096;
  }

  const DeviceInfo& info() const override { return info_; }
  size_t free_memory_bytes() const override { return host_->free_memory_bytes(); }
  void activate() override {}
  void* allocate(size_t bytes) override { return host_->allocate(bytes); }
  void release(void* memory) noexcept override { host_->release(memory); }
  void copy_to_host(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy_from_host(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy_async(void* to, const void* from, size_t bytes, void* stream) override {
    on(stream).push([=] { std::memmove(to, from, bytes); });
  }
  void fill_bytes(void* memory, int byte, size_t bytes, void* stream) override {
    on(stream).push([=] { std::memset(memory, byte, bytes); });
  }
  void* allocate_pinned(size_t bytes) override { return host_->allocate(bytes); }
  void release_pinned(void* memory) noexcept override { host_->release(memory); }
  void* pin(void* memory, size_t) override { return memory; }
  bool reaches(const Device&) const override { return true; }
  void open_access(Device&) override {}
  void close_access(Device&) override {}
  void copy_between(void*, Device&, const void*, Device&, size_t, void*) override { refuse(); }
  void* allocate_shareable(size_t bytes) override { return host_->allocate(bytes); }
  SharedMemory share(void* memory) override { return host_->share(memory); }
  void* open_shared(const SharedMemory& shared) override { return host_->open_shared(shared); }
  void close_shared(void* memory) noexcept override { host_->close_shared(memory); }

  bool synchronous() const override { return false; }
  void* create_stream() override {
    int number = streams_++;
    return new LazyStream(seed_ + static_cast<unsigned>(number), number == slow_);
  }
  void destroy_stream(void* stream) noexcept override { delete &on(stream); }
  bool idle(void* stream) override {
    if (on(stream).idle()) return true;
    usleep(20);  // ranks that ask have the processors of the streams that work
    return false;
  }
  void* create_event() override { return new Event(std::make_shared<std::atomic<bool>>(true)); }
  void destroy_event(void* event) noexcept override { delete &of(event); }
  void record(void* event, void* stream) override {
    of(event) = std::make_shared<std::atomic<bool>>(false);
    on(stream).push([reached = of(event)] { *reached = true; });
  }
  void wait_for_event(void* event, void* stream) override {
    on(stream).push([reached = of(event)] {
      while (!*reached) usleep(20);
    });
  }
  double elapsed_s(void*, void*) override { return 1e-6; }
  void wait_for_flag(const uint32_t* flag, uint32_t value, void* stream) override {
    on(stream).push([=] {
      std::atomic_ref<uint32_t> word(*const_cast<uint32_t*>(flag));
      while (static_cast<int32_t>(word.load() - value) < 0) usleep(20);
    });
  }
  void call_host(void (*function)(void*), void* argument, void* stream) override {
    on(stream).push([=] { function(argument); });
  }
  void write_flag(uint32_t* flag, uint32_t value, void* stream) override {
    on(stream).push([=] { std::atomic_ref<uint32_t>(*flag).store(value); });
  }

  void begin_capture(void*) override { refuse(); }
  void* end_capture(void*) override { refuse(); }
  void abandon_capture(void*) noexcept override {}
  void launch_graph(void*, void*) override { refuse(); }
  void destroy_graph(void*) noexcept override {}

  const Kernel& kernel(const char* name) override {
    if (std::strcmp(name, "cclmark_pause") == 0) throw MissingError("not on this device");
    const Kernel& found = host_->kernel(name);
    bool of_pattern =
        std::strcmp(name, "cclmark_fill") == 0 || std::strcmp(name, "cclmark_verify") == 0;
    argument_bytes_[&found] = of_pattern ? sizeof(PatternArguments) : sizeof(ReduceArguments);
    return found;
  }
  void launch(const Kernel& kernel, void* arguments, size_t items, void* stream) override {
    auto first = static_cast<const std::byte*>(arguments);
    auto kept = std::make_shared<std::vector<std::byte>>(first, first + argument_bytes_[&kernel]);
    on(stream).push(
        [=, this, &kernel] { host_->launch(kernel, kept->data(), items, host_.get()); });
  }
  void launch_grid(const Kernel&, void*, const Grid&, void*) override { refuse(); }

 private:
  using Event = std::shared_ptr<std::atomic<bool>>;

  static LazyStream& on(void* stream) { return *static_cast<LazyStream*>(stream); }
  static Event& of(void* event) { return *static_cast<Event*>(event); }
  [[noreturn]] static void refuse() { throw UnsupportedError("not on this device"); }

  std::unique_ptr<Device> host_;
  DeviceInfo info_;
  unsigned seed_;
  int slow_;
  int streams_ = 0;
  std::map<const Kernel*, size_t> argument_bytes_;
};

/// A library of the host's, called when a lazy stream comes to it.
class LazyCommunicator final : public Communicator {
 public:
  explicit LazyCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  std::unique_ptr<Call> bind(const Operation& operation, void* stream) override {
    return std::make_unique<LazyCall>(inner_->bind(operation, nullptr), stream);
  }
  std::string route(const Operation& operation) const override { return inner_->route(operation); }
  void* allocate(Device& device, size_t bytes, MemoryKind memory) override {
    return inner_->allocate(device, bytes, memory);
  }
  void release(Device& device, void* memory, MemoryKind kind) noexcept override {
    inner_->release(device, memory, kind);
  }

 private:
  class LazyCall final : public Call {
   public:
    LazyCall(std::unique_ptr<Call> call, void* stream) : call_(std::move(call)), stream_(stream) {}
    void enqueue(const void* send, void* receive) override {
      static_cast<LazyStream*>(stream_)->push([=, call = call_] { call->enqueue(send, receive); });
    }

   private:
    std::shared_ptr<Call> call_;
    void* stream_;
  };

  std::unique_ptr<Communicator> inner_;
};

}  // namespace cclmark

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "common/handle_table.hpp"
#include "cuda/arena.hpp"
#include "cuda/faults.hpp"
#include "cuda/module.hpp"
#include "cuda/range_table.hpp"
#include "cuda/region.hpp"
#include "cuda/status.hpp"
#include "cuda/stream.hpp"
#include "cuda/virtual_memory.hpp"

namespace fake_cuda {

/// A device in use. What is made in it dies with it.
struct Context {
  Context(int ordinal, size_t memory_bytes, const std::atomic<size_t>& pledged)
      : device(ordinal), arena(memory_bytes, pledged) {}
  const int device;
  Arena arena;
  std::atomic<bool> alive{true};
  /// Work that waits for something gives up.
  std::atomic<bool> ending{false};
  std::mutex mutex;
  std::set<void*> peers;  ///< handles of the contexts whose memory this one may use
  /// A copy that goes through the host is on its way: the next one's call waits for its end.
  std::atomic<bool> staging{false};

  /// For work on a stream. Raises Refusal when the context ends first: nothing that was to come
  /// after the wait may be done then.
  template <typename Predicate>
  void wait_until(Predicate met) const {
    constexpr int kSpins = 1000;
    for (int round = 0; !met(); ++round) {
      require(!ending, kInvalidContext);
      if (round < kSpins) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }
};

/// All state of the library. It is never destroyed: the threads of streams outlive main().
class Driver {
 public:
  static Driver& instance();

  /// Raises Refusal when there is no device.
  void initialize();
  void require_initialized() const { require(initialized_, kNotInitialized); }
  void require_device(int device) const;

  int device_count() const { return device_count_; }
  size_t memory_bytes() const { return memory_bytes_; }
  int architecture() const { return architecture_; }
  const Faults& faults() const { return faults_; }
  bool can_access_peer(int device, int peer) const;

  /// The primary context of a device, by handle.
  void* retain(int device);
  void release(int device);
  /// Makes the context current on the calling thread; nullptr leaves it with none.
  void set_current(void* handle);
  std::shared_ptr<Context> current() const;
  /// Raises Refusal when the handle names no context.
  std::shared_ptr<Context> context(const void* handle) const;

  /// The device whose memory holds the whole range. Raises Refusal when none does.
  std::shared_ptr<Context> owner_of(const void* memory, size_t bytes) const;
  /// The registered memory that holds the whole range, if the current context may use it.
  std::shared_ptr<Registered> find_registered(const void* memory, size_t bytes) const;
  /// The memory, of a device, pinned or registered, that holds the whole range.
  std::optional<Memory> find_memory(const void* memory, size_t bytes) const;
  /// Whether the address can only be of memory that the driver knows, even if it is free now.
  bool is_known_address(const void* memory) const;

  /// The object of the current context behind a handle; anything else is refused.
  template <typename T>
  std::shared_ptr<T> own(const fake_common::HandleTable<T>& table, const void* handle) const {
    std::shared_ptr<Context> context = current();
    std::shared_ptr<T> object = table.find(handle);
    require(object != nullptr && object->context == context, kInvalidHandle);
    return object;
  }
  template <typename T>
  std::shared_ptr<T> take(fake_common::HandleTable<T>& table, const void* handle) const {
    own(table, handle);
    return table.take(handle);
  }

  /// Keeps memory of a device from being allocated, as long as what it returns is kept. Raises
  /// Refusal when there is not as much.
  std::shared_ptr<const void> pledge(int device, size_t bytes);

  /// Refuses calls that wait for the device or change its memory while a capture forbids them, and
  /// spoils the capture, as the driver does.
  void refuse_during_capture() const;
  /// Waits for all work of a context.
  void drain(const Context& context) const;

  fake_common::HandleTable<Stream> streams{2};
  fake_common::HandleTable<Event> events{3};
  fake_common::HandleTable<Graph> graphs{4};
  fake_common::HandleTable<Executable> executables{5};
  fake_common::HandleTable<Module> modules{6};
  fake_common::HandleTable<Function> functions{7};
  RangeTable<Region> pinned;
  RangeTable<Registered> registered;
  RangeTable<OpenedRegion> opened;
  fake_common::HandleTable<Physical> physicals{8};
  VirtualMemory virtual_memory;

 private:
  Driver();
  void destroy(const std::shared_ptr<Context>& context);

  struct Primary {
    unsigned users = 0;
    void* handle = nullptr;
    std::atomic<size_t> pledged{0};  ///< bytes without addresses
  };

  const int device_count_;
  const size_t memory_bytes_;
  const int architecture_;
  const Faults faults_;
  std::atomic<bool> initialized_{false};
  std::mutex mutex_;
  std::vector<Primary> primaries_;
  fake_common::HandleTable<Context> contexts_{1};
};

}  // namespace fake_cuda

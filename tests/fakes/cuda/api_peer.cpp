// Access of devices to each other's memory.

#include "common/export.hpp"
#include "cuda/driver.hpp"

namespace fake_cuda {

FAKE_API int cuDeviceCanAccessPeer(int* possible, int device, int peer) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.require_device(device);
    driver.require_device(peer);
    require(possible != nullptr, kInvalidValue);
    *possible = driver.can_access_peer(device, peer);
  });
}

FAKE_API int cuDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  constexpr int kNativeAtomics = 3;
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.require_device(device);
    driver.require_device(peer);
    require(device != peer, kInvalidDevice);
    require(value != nullptr && attribute == kNativeAtomics, kInvalidValue);
    *value = !driver.faults().no_native_atomics && driver.can_access_peer(device, peer);
  });
}

FAKE_API int cuCtxEnablePeerAccess(void* peer_handle, unsigned flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    std::shared_ptr<Context> peer = driver.context(peer_handle);
    require(flags == 0, kInvalidValue);
    require(context != peer, kInvalidContext);
    require(driver.can_access_peer(context->device, peer->device), kPeerAccessUnsupported);
    std::lock_guard lock(context->mutex);
    require(context->peers.insert(peer_handle).second, kPeerAccessEnabled);
  });
}

FAKE_API int cuCtxDisablePeerAccess(void* peer_handle) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    driver.context(peer_handle);
    std::lock_guard lock(context->mutex);
    require(context->peers.erase(peer_handle) == 1, kPeerAccessNotEnabled);
  });
}

}  // namespace fake_cuda

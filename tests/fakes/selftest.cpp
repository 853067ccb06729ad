// Checks the fake vendor libraries by themselves, across processes.

#include "selftest/checks.hpp"
#include "selftest/harness.hpp"

int main() {
  selftest::number_checks();
  selftest::cuda_checks();
  selftest::peer_checks();
  selftest::host_checks();
  selftest::sharing_checks();
  selftest::virtual_checks();
  selftest::kernel_checks();
  selftest::collective_checks();
  selftest::fault_checks();
  selftest::ascend_checks();
  return selftest::failures() == 0 ? 0 : 1;
}

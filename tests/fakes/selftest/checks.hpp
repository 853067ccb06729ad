#pragma once

namespace selftest {

void number_checks();
void cuda_checks();
void peer_checks();
void host_checks();
void sharing_checks();
void virtual_checks();
void kernel_checks();
void collective_checks();
void fault_checks();
void ascend_checks();

}  // namespace selftest

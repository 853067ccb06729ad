#pragma once

namespace fake_nccl {

/// Writes what NCCL logs about the connections of a rank, if NCCL_DEBUG and NCCL_DEBUG_SUBSYS ask
/// for it. The transport follows NCCL_P2P_DISABLE and NCCL_SHM_DISABLE.
void log_connections(int rank, int ranks);

}  // namespace fake_nccl

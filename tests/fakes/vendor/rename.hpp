#pragma once

// Included before everything else where the fake NCCL is built under another vendor's prefix: its
// functions then carry that prefix, FAKE_CCL_PREFIX.

#include "vendor/names.hpp"

#define ncclGetVersion FAKE_CCL(GetVersion)
#define ncclGetErrorString FAKE_CCL(GetErrorString)
#define ncclGetLastError FAKE_CCL(GetLastError)
#define ncclGetUniqueId FAKE_CCL(GetUniqueId)
#define ncclCommInitRank FAKE_CCL(CommInitRank)
#define ncclCommSplit FAKE_CCL(CommSplit)
#define ncclCommDestroy FAKE_CCL(CommDestroy)
#define ncclCommAbort FAKE_CCL(CommAbort)
#define ncclCommGetAsyncError FAKE_CCL(CommGetAsyncError)
#define ncclGroupStart FAKE_CCL(GroupStart)
#define ncclGroupEnd FAKE_CCL(GroupEnd)
#define ncclAllReduce FAKE_CCL(AllReduce)
#define ncclReduceScatter FAKE_CCL(ReduceScatter)
#define ncclReduce FAKE_CCL(Reduce)
#define ncclAllGather FAKE_CCL(AllGather)
#define ncclBroadcast FAKE_CCL(Broadcast)
#define ncclSend FAKE_CCL(Send)
#define ncclRecv FAKE_CCL(Recv)

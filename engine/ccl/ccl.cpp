#include "ccl/communicator.hpp"

namespace cclmark {
namespace {

const CclEntry kCcls[] = {
    {"nccl", {"cuda"}, open_nccl_family},
    {"rccl", {"hip"}, open_nccl_family},
    {"maca-mccl", {"maca"}, open_nccl_family},
    {"musa-mccl", {"musa"}, open_nccl_family},
    {"eccl", {"tops"}, open_nccl_family},
    {"ixccl", {"cudart"}, open_nccl_family},
    {"duccl", {"cudart"}, open_nccl_family},
    {"pccl", {"cudart"}, open_nccl_family},
    {"sunrise-pccl", {"tang"}, open_nccl_family},
    {"flagcx",
     {"cuda", "hip", "maca", "musa", "tops", "cnrt", "tang", "acl", "cudart"},
     open_flagcx},
    {"hccl", {"acl"}, open_hccl},
    {"cncl", {"cnrt"}, open_cncl},
    {"bkcl", {"cudart"}, open_bkcl},
    {"shm", {"host"}, open_shm},
    {"mpi", {"host", "cuda", "hip"}, open_mpi},
    {"oneccl", {"host"}, open_oneccl},
};

}  // namespace

std::span<const CclEntry> known_ccls() {
  return kCcls;
}

std::unique_ptr<Ccl> open_ccl(std::string_view name, const CclPlaces& places) {
  for (const CclEntry& entry : kCcls) {
    if (entry.name == name) return entry.open(name, places);
  }
  throw Error("no collective library is called " + std::string(name));
}

}  // namespace cclmark

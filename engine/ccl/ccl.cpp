#include "ccl/communicator.hpp"

namespace cclmark {

std::unique_ptr<Ccl> open_bkcl(const CclDescription& description, const CclPlaces& places);
std::unique_ptr<Ccl> open_cncl(const CclDescription& description, const CclPlaces& places);
std::unique_ptr<Ccl> open_flagcx(const CclDescription& description, const CclPlaces& places);
std::unique_ptr<Ccl> open_shm(const CclDescription& description, const CclPlaces& places);
std::unique_ptr<Ccl> open_hccl(const CclDescription& description, const CclPlaces& places);
std::unique_ptr<Ccl> open_mpi(const CclDescription& description, const CclPlaces& places);
std::unique_ptr<Ccl> open_nccl_family(const CclDescription& description, const CclPlaces& places);
std::unique_ptr<Ccl> open_oneccl(const CclDescription& description, const CclPlaces& places);

namespace {

struct Shape {
  std::string_view name;
  std::unique_ptr<Ccl> (*open)(const CclDescription& description, const CclPlaces& places);
};

const Shape kShapes[] = {
    {"nccl", open_nccl_family}, {"flagcx", open_flagcx}, {"hccl", open_hccl},
    {"cncl", open_cncl},        {"bkcl", open_bkcl},     {"shm", open_shm},
    {"mpi", open_mpi},          {"oneccl", open_oneccl},
};

}  // namespace

std::vector<std::string_view> known_shapes() {
  std::vector<std::string_view> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  return names;
}

std::unique_ptr<Ccl> open_ccl(const CclDescription& description, const CclPlaces& places) {
  for (const Shape& shape : kShapes) {
    if (shape.name == description.shape) return shape.open(description, places);
  }
  throw Error("libraries of shape '" + description.shape + "' are not supported");
}

}  // namespace cclmark

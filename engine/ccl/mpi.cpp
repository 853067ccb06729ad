// MPI between processes of hosts, whichever MPI it is.
//
// An MPI's types and constants are part of its binary interface, and there are three: Open MPI's
// handles are addresses of objects that it exports, MPICH's (and Intel's and Cray's) are integers,
// and those of the standard ABI (MPI 5) are small constants in pointers. One implementation here is
// made for both widths of a handle; which constants go with the library that was loaded is found
// out from what it exports. The values are those of the mpi.h of Open MPI 4 and 5, of MPICH 3 to 5,
// and of the mpi_abi.h of the standard.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <optional>

#include "ccl/call_of.hpp"
#include "ccl/communicator.hpp"
#include "core/library.hpp"

namespace cclmark {
namespace {

constexpr size_t kLongestText = 8192;
constexpr size_t kPageBytes = 4096;
constexpr int kTag = 77;

enum class Abi : uint8_t { open_mpi, mpich, standard };

/// The constants of an MPI. Types by what MPI can reduce, and by width for what is only moved.
template <typename Handle>
struct Constants {
  Handle world, errors_return;
  /// By Dtype: std::nullopt where MPI has no such number.
  std::array<std::optional<Handle>, kDtypes.size()> dtypes;
  /// For 1, 2, 4 and 8 bytes.
  std::array<Handle, 4> widths;
  /// By Reduction: MPI has no average.
  std::array<std::optional<Handle>, kReductions.size()> reductions;
  const void* in_place;
  void* ignore_status;
  int serialized;
};

Constants<void*> open_mpi_constants(const Library& library) {
  auto object = [&](const char* symbol) -> void* { return library.require<char>(symbol); };
  void *i8 = object("ompi_mpi_int8_t"), *u8 = object("ompi_mpi_uint8_t"),
       *i16 = object("ompi_mpi_int16_t"), *u16 = object("ompi_mpi_uint16_t"),
       *i32 = object("ompi_mpi_int32_t"), *u32 = object("ompi_mpi_uint32_t"),
       *i64 = object("ompi_mpi_int64_t"), *u64 = object("ompi_mpi_uint64_t"),
       *f32 = object("ompi_mpi_float"), *f64 = object("ompi_mpi_double");
  return {object("ompi_mpi_comm_world"),
          object("ompi_mpi_errors_return"),
          {i8, u8, i32, u32, i64, u64, {}, f32, f64, {}, {}, {}, i16, u16},
          {u8, u16, u32, u64},
          {object("ompi_mpi_op_sum"),
           object("ompi_mpi_op_prod"),
           object("ompi_mpi_op_max"),
           object("ompi_mpi_op_min"),
           {}},
          reinterpret_cast<const void*>(1),
          nullptr,
          2};
}

Constants<int> mpich_constants() {
  constexpr int i8 = 0x4c000137, u8 = 0x4c00013b, i16 = 0x4c000238, u16 = 0x4c00023c,
                i32 = 0x4c000439, u32 = 0x4c00043d, i64 = 0x4c00083a, u64 = 0x4c00083e,
                f32 = 0x4c00040a, f64 = 0x4c00080b;
  return {0x44000000,
          0x54000001,
          {i8, u8, i32, u32, i64, u64, {}, f32, f64, {}, {}, {}, i16, u16},
          {u8, u16, u32, u64},
          {0x58000003, 0x58000004, 0x58000001, 0x58000002, {}},
          reinterpret_cast<const void*>(intptr_t{-1}),
          reinterpret_cast<void*>(1),
          2};
}

Constants<void*> standard_constants() {
  auto handle = [](uintptr_t value) { return reinterpret_cast<void*>(value); };
  void *i8 = handle(0x240), *u8 = handle(0x241), *i16 = handle(0x248), *u16 = handle(0x249),
       *i32 = handle(0x250), *u32 = handle(0x251), *i64 = handle(0x258), *u64 = handle(0x259),
       *f32 = handle(0x210), *f64 = handle(0x214);
  return {handle(0x101),
          handle(0x143),
          {i8, u8, i32, u32, i64, u64, {}, f32, f64, {}, {}, {}, i16, u16},
          {u8, u16, u32, u64},
          {handle(0x21), handle(0x24), handle(0x23), handle(0x22), {}},
          reinterpret_cast<const void*>(1),
          nullptr,
          2048};
}

/// MPI's functions, for handles of one width.
template <typename Handle>
class Api {
 public:
  explicit Api(const Library& library) : library_(library) {
    resolve(init_thread, "MPI_Init_thread");
    resolve(initialized, "MPI_Initialized");
    resolve(query_thread, "MPI_Query_thread");
    resolve(finalize, "MPI_Finalize");
    resolve(comm_rank, "MPI_Comm_rank");
    resolve(comm_size, "MPI_Comm_size");
    resolve(set_errhandler, "MPI_Comm_set_errhandler");
    resolve(error_string, "MPI_Error_string");
    resolve(allreduce, "MPI_Allreduce");
    resolve(allgather, "MPI_Allgather");
    resolve(reduce_scatter_block, "MPI_Reduce_scatter_block");
    resolve(bcast, "MPI_Bcast");
    resolve(reduce, "MPI_Reduce");
    resolve(alltoall, "MPI_Alltoall");
    resolve(alltoallv, "MPI_Alltoallv");
    resolve(gather, "MPI_Gather");
    resolve(scatter, "MPI_Scatter");
    resolve(sendrecv, "MPI_Sendrecv");
    resolve(barrier, "MPI_Barrier");
    resolve(issend, "MPI_Issend");
    resolve(irecv, "MPI_Irecv");
    resolve(test, "MPI_Test");
    resolve(iprobe, "MPI_Iprobe");
    resolve(send, "MPI_Send");
    resolve(recv, "MPI_Recv");
    resolve(comm_group, "MPI_Comm_group");
    resolve(group_incl, "MPI_Group_incl");
    resolve(group_free, "MPI_Group_free");
    resolve(comm_create_group, "MPI_Comm_create_group");
    resolve(comm_free, "MPI_Comm_free");
  }

  void check(int code, const char* call) const {
    if (code == 0) [[likely]]
      return;
    std::array<char, kLongestText> text{};
    int length = 0;
    error_string(code, text.data(), &length);
    throw Error(Error::describe(call, code, text.data()));
  }

  int (*init_thread)(int*, char***, int, int*);
  int (*initialized)(int*);
  int (*query_thread)(int*);
  int (*finalize)();
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*set_errhandler)(Handle, Handle);
  int (*error_string)(int, char*, int*);
  int (*allreduce)(const void*, void*, int, Handle, Handle, Handle);
  int (*allgather)(const void*, int, Handle, void*, int, Handle, Handle);
  int (*reduce_scatter_block)(const void*, void*, int, Handle, Handle, Handle);
  int (*bcast)(void*, int, Handle, int, Handle);
  int (*reduce)(const void*, void*, int, Handle, Handle, int, Handle);
  int (*alltoall)(const void*, int, Handle, void*, int, Handle, Handle);
  int (*alltoallv)(const void*, const int*, const int*, Handle, void*, const int*, const int*,
                   Handle, Handle);
  int (*gather)(const void*, int, Handle, void*, int, Handle, int, Handle);
  int (*scatter)(const void*, int, Handle, void*, int, Handle, int, Handle);
  int (*sendrecv)(const void*, int, Handle, int, int, void*, int, Handle, int, int, Handle, void*);
  int (*barrier)(Handle);
  int (*issend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*test)(Handle*, int*, void*);
  int (*iprobe)(int, int, Handle, int*, void*);
  int (*send)(const void*, int, Handle, int, int, Handle);
  int (*recv)(void*, int, Handle, int, int, Handle, void*);
  int (*comm_group)(Handle, Handle*);
  int (*group_incl)(Handle, int, const int*, Handle*);
  int (*group_free)(Handle*);
  int (*comm_create_group)(Handle, Handle, int, Handle*);
  int (*comm_free)(Handle*);

 private:
  template <typename R, typename... Arguments>
  void resolve(R (*&function)(Arguments...), const char* symbol) {
    function = library_.require<R(Arguments...)>(symbol);
  }

  const Library& library_;
};

const std::byte* at(const void* base, size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

std::string another_mpi(const Library& library) {
  return library.path() +
         " is not from the MPI that started the ranks. Set CCLMARK_MPI_LIBRARY to that MPI's "
         "library, or start the ranks by this library's mpirun (without a launcher: "
         "CCLMARK_MPIRUN). With srun, use --mpi=pmix for Open MPI or --mpi=pmi2 for MPICH";
}

/// MPI has no streams: the device's work on its stream must be complete before MPI accesses the
/// memory.
class AfterStream final : public Call {
 public:
  AfterStream(std::unique_ptr<Call> call, Device& device, const RankGroup& rank_group, void* stream)
      : call_(std::move(call)), device_(device), rank_group_(rank_group), stream_(stream) {}
  void prepare(const void* send, void* receive) override { call_->prepare(send, receive); }
  void enqueue(const void* send, void* receive) override {
    wait_until_idle(device_, stream_, [this] { rank_group_.check(RankGroup::kDevice); });
    call_->enqueue(send, receive);
  }

 private:
  std::unique_ptr<Call> call_;
  Device& device_;
  const RankGroup& rank_group_;
  void* stream_;
};

/// MPI in this process, which is initialised and finalised once for all users.
class MpiProcess {
 public:
  static std::shared_ptr<MpiProcess> shared() {
    static std::weak_ptr<MpiProcess> known;
    std::shared_ptr<MpiProcess> process = known.lock();
    if (process == nullptr) known = process = std::make_shared<MpiProcess>();
    return process;
  }
  ~MpiProcess() {
    if (finalize_ != nullptr) finalize_();
  }

  /// Initialises MPI once, and checks that mpirun's ranks are the ranks of `rank_group`, or contain
  /// those of a subgroup. Raises MissingError if MPI has other ranks, or if another library was
  /// initialised.
  template <typename Handle>
  void begin(const Api<Handle>& mpi, const Constants<Handle>& constants, const Library& library,
             const RankGroup& rank_group) {
    if (path_ == library.path()) return require_world_of(rank_group, library);
    if (!path_.empty()) {
      throw MissingError("this process has initialised MPI with " + path_ + " and cannot use " +
                         library.path() + " too: set CCLMARK_MPI_LIBRARY to one of them");
    }
    int begun = 0, level = 0;
    mpi.check(mpi.initialized(&begun), "MPI_Initialized");
    if (begun == 0) {
      mpi.check(mpi.init_thread(nullptr, nullptr, constants.serialized, &level), "MPI_Init_thread");
      finalize_ = mpi.finalize;
    } else {
      mpi.check(mpi.query_thread(&level), "MPI_Query_thread");  // torch's, which also ends it
    }
    mpi.check(mpi.set_errhandler(constants.world, constants.errors_return),
              "MPI_Comm_set_errhandler");
    mpi.check(mpi.comm_size(constants.world, &size_), "MPI_Comm_size");
    mpi.check(mpi.comm_rank(constants.world, &rank_), "MPI_Comm_rank");
    require_world_of(rank_group, library);
    serialized_ = level >= constants.serialized;
    path_ = library.path();
  }

  /// Whether another thread than the one that began may call, if no two call at once.
  bool serialized() const { return serialized_; }

 private:
  void require_world_of(const RankGroup& rank_group, const Library& library) const {
    bool contains = rank_group.is_subgroup() ? size_ > rank_group.number_of(rank_group.size() - 1)
                                             : size_ == rank_group.size();
    if (!contains || rank_ != rank_group.number_of(rank_group.rank())) {
      throw MissingError(another_mpi(library));
    }
  }

  int (*finalize_)() = nullptr;
  int size_ = 0, rank_ = -1;  ///< of all that mpirun started
  bool serialized_ = false;
  std::string path_;
};

/// Messages between all processes that mpirun started.
template <typename Handle>
class MpiHostExchange final : public HostExchange {
 public:
  MpiHostExchange(const Library& library, const Constants<Handle>& constants, int rank)
      : mpi_(library), constants_(constants), rank_(rank) {}

  // Synchronous: else a rank that only sends would run ahead by a whole batch.
  size_t send(int to, uint32_t label, const std::byte* data, size_t bytes) override {
    auto [number, request] = begin();
    mpi_.check(mpi_.issend(data, counted(bytes), constants_.widths[0], to, tag(label),
                           constants_.world, request),
               "MPI_Issend");
    return number;
  }
  size_t receive(int from, uint32_t label, std::byte* data, size_t bytes) override {
    auto [number, request] = begin();
    mpi_.check(mpi_.irecv(data, counted(bytes), constants_.widths[0], from, tag(label),
                          constants_.world, request),
               "MPI_Irecv");
    return number;
  }
  bool done(size_t number) override {
    int flag = 0;
    mpi_.check(mpi_.test(&requests_[number], &flag, constants_.ignore_status), "MPI_Test");
    if (flag != 0) free_.push_back(number);
    return flag != 0;
  }
  void keep_going() override {
    int flag = 0;
    mpi_.check(mpi_.iprobe(rank_, tag(0), constants_.world, &flag, constants_.ignore_status),
               "MPI_Iprobe");
  }

 private:
  /// Tags go up to 32767 in every MPI.
  static int tag(uint32_t label) { return 128 + static_cast<int>(label % 16384); }

  std::pair<size_t, Handle*> begin() {
    if (free_.empty()) {
      free_.push_back(requests_.size());
      requests_.emplace_back();
    }
    size_t number = free_.back();
    free_.pop_back();
    return {number, &requests_[number]};
  }
  static int counted(size_t bytes) {
    if (bytes > std::numeric_limits<int>::max()) {
      throw Error("MPI supports messages of at most 2^31 - 1 bytes");
    }
    return static_cast<int>(bytes);
  }

  Api<Handle> mpi_;
  Constants<Handle> constants_;
  int rank_;
  std::deque<Handle> requests_;  // which stay where they are: MPI may keep their addresses
  std::vector<size_t> free_;
};

/// The processes that mpirun started, or a subgroup of them. Calls return when this rank's part is
/// done.
template <typename Handle>
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const Library& library, const Constants<Handle>& constants, Device& device,
                  const RankGroup& rank_group)
      : mpi_(library),
        constants_(constants),
        device_(device),
        rank_group_(rank_group),
        comm_(constants.world),
        rank_(rank_group.rank()),
        size_(rank_group.size()) {
    if (rank_group.is_subgroup()) create_subgroup();
  }

  /// MPI has a limited number of communicators.
  void leave() override {
    if (comm_ != constants_.world) mpi_.check(mpi_.comm_free(&comm_), "MPI_Comm_free");
    comm_ = constants_.world;
  }

  std::unique_ptr<Call> bind(const Operation& op, void* stream) override {
    if (device_.synchronous()) return bind_call(op);
    return std::make_unique<AfterStream>(bind_call(op), device_, rank_group_, stream);
  }

  bool blocking() const override { return !device_.synchronous(); }

  std::string route(const Operation&) const override { return "native"; }

  void* allocate(Device& device, size_t bytes, MemoryKind kind) override {
    if (!device.synchronous()) return Communicator::allocate(device, bytes, kind);
    // As a program has it: what host devices allocate is shared memory, of other pages.
    size_t whole = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    void* memory = std::aligned_alloc(kPageBytes, whole);
    if (memory == nullptr) {
      throw OutOfMemoryError("cannot allocate " + std::to_string(bytes) + " bytes of memory");
    }
    return memory;
  }
  std::string no_registration(Registration) const override {
    return "registered buffers are not supported with MPI: use --register none";
  }
  MemoryPlace place_of_buffers(const Device& device) const override {
    return device.synchronous() ? MemoryPlace::host : place_of_allocations(device);
  }
  void release(Device& device, void* memory, MemoryKind) noexcept override {
    if (device.synchronous()) return std::free(memory);
    device.release(memory);
  }

 private:
  /// A group of processes, freed at the end of its scope.
  class Group {
   public:
    explicit Group(const Api<Handle>& mpi) : mpi_(mpi) {}
    ~Group() {
      if (owned_) mpi_.group_free(&handle_);
    }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    /// Where a call stores the handle; `code`: what it returned. Raises Error.
    Handle* out() { return &handle_; }
    void require(int code, const char* call) {
      mpi_.check(code, call);
      owned_ = true;
    }
    Handle get() const { return handle_; }

   private:
    const Api<Handle>& mpi_;
    Handle handle_{};
    bool owned_ = false;
  };

  void create_subgroup() {
    std::vector<int> numbers;
    for (int rank = 0; rank < size_; ++rank) numbers.push_back(rank_group_.number_of(rank));
    Group all(mpi_), own(mpi_);
    all.require(mpi_.comm_group(constants_.world, all.out()), "MPI_Comm_group");
    own.require(mpi_.group_incl(all.get(), size_, numbers.data(), own.out()), "MPI_Group_incl");
    mpi_.check(mpi_.comm_create_group(constants_.world, own.get(), kTag, &comm_),
               "MPI_Comm_create_group");
    try {
      mpi_.check(mpi_.set_errhandler(comm_, constants_.errors_return), "MPI_Comm_set_errhandler");
    } catch (...) {
      mpi_.comm_free(&comm_);
      throw;
    }
  }

  std::unique_ptr<Call> bind_call(const Operation& op) {
    switch (op.collective) {
      case Collective::all_reduce:
        return make_call([=, this, n = count(op), t = type(op), o = reduction(op)](const void* s,
                                                                                   void* d) {
          mpi_.check(mpi_.allreduce(s == d ? in_place() : s, d, n, t, o, comm_), "MPI_Allreduce");
        });
      case Collective::reduce:
        return make_call([=, this, n = count(op), t = type(op), o = reduction(op)](const void* s,
                                                                                   void* d) {
          bool own = s == d && rank_ == op.root;
          mpi_.check(mpi_.reduce(own ? in_place() : s, d, n, t, o, op.root, comm_), "MPI_Reduce");
        });
      case Collective::reduce_scatter:
        return make_call([=, this, n = count(op), t = type(op), o = reduction(op)](const void* s,
                                                                                   void* d) {
          if (d >= s && d < at(s, op.count * size_bytes(op.dtype) * ranks())) {
            throw UnsupportedError(
                "the in-place reduce_scatter of MPI stores a rank's part at another offset: use "
                "--placement out-of-place");
          }
          mpi_.check(mpi_.reduce_scatter_block(s, d, n, t, o, comm_), "MPI_Reduce_scatter_block");
        });
      case Collective::all_gather:
        return make_call([=, this, m = moved(op)](const void* s, void* d) {
          bool own = s == at(d, m.bytes * place());
          mpi_.check(
              mpi_.allgather(own ? in_place() : s, m.count, m.type, d, m.count, m.type, comm_),
              "MPI_Allgather");
        });
      case Collective::broadcast:
        return make_call([=, this, m = moved(op)](const void* s, void* d) {
          if (s != d) {
            throw UnsupportedError(
                "MPI supports broadcast in place only: use --placement in-place");
          }
          mpi_.check(mpi_.bcast(d, m.count, m.type, op.root, comm_), "MPI_Bcast");
        });
      case Collective::alltoall:
        return make_call([=, this, m = moved(op)](const void* s, void* d) {
          mpi_.check(mpi_.alltoall(s, m.count, m.type, d, m.count, m.type, comm_), "MPI_Alltoall");
        });
      case Collective::alltoallv:
        return bind_uneven(op);
      case Collective::gather:
        return make_call([=, this, m = moved(op)](const void* s, void* d) {
          bool own = rank_ == op.root && s == at(d, m.bytes * place());
          mpi_.check(mpi_.gather(own ? in_place() : s, m.count, m.type, d, m.count, m.type, op.root,
                                 comm_),
                     "MPI_Gather");
        });
      case Collective::scatter:
        return make_call([=, this, m = moved(op)](const void* s, void* d) {
          bool own = rank_ == op.root && d == at(s, m.bytes * place());
          void* to = own ? const_cast<void*>(in_place()) : d;
          mpi_.check(mpi_.scatter(s, m.count, m.type, to, m.count, m.type, op.root, comm_),
                     "MPI_Scatter");
        });
      case Collective::sendrecv:
        return make_call([=, this, m = moved(op), right = (rank_ + 1) % size_,
                          left = (rank_ + size_ - 1) % size_](const void* s, void* d) {
          mpi_.check(mpi_.sendrecv(s, m.count, m.type, right, kTag, d, m.count, m.type, left, kTag,
                                   comm_, constants_.ignore_status),
                     "MPI_Sendrecv");
        });
      case Collective::send:
        return make_call(
            [=, this, m = moved(op), to = (op.root + 1) % size_](const void* s, void* d) {
              if (rank_ == op.root) give(s, m, to);
              if (rank_ == to) take(d, m, op.root);
            });
      case Collective::ping_pong:
        require_two_ranks(size_);
        return make_call([=, this, m = moved(op), peer = 1 - rank_](const void* s, void* d) {
          if (rank_ == 0) give(s, m, peer);
          take(d, m, peer);
          if (rank_ != 0) give(s, m, peer);
        });
      case Collective::barrier:
        return make_call(
            [this](const void*, void*) { mpi_.check(mpi_.barrier(comm_), "MPI_Barrier"); });
      default:
        throw UnsupportedError("MPI has no known function for " + std::string(name(op.collective)));
    }
  }

  /// Data that is moved without arithmetic: words of the width of an element, or of 8 bytes if
  /// there are more elements than an int can count.
  struct Moved {
    int count;
    Handle type;
    size_t bytes;
  };
  Moved moved(const Operation& op) const {
    size_t width = size_bytes(op.dtype), bytes = op.count * width;
    if (op.count > kMost && bytes % 8 == 0) width = 8;
    return {counted(bytes / width), constants_.widths[order(width)], bytes};
  }

  void give(const void* data, const Moved& m, int to) {
    mpi_.check(mpi_.send(data, m.count, m.type, to, kTag, comm_), "MPI_Send");
  }
  void take(void* data, const Moved& m, int from) {
    mpi_.check(mpi_.recv(data, m.count, m.type, from, kTag, comm_, constants_.ignore_status),
               "MPI_Recv");
  }

  static constexpr size_t kMost = std::numeric_limits<int>::max();
  static int counted(size_t elements) {
    if (elements > kMost) throw UnsupportedError("MPI supports at most 2^31 - 1 elements");
    return static_cast<int>(elements);
  }
  static size_t order(size_t width) { return width == 8 ? 3 : width == 4 ? 2 : width == 2 ? 1 : 0; }

  int count(const Operation& op) const { return counted(op.count); }
  Handle type(const Operation& op) const {
    auto found = constants_.dtypes[static_cast<size_t>(op.dtype)];
    if (!found) throw UnsupportedError("MPI has no reductions of " + std::string(name(op.dtype)));
    return *found;
  }
  Handle reduction(const Operation& op) const {
    auto found = constants_.reductions[static_cast<size_t>(op.reduction)];
    if (!found) throw UnsupportedError("MPI has no reduction " + std::string(name(op.reduction)));
    return *found;
  }
  const void* in_place() const { return constants_.in_place; }
  size_t place() const { return static_cast<size_t>(rank_); }
  size_t ranks() const { return static_cast<size_t>(size_); }

  std::unique_ptr<Call> bind_uneven(const Operation& op) {
    auto whole = [](const std::vector<size_t>& sizes) {
      std::vector<int> result;
      for (size_t size : sizes) result.push_back(counted(size));
      return result;
    };
    // Ranks' counts differ: if one cannot do the operation, none may begin it.
    for (int rank = 0; rank < size_; ++rank) {
      UnevenParts each(op, rank, size_);
      for (const auto* sizes :
           {&each.send_counts, &each.send_offsets, &each.receive_counts, &each.receive_offsets}) {
        whole(*sizes);
      }
    }
    UnevenParts parts(op, rank_, size_);
    return make_call([=, this, t = constants_.widths[order(size_bytes(op.dtype))],
                      sent = whole(parts.send_counts), from = whole(parts.send_offsets),
                      received = whole(parts.receive_counts),
                      to = whole(parts.receive_offsets)](const void* s, void* d) {
      mpi_.check(
          mpi_.alltoallv(s, sent.data(), from.data(), t, d, received.data(), to.data(), t, comm_),
          "MPI_Alltoallv");
    });
  }

  Api<Handle> mpi_;
  Constants<Handle> constants_;
  Device& device_;
  const RankGroup& rank_group_;
  Handle comm_;
  int rank_;
  int size_;
};

class MpiCcl final : public Ccl {
 public:
  MpiCcl(const CclDescription& description, const CclPlaces& places)
      : library_(Library::open("MPI (libmpi)", candidates(description, places),
                               places.chosen.empty() ? description.variable : "",
                               Library::Symbols::for_all)),
        abi_(abi_of(library_)) {
    info_.name = description.name;
    info_.path = library_.path();
    info_.version = version();
    for (const DtypeInfo& dtype : kDtypes) info_.dtypes.emplace_back(dtype.name);
    info_.reduced_dtypes = {"int8",   "uint8", "int16",  "uint16",  "int32",
                            "uint32", "int64", "uint64", "float32", "float64"};
    info_.reductions = {"sum", "prod", "max", "min"};
    for (std::string_view collective : kCollectives) {
      info_.routes.emplace_back(collective, "native");
    }
  }

  const CclInfo& info() const override { return info_; }

  /// Empty: mpirun has assigned the ranks.
  std::vector<uint8_t> make_id(int) override { return {}; }

  void start(RankGroup& rank_group, const Device& device) override {
    speaking<bool>(rank_group, [&]<typename Handle>(const Constants<Handle>&) {
      require_aware_of(device);
      return std::make_unique<bool>(true);
    });
  }

  std::unique_ptr<Communicator> join(Device& device, std::span<const uint8_t>,
                                     RankGroup& rank_group) override {
    return speaking<Communicator>(
        rank_group, [&]<typename Handle>(const Constants<Handle>& constants) {
          require_aware_of(device);
          return std::make_unique<MpiCommunicator<Handle>>(library_, constants, device, rank_group);
        });
  }

  std::unique_ptr<HostExchange> open_host_exchange(RankGroup& rank_group) override {
    return speaking<HostExchange>(
        rank_group, [&]<typename Handle>(const Constants<Handle>& constants) {
          if (!process_->serialized()) {
            throw MissingError(
                library_.path() +
                " does not support calls from a separate thread (MPI_THREAD_SERIALIZED)");
          }
          return std::make_unique<MpiHostExchange<Handle>>(library_, constants, rank_group.rank());
        });
  }

 private:
  /// The result of `make` with the constants of this library, after MPI's initialisation.
  template <typename Made, typename Make>
  std::unique_ptr<Made> speaking(const RankGroup& rank_group, Make make) {
    // Each would abort the process, or take it for the only one, under the other's mpirun.
    // A batch system that speaks PMIx, as srun --mpi=pmix does, can start those of either.
    bool under_open_mpi = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
    bool under_pmix = std::getenv("PMIX_RANK") != nullptr;
    if (abi_ == Abi::mpich ? under_open_mpi
                           : abi_ == Abi::open_mpi && !under_open_mpi && !under_pmix) {
      throw MissingError(another_mpi(library_));
    }
    auto begun = [&]<typename Handle>(const Constants<Handle>& constants) -> std::unique_ptr<Made> {
      process_->begin(Api<Handle>(library_), constants, library_, rank_group);
      return make(constants);
    };
    switch (abi_) {
      case Abi::open_mpi:
        return begun(open_mpi_constants(library_));
      case Abi::mpich:
        return begun(mpich_constants());
      case Abi::standard:
        return begun(standard_constants());
    }
    throw Error("unknown binary interface of MPI");
  }

  static std::vector<std::string> candidates(const CclDescription& description,
                                             const CclPlaces& places) {
    if (!places.chosen.empty()) return {places.chosen};
    if (const char* chosen = setting(description.variable.c_str())) return {chosen};
    return places.wheels.empty() ? description.files : places.wheels;
  }

  /// The standard has a function that tells, which a library with other constants answers with -1.
  /// It comes first: a library of the standard's may stand on one that exports Open MPI's objects.
  static Abi abi_of(const Library& library) {
    int major = -1, minor = -1;
    auto ask = library.optional<int(int*, int*)>("MPI_Abi_get_version");
    if (ask != nullptr && ask(&major, &minor) == 0 && major > 0) return Abi::standard;
    bool exports = library.optional<char>("ompi_mpi_comm_world") != nullptr;
    return exports ? Abi::open_mpi : Abi::mpich;
  }

  /// Raises UnsupportedError unless the library reports support for buffers on such devices:
  /// without it the library would read them as host memory, and crash. To be called after
  /// MPI_Init: before it MPICH aborts a process that queries this.
  void require_aware_of(const Device& device) const {
    if (device.synchronous()) return;
    const std::string& runtime = device.info().runtime;
    std::string query = "MPIX_Query_" + runtime + "_support";
    auto ask = library_.optional<int()>(query.c_str());
    if (ask == nullptr && runtime == "hip") {
      query = "MPIX_Query_rocm_support";  // as Open MPI calls it
      ask = library_.optional<int()>(query.c_str());
    }
    if (ask != nullptr && ask() == 1) return;
    throw UnsupportedError(
        library_.path() +
        (ask != nullptr ? " was built without support for " : " does not report support for ") +
        "buffers on " + runtime + " devices (" + query +
        "): use an MPI that was built with it, the library of the devices "
        "(without --ccl mpi), or --devices host");
  }

  /// "Open MPI v5.0.11, package: …" and "MPICH Version:      5.0.2\n…" without what comes after.
  std::string version() const {
    std::array<char, kLongestText> text{};
    int length = 0;
    auto ask = library_.require<int(char*, int*)>("MPI_Get_library_version");
    if (ask(text.data(), &length) != 0) return "";
    std::string line(text.data());
    line = line.substr(0, line.find_first_of(",\n"));
    std::string words;
    for (char letter : line) {
      bool blank = letter == ' ' || letter == '\t';
      if (!blank || (!words.empty() && words.back() != ' ')) words += blank ? ' ' : letter;
    }
    return words + (abi_ == Abi::standard ? ", standard ABI" : "");
  }

  Library library_;
  Abi abi_;
  std::shared_ptr<MpiProcess> process_ = MpiProcess::shared();  // ends before it is unloaded
  CclInfo info_;
};

}  // namespace

std::unique_ptr<Ccl> open_mpi(const CclDescription& description, const CclPlaces& places) {
  return std::make_unique<MpiCcl>(description, places);
}

}  // namespace cclmark

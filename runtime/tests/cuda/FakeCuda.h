//===- FakeCuda.h - What tests ask of their CUDA driver ---------*- C++ -*-===//
//
// Functions of FakeCuda.cpp's library beside the driver's own, found by dlsym.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_CUDA_FAKECUDA_H
#define FUSION_RUNTIME_TESTS_CUDA_FAKECUDA_H

#include <cstdint>
#include <functional>

extern "C" {
/// Forgets counts, injected failures and a lost device; live objects stay.
void fakeCudaReset();
/// How often `entry` ("cuMemAlloc_v2") was called since the last reset; "all":
/// any that does more than push a context or tell a name; "early launches":
/// kernels that may begin while the one before them ends.
uint64_t fakeCudaCount(const char *entry);
/// The call of `entry` after `skipped` others gives `result`.
void fakeCudaFail(const char *entry, uint64_t skipped, int result);
/// "total" (bytes), "stolen" (of them, which nobody tells), "sm" (90),
/// "devices", "twins" (1: of one UUID), "version" (12080), "init" (result);
/// until the next reset, the kernel with this number, from 1 on, never ends
/// ("hang") or accesses a wrong address ("fault"). "peers": 0, no
/// other process' memory can be opened. "jitter": a number that graphs' steps
/// are delayed and reordered by, as far as streams and events allow.
void fakeCudaSet(const char *key, int64_t value);
/// Objects that were made and not destroyed: "memory", "stream", "event",
/// "module", "graph", "exec", "context" (retains), "pushed" (contexts).
int64_t fakeCudaLive(const char *kind);
/// Drops all objects, as the end of a process does.
void fakeCudaForget();
/// Memory of a device as a caller would have it: the host can't touch it.
void *fakeCudaAllocate(uint64_t size, int device);
void fakeCudaFree(void *pointer);
void fakeCudaWrite(void *device, const void *host, uint64_t size);
/// The host's memory behind `address`, or `address` if it is no device's.
void *fakeCudaBytes(void *address);
/// Work on `stream` that takes so many milliseconds; it may be captured.
int fakeCudaSpend(void *stream, double millis);
/// Work of another library: `act` gives 0, an error that the device is lost by,
/// or 600 if it must be asked again.
int fakeCudaSubmit(void *stream, const std::function<int()> &act);
void fakeCudaRead(void *host, const void *device, uint64_t size);
}

#endif // FUSION_RUNTIME_TESTS_CUDA_FAKECUDA_H

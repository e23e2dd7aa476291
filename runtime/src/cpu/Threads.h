//===- Threads.h - The thread pool of the CPU backend -----------*- C++ -*-===//
//
// Kernels run on libgomp's pool through its own entry point, because the
// library's primitives (oneDNN) do: one set of threads, no oversubscription,
// and nothing to wake between a call and its epilogue.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CPU_THREADS_H
#define FUSION_RUNTIME_CPU_THREADS_H

#include "NativeCode.h"

#include <cstdint>

namespace fusion::rt {

/// The CPUs this process may run on.
int availableThreads();

/// Sets the number of threads that parallel regions of the calling thread use
/// (the library's included) while it lives.
class ThreadCountScope {
public:
  explicit ThreadCountScope(int threads);
  ~ThreadCountScope();
  ThreadCountScope(const ThreadCountScope &) = delete;
  ThreadCountScope &operator=(const ThreadCountScope &) = delete;

private:
  int previous;
};

/// Runs units [begin, end) of a kernel on up to `threads` threads, in ranges of
/// at least `grain` units.
void runUnits(KernelFunction function, void *const *buffers, int64_t batch,
              int64_t begin, int64_t end, int64_t grain, int threads);

/// Calls `task(data, index, thread)` for each index in [0, count) on up to
/// `threads` threads, numbered from 0.
void runTasks(void (*task)(void *data, int64_t index, int thread), void *data,
              int64_t count, int threads);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_THREADS_H

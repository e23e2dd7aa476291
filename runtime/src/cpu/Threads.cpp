//===- Threads.cpp - The thread pool of the CPU backend -------------------===//
//
// `GOMP_parallel` is the function GCC calls for `#pragma omp parallel`; it is
// stable ABI of libgomp.so.1. Calling it directly keeps this independent of the
// compiler's own OpenMP runtime (clang's would bring a second pool).
//
//===----------------------------------------------------------------------===//
#include "Threads.h"

#include <algorithm>
#include <sched.h>

extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

using namespace fusion::rt;

int fusion::rt::availableThreads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(1, CPU_COUNT(&set));
  return 1;
}

ThreadCountScope::ThreadCountScope(int threads)
    : previous(omp_get_max_threads()) {
  if (previous != threads)
    omp_set_num_threads(threads);
}

ThreadCountScope::~ThreadCountScope() {
  if (omp_get_max_threads() != previous)
    omp_set_num_threads(previous);
}

namespace {
struct Work {
  KernelFunction function;
  void *const *buffers;
  int64_t batch, begin, units, pieces;
};
} // namespace

static void runPieces(void *data) {
  const Work &work = *static_cast<Work *>(data);
  // The pool may give fewer threads than asked for: stride over the pieces.
  int64_t step = omp_get_num_threads();
  for (int64_t i = omp_get_thread_num(); i < work.pieces; i += step) {
    int64_t share = work.units / work.pieces, rest = work.units % work.pieces;
    int64_t from = i * share + std::min(i, rest);
    work.function(work.buffers, work.batch, work.begin + from,
                  work.begin + from + share + (i < rest));
  }
}

void fusion::rt::runUnits(KernelFunction function, void *const *buffers,
                          int64_t batch, int64_t begin, int64_t end,
                          int64_t grain, int threads) {
  int64_t units = end - begin;
  if (units <= 0)
    return;
  // Each piece gets at least units / pieces >= grain units.
  int64_t pieces = std::min<int64_t>(threads, units / grain);
  if (pieces <= 1) {
    function(buffers, batch, begin, end);
    return;
  }
  Work work{function, buffers, batch, begin, units, pieces};
  GOMP_parallel(runPieces, &work, unsigned(pieces), 0);
}

namespace {
struct Tasks {
  void (*task)(void *, int64_t, int);
  void *data;
  int64_t count;
};
} // namespace

static void runSomeTasks(void *data) {
  const Tasks &tasks = *static_cast<Tasks *>(data);
  int thread = omp_get_thread_num(), step = omp_get_num_threads();
  for (int64_t i = thread; i < tasks.count; i += step)
    tasks.task(tasks.data, i, thread);
}

void fusion::rt::runTasks(void (*task)(void *, int64_t, int), void *data,
                          int64_t count, int threads) {
  Tasks tasks{task, data, count};
  GOMP_parallel(runSomeTasks, &tasks,
                unsigned(std::min<int64_t>(std::max(threads, 1), count)), 0);
}

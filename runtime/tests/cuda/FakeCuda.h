//===- FakeCuda.h - What the fake driver saw, and how it fails --*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_CUDA_FAKECUDA_H
#define FUSION_RUNTIME_TESTS_CUDA_FAKECUDA_H

#include <cstddef>

struct FakeCuda {
  // Seen.
  long objects = 0; ///< made and not destroyed, memory included
  long allocations = 0, uploads = 0, captures = 0, updates = 0;
  long graphLaunches = 0, kernels = 0, calls = 0, callsAfterLoss = 0;
  unsigned threads = 0; ///< of the last kernel
  bool loadedPtx = false;
  // Set by a test.
  const char *failingCall = nullptr; ///< returns `failure`; 700 loses the GPU
  int failure = 0, ptxFailure = 0;
  int major = 9, ordinal = 0;
  bool isLost = false;
  size_t freeMemory = size_t(1) << 40;
};

#endif // FUSION_RUNTIME_TESTS_CUDA_FAKECUDA_H

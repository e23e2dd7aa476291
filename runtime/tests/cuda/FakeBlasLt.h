//===- FakeBlasLt.h - What tests ask of their cuBLASLt ----------*- C++ -*-===//
//
// Functions of FakeBlasLt.cpp's library beside those of cuBLASLt.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_CUDA_FAKEBLASLT_H
#define FUSION_RUNTIME_TESTS_CUDA_FAKEBLASLT_H

#include <cstdint>

/// One cublasLtMatmul.
struct FakeProduct {
  int64_t batch;
  int64_t stepA, stepB, stepC, stepD, stepBias; ///< elements
  uint64_t alignment;                           ///< that the algorithm needs
  void *stream, *workspace;
  uint64_t algorithm; ///< from 0 on
  uint64_t swizzle;   ///< that it was set to
  int64_t epilogue;
  uint64_t workspaceSize; ///< bytes that it was given
  int64_t units;          ///< that it may take; 0: all
};

extern "C" {
/// Forgets all products and settings.
void fakeBlasLtReset();
uint64_t fakeBlasLtCount();
const FakeProduct *fakeBlasLtProduct(uint64_t index);
/// Algorithms for more than one matrix are known (1); the attribute for
/// distances of biases is known (1); bytes of workspace (512).
/// How many algorithms there are (1), and milliseconds that the products of one
/// take on the tests' driver (0). `key`: "batches", "bias step", "workspace",
/// "unaligned" (1: there are algorithms for operands at any address),
/// "no counter" (0; 1: algorithms need no workspace if they may have none),
/// "algorithms", "batch algorithm" (0; the first that is named for a batch),
/// "waves" and "batch waves" (0; percent of the device that a product fills),
/// "swizzles" (0; 1: algorithms may be set to one), "gradients" (1: there are
/// algorithms for gradients beside a product), "millis 0",
/// "millis 1", "millis 1 swizzle 2" ...
void fakeBlasLtSet(const char *key, int64_t value);
}

#endif // FUSION_RUNTIME_TESTS_CUDA_FAKEBLASLT_H

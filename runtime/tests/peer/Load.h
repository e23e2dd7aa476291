//===- Load.h - Matmuls to run beside collectives ---------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_PEER_LOAD_H
#define FUSION_RUNTIME_TESTS_PEER_LOAD_H

#include "DeviceRank.h"
#include "LibraryCalls.h"

namespace fusion::rt::test {

/// A bf16 product [m, k] x [k, n] by cuBLASLt, on memory of its own; nothing
/// where the library is not installed.
class Load {
public:
  Load(const DeviceRank &device, int64_t m, int64_t n, int64_t k);
  ~Load();
  Load(const Load &) = delete;
  bool isThere() const { return call != nullptr; }
  void enqueue(CUstream stream);

private:
  const DeviceRank &device;
  std::unique_ptr<CudaLibraries> libraries;
  std::unique_ptr<CudaCall> call;
  std::vector<char *> memory; ///< operands, then the workspace
};

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_PEER_LOAD_H

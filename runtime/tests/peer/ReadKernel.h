//===- ReadKernel.h - A kernel that reads where it is told ------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_PEER_READKERNEL_H
#define FUSION_RUNTIME_TESTS_PEER_READKERNEL_H

#include "DeviceRank.h"

namespace fusion::rt::test {

/// Copies as a kernel of the compiler would read: by loads that assume nobody
/// writes meanwhile.
class ReadKernel {
public:
  /// `vectors`: 16 bytes a load, else 4.
  ReadKernel(const DeviceRank &device, bool vectors);
  ~ReadKernel();
  ReadKernel(const ReadKernel &) = delete;
  /// `bytes` is a multiple of a load's, and so are the addresses.
  void enqueue(char *to, const char *from, uint64_t bytes,
               CUstream stream) const;

private:
  const DeviceRank &device;
  uint64_t width;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_PEER_READKERNEL_H

//===- PeerWait.h - Waiting by a kernel that spins --------------*- C++ -*-===//
//
// The way out where a stream memory operation does not wait as it should: one
// block of a thread a flag. It holds a slot of one multiprocessor.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_PEERWAIT_H
#define FUSION_RUNTIME_COMM_PEERWAIT_H

#include "PtxKernel.h"

#include <memory>

namespace fusion::rt::peer {

/// The context is current in all functions.
class SpinKernel {
public:
  /// Loaded at once, never by a launch: loading waits for the device.
  static Expected<std::unique_ptr<SpinKernel>> load(const cuda::Driver &driver);

  /// Waits until the words `words[i]` of all bits i of `mask` are 1, and sets
  /// them to 0.
  Status enqueue(cuda::CUdeviceptr words, uint64_t mask,
                 cuda::CUstream stream) const;

private:
  explicit SpinKernel(const cuda::Driver &driver)
      : driver(driver), code(driver) {}
  const cuda::Driver &driver;
  cuda::PtxKernel code;
};

} // namespace fusion::rt::peer

#endif // FUSION_RUNTIME_COMM_PEERWAIT_H

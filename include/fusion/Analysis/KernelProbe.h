//===- KernelProbe.h - What the compiler of kernels says --------*- C++ -*-===//
//
// Granularity estimates the resources of a group (KernelResources.h). Where a
// target compiles groups one at a time, its probe gives the real numbers. The
// interface stands here, the implementations with the targets: the fuse phase
// is handed one and never calls code generation itself.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_KERNELPROBE_H
#define FUSION_ANALYSIS_KERNELPROBE_H

#include "fusion/IR/FusionDialect.h"
#include "llvm/ADT/StringMap.h"

#include <mutex>
#include <optional>

namespace fusion {

struct DeviceModel;
struct KernelResources;

/// What compiling one group showed.
struct ProbeResult {
  int64_t registersPerThread = 0; ///< 32-bit
  int64_t spillBytes = 0;         ///< a thread, stores and loads
  int64_t sharedBytes = 0;        ///< a block
  int64_t workspaceBytes = 0;     ///< device memory, a launch
  int64_t binaryBytes = 0;
};

/// Compiles groups to see what they need. Equal bodies are compiled once.
class KernelProbe {
public:
  virtual ~KernelProbe() = default;

  /// The figures of `group`, or nullopt if the target can't compile it on its
  /// own. Thread safe; the same answer for equal groups, in whatever order.
  std::optional<ProbeResult> probe(GroupOp group);

  /// Whether a group of this estimate is to be compiled: most are far from any
  /// limit, and compiling takes time.
  virtual bool isNeeded(const KernelResources &estimate,
                        const DeviceModel &device) const {
    return true;
  }

protected:
  virtual std::optional<ProbeResult> compile(GroupOp group) = 0;

private:
  std::mutex mutex;
  /// By the text of the body, operands of the group left out.
  llvm::StringMap<std::optional<ProbeResult>> known;
};

} // namespace fusion

#endif // FUSION_ANALYSIS_KERNELPROBE_H

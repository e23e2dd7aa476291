//===- NativeCode.h - A module's kernels, loaded ----------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CPU_NATIVECODE_H
#define FUSION_RUNTIME_CPU_NATIVECODE_H

#include "ModuleData.h"
#include "Status.h"

#include <memory>

namespace fusion::rt {

/// The ABI of a kernel (see `Kernel` in ModuleData.h).
using KernelFunction = void (*)(void *const *buffers, int64_t batch,
                                int64_t begin, int64_t end);

/// The native code of one module, mapped from a sealed memfd. It is a distinct
/// library even if another module's code is loaded in the same process.
class NativeCode {
public:
  /// Checks CPU features and the ELF image, maps it and fills its imports.
  /// Only call this for a module whose code the user consented to run.
  /// Errors: `Rejected`, or `Environment` if the system refuses the mapping.
  static Expected<std::unique_ptr<NativeCode>> load(const Module &module);

  ~NativeCode();
  NativeCode(const NativeCode &) = delete;
  NativeCode &operator=(const NativeCode &) = delete;

  /// By index into `Module::kernels`.
  const std::vector<KernelFunction> &kernels() const { return functions; }

private:
  NativeCode() = default;

  int descriptor = -1;
  void *handle = nullptr;
  std::vector<KernelFunction> functions;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_NATIVECODE_H

//===- SharedLibrary.h - Libraries opened when they are needed --*- C++ -*-===//
//
// cuBLASLt and cuDNN are opened by name on first use: a machine without them
// runs every module that does not call them.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_SHAREDLIBRARY_H
#define FUSION_RUNTIME_CUDA_SHAREDLIBRARY_H

#include "Status.h"

#include <dlfcn.h>
#include <initializer_list>
#include <string>

namespace fusion::rt::cuda {

/// Opens the first of `names` that the system finds; it is never closed.
/// `Environment` if there is none: says what was tried and how to get it.
inline Expected<void *> openShared(const char *what,
                                   std::initializer_list<const char *> names) {
  std::string tried;
  for (const char *name : names) {
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return library;
    const char *reason = dlerror();
    tried += std::string(tried.empty() ? "" : "; ") + (reason ? reason : name);
  }
  return Status(Code::Environment,
                std::string(what) + " not found (" + tried +
                    "); install it, or put its folder on LD_LIBRARY_PATH");
}

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_SHAREDLIBRARY_H

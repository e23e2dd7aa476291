//===- LinkSharedObject.h - lld as a library --------------------*- C++ -*-===//
#ifndef FUSION_LIB_CODEGEN_CPU_LINKSHAREDOBJECT_H
#define FUSION_LIB_CODEGEN_CPU_LINKSHAREDOBJECT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace fusion {

/// Links ELF objects to a shared object without undefined symbols. An error
/// has the code executable_format_error if an object of the user, of which
/// there are some with `hasUserObjects`, may be at fault. Leaves nothing on
/// disk, even if the process is killed. Thread safe (linker runs take turns).
llvm::Expected<std::vector<uint8_t>>
linkSharedObject(llvm::ArrayRef<llvm::ArrayRef<char>> objects,
                 bool hasUserObjects);

} // namespace fusion

#endif // FUSION_LIB_CODEGEN_CPU_LINKSHAREDOBJECT_H

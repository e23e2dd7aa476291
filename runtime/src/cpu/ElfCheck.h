//===- ElfCheck.h - What native code may look like --------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CPU_ELFCHECK_H
#define FUSION_RUNTIME_CPU_ELFCHECK_H

#include "ModuleData.h"
#include "Status.h"

namespace fusion::rt {

/// Checks, without mapping anything executable, that an x86-64 shared object
/// runs nothing and needs nothing when it is loaded: no DT_NEEDED or search
/// paths, no constructors or destructors, no undefined symbols, no indirect
/// functions, no text relocations, no thread-local storage, no interpreter; no
/// segment is both writable and executable, and the stack isn't executable.
/// Each of `kernels` must be a function in an executable segment and
/// `fusion_imports` a writable array of `importCount` pointers. Errors are
/// `Rejected`.
Status checkElf(const std::vector<uint8_t> &code,
                const std::vector<Kernel> &kernels, size_t importCount);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_ELFCHECK_H

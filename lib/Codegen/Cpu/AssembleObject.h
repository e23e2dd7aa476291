//===- AssembleObject.h - Assembly text to an object ------------*- C++ -*-===//
#ifndef FUSION_LIB_CODEGEN_CPU_ASSEMBLEOBJECT_H
#define FUSION_LIB_CODEGEN_CPU_ASSEMBLEOBJECT_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace fusion::codegen {

/// Makes LLVM's code generator and assembler known; once a process, whoever
/// asks.
void initializeX86();

/// Assembles x86-64 text in AT&T syntax to an ELF object, in memory. The error
/// is the assembler's first. Thread safe.
llvm::Expected<llvm::SmallVector<char, 0>>
assembleObject(llvm::StringRef assembly);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CPU_ASSEMBLEOBJECT_H

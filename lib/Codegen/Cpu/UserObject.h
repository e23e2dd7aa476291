//===- UserObject.h - The object of a user's source -------------*- C++ -*-===//
//
// What the module's loader would refuse is refused here, where it can be told
// in the words of the source; what the object needs of the runtime is listed,
// and its names are made its own.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_CPU_USEROBJECT_H
#define FUSION_LIB_CODEGEN_CPU_USEROBJECT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>
#include <vector>

namespace fusion::codegen {

/// Signature of a function of the runtime's table, "" if it has none of that
/// name.
std::string getImportSignature(llvm::StringRef name);

/// Whether `name` is one of the functions that are linked with the kernels:
/// memcpy and its kin.
bool isLinkedFunction(llvm::StringRef name);

/// Checks an object and lists the functions that it calls, in order of their
/// names. `isPure`: it may have no data to write. The error completes "the
/// kernel ..."; data it may not have, code it may not have, or a call of
/// something that no kernel may call.
llvm::Expected<std::vector<std::string>>
checkUserObject(llvm::ArrayRef<char> object, bool isPure);

/// The object with each of `entries` renamed from the first to the second name,
/// and every other definition made local. Fails if it defines no such entry.
llvm::Expected<llvm::SmallVector<char, 0>>
isolateUserObject(llvm::ArrayRef<char> object,
                  llvm::ArrayRef<std::pair<std::string, std::string>> entries);

/// An object with the functions that user's objects call: those that are
/// linked, and for each of the table one that jumps to where the array
/// `fusion_imports` says. `ordinals`: by name, its place there.
llvm::Expected<llvm::SmallVector<char, 0>>
makeSupportObject(llvm::ArrayRef<std::pair<std::string, size_t>> ordinals);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CPU_USEROBJECT_H

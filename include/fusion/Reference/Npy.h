//===- Npy.h - Tensors in .npy and .npz files -------------------*- C++ -*-===//
//
// Reads and writes NumPy's file format, versions 1 and 2, numeric types only:
// a header is text of at most 64 KiB, never evaluated. bf16, which NumPy lacks,
// travels as '<u2' (or raw '<V2') and is told apart by the kind that the reader
// expects.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_REFERENCE_NPY_H
#define FUSION_REFERENCE_NPY_H

#include "fusion/Reference/Tensor.h"

#include <map>

namespace fusion::reference {

/// Tensor of `kind` from the bytes of an .npy file; `where` names it in errors.
/// Fails with `Usage` if the bytes are no such file, are cut short, or hold
/// another element type.
llvm::Expected<Tensor> parseNpy(llvm::StringRef bytes, ElementKind kind,
                                llvm::StringRef where,
                                std::shared_ptr<MemoryBudget> budget = nullptr);

/// The same from a file.
llvm::Expected<Tensor> readNpy(llvm::StringRef path, ElementKind kind,
                               std::shared_ptr<MemoryBudget> budget = nullptr);

/// Contents of an .npz file: the bytes of each .npy member by its name without
/// the suffix. Members are stored or deflated, as numpy.savez writes them.
/// Fails with `Usage` for a damaged archive, or one above 4 GiB unpacked.
llvm::Expected<std::map<std::string, std::string>>
readNpz(llvm::StringRef path);

/// Writes a file atomically: it appears complete, or the old one stays. Fails
/// with `Resources`.
llvm::Error writeNpy(llvm::StringRef path, const Tensor &tensor);

} // namespace fusion::reference

#endif // FUSION_REFERENCE_NPY_H

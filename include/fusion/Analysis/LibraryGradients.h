//===- LibraryGradients.h - Gradients beside a product ----------*- C++ -*-===//
//
// Which gradients cuBLASLt computes with a product: its result times the slope
// of an activation, and the sum of one of its matrices, which is the gradient
// of a bias. Forms are found in ops of a graph and in the bodies of groups
// alike. A form names no op: a slope is what takes its values.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_LIBRARYGRADIENTS_H
#define FUSION_ANALYSIS_LIBRARYGRADIENTS_H

#include "fusion/IR/FusionDialect.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>

namespace fusion {

/// The matrix of a product that is summed: a side over the dimension that the
/// product sums over, or the result over its rows.
enum class SummedMatrix { None, Lhs, Rhs, Result };

/// "", "lhs", "rhs" or "result", as a call says it.
llvm::StringRef stringifySummed(SummedMatrix summed);

struct LibraryGradients {
  /// What the product becomes: its own result, or that times the slope.
  mlir::Value result;
  /// Where the slope is taken, of the result's type; null without a slope.
  mlir::Value slopeAt;
  SummedMatrix summed = SummedMatrix::None;
  /// [columns], of the result's element type; for Lhs [rows]. Null without.
  mlir::Value sum;
  /// What computes `result` behind the product, and `sum`; and these with the
  /// product, each in the order of the block.
  llvm::SmallVector<mlir::Operation *> slopeOps, sumOps, ops;
};

/// The gradients that the library computes with `root`, made of ops that
/// `isInside` takes. Nullopt where there is none; if it has the form of one
/// that the library doesn't compute, `reason` (if given) says why not.
std::optional<LibraryGradients>
findLibraryGradients(MatmulOp root,
                     llvm::function_ref<bool(mlir::Operation *)> isInside,
                     std::string *reason = nullptr);

/// A unit attribute of the groups that fusion-fuse-gradients forms.
inline constexpr llvm::StringLiteral kGradientsAttr = "fusion.gradients";

/// The same in the body of a group, if the gradients are all that it computes.
/// One with a slope alone has to say so by the attribute: vertical fusion forms
/// such groups too, whose slope is a kernel.
std::optional<LibraryGradients> findLibraryGradients(GroupOp group);

} // namespace fusion

#endif // FUSION_ANALYSIS_LIBRARYGRADIENTS_H

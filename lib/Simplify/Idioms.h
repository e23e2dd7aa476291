//===- Idioms.h - Chains of primitives that spell a named op ----*- C++ -*-===//
//
// What the matchers of RaiseIdioms.cpp share: the finding that they return, and
// how they read a graph in canonical form: splat constants behind broadcasts,
// unit dimensions that come and go, rows that a reduction was spread over.
// Matchers only look.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SIMPLIFY_IDIOMS_H
#define FUSION_LIB_SIMPLIFY_IDIOMS_H

#include "fusion/IR/FusionDialect.h"

#include <optional>
#include <string>

namespace fusion {

enum class IdiomKind { LayerNorm, RmsNorm, Softmax, LogSoftmax, Gelu, Silu };

/// A named op that a chain of primitives spells, or nearly spells.
struct Idiom {
  IdiomKind kind;
  /// The op whose result the named op has.
  mlir::Operation *root = nullptr;
  /// The ops that the named op stands for, root included; nothing else reads
  /// them.
  llvm::SmallVector<mlir::Operation *> interior;
  mlir::Value input;
  /// Norms: values with the elements of `input.shape[axis:]`, or null.
  mlir::Value scale, bias;
  int64_t axis = 0;
  double epsilon = 0.0;
  GeluKind gelu = GeluKind::Erf;
  /// Each reason for which bits may change; empty: the named op decomposes into
  /// this very chain.
  llvm::SmallVector<llvm::StringRef> roundings;
  /// What a norm leaves outside, and why; empty if nothing.
  std::string note;
  /// Why the chain is not the named op; empty if it is.
  std::string refusal;

  explicit Idiom(IdiomKind kind) : kind(kind) {}
  llvm::StringRef getOpName() const;
  void print(llvm::raw_ostream &os) const;

  /// Takes `op` for part of the idiom.
  void take(mlir::Operation *op) { interior.push_back(op); }
  void addRounding(llvm::StringRef reason);
  Idiom &refuse(std::string why) {
    refusal = std::move(why);
    return *this;
  }
};

/// Each asks whether `anchor`, the op that is found nowhere else, is part of an
/// idiom. Nullopt: nothing like it; a refusal: close, but not it.
///@{
/// `anchor`: sqrt, rsqrt or a power of +-1/2, of a mean of squares.
std::optional<Idiom> matchNorm(mlir::Operation *anchor);
/// `anchor`: a sum of exponentials, or the logarithm of a softmax.
std::optional<Idiom> matchSoftmax(mlir::Operation *anchor);
/// `anchor`: erf or tanh.
std::optional<Idiom> matchGelu(mlir::Operation *anchor);
/// `anchor`: sigmoid or exp.
std::optional<Idiom> matchSilu(mlir::Operation *anchor);
///@}

//===----------------------------------------------------------------------===//
// Reading the graph
//===----------------------------------------------------------------------===//

mlir::RankedTensorType getTensorType(mlir::Value value);

/// The number that every element of a float tensor equals, also behind
/// broadcasts and reshapes.
std::optional<double> getSplatNumber(mlir::Value value);

/// The operand of a binary op beside `value`, or null if it has none.
mlir::Value getOther(mlir::Operation *binary, mlir::Value value);

/// The operand of `op` that is no splat, with the splat's number, if just one
/// is; `splatFirst` says that the splat is the left one.
struct SplatOperand {
  mlir::Value rest;
  double number;
  bool splatFirst;
};
std::optional<SplatOperand> getSplatOperand(mlir::Operation *op);

/// Skips reshapes that only add or drop unit dimensions, taking them for part
/// of `idiom`.
mlir::Value skipUnitReshapes(mlir::Value value, Idiom &idiom);

/// The value that `value` repeats along the dimensions `rows`, unit dimensions
/// aside: element i of its other dimensions is element i there. Takes the moves
/// for part of `idiom`; null if it is none.
mlir::Value matchSpreadRows(mlir::Value value, llvm::ArrayRef<int64_t> rows,
                            Idiom &idiom);

/// Whether `value` holds the elements of the dimensions from `axis` on, the
/// same for each row: returns the value without the repetition, or null.
mlir::Value matchPerColumn(mlir::Value value, int64_t axis);

/// The only op that reads `op`'s result, or null. Unit reshapes between are
/// taken for part of `idiom`; `value` becomes the operand that is read.
mlir::Operation *getOnlyReader(mlir::Value &value, Idiom &idiom);

/// The first value of the interior, the root's aside, that something else
/// reads, as a refusal; empty if there is none.
std::string findOutsideReader(const Idiom &idiom);

/// Whether all of `dims` are static.
bool areStatic(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> dims);

/// A number as short as it goes, for messages.
std::string formatNumber(double value);

/// "[1, 2]".
std::string formatDims(llvm::ArrayRef<int64_t> dims);

/// Adds the rounding that every op of several roundings has on f16 and bf16:
/// the named one computes in f32.
void addNarrowRounding(Idiom &idiom);

} // namespace fusion

#endif // FUSION_LIB_SIMPLIFY_IDIOMS_H

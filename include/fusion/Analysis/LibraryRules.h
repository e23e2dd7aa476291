//===- LibraryRules.h - What a vendor's library computes --------*- C++ -*-===//
//
// The compiler's own table of what oneDNN (cpu), cuBLASLt and cuDNN (cuda) are
// given and what they may absorb as an epilogue. It is data: compiling loads no
// library, so groups are the same on every machine. Which rows count depends on
// what the module of an op is compiled for (Target.h).
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_LIBRARYRULES_H
#define FUSION_ANALYSIS_LIBRARYRULES_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fusion {

/// One row of the table.
struct LibraryRule {
  llvm::StringLiteral op;      ///< mnemonic, e.g. "conv"
  llvm::StringLiteral dtype;   ///< element type of all operands
  int64_t minRank, maxRank;    ///< of the first operand
  llvm::StringLiteral layouts; ///< memory orders taken, fast one first
  bool absorbsBias;            ///< `add` of a channel broadcast
  bool absorbsAddend;          ///< `add` of a tensor of the output's shape
  llvm::StringLiteral nan;     ///< what happens to a NaN
  /// The absorbed ops give the bits of our own scalar bodies run afterwards: a
  /// bias and an addend on the cpu, one of them on a GPU, where the library
  /// adds the addend first. What is not equal is absorbed under fast only.
  bool epilogueBitEqual;
  llvm::StringLiteral library, leastVersion;
  llvm::StringLiteral activations = ""; ///< absorbed under fast arithmetic
  /// Computed beside a product of two matrices under fast arithmetic
  /// (LibraryGradients.h): "side", the sum over a side's rows; activations
  /// whose slope the result is multiplied by; "result", the sum of that.
  llvm::StringLiteral gradients = "";
};

/// Post-ops that are never absorbed on the cpu, and why.
struct LibraryRefusal {
  llvm::StringLiteral op;
  llvm::StringLiteral reason;
};

/// The rows of a target, "cpu" or "cuda".
llvm::ArrayRef<LibraryRule> getLibraryRules(llvm::StringRef target = "cpu");
llvm::ArrayRef<LibraryRefusal> getLibraryRefusals();

/// The row that serves `op`, or null; then `reason` (if given) says why not.
const LibraryRule *findLibraryRule(mlir::Operation *op,
                                   std::string *reason = nullptr);

/// The part an op plays behind a library op whose value is `chained`.
enum class LibraryEpilogue { None, Bias, Addend, Activation };

/// Whether `op`, which reads `chained`, can be absorbed. `root` is the library
/// op, `hasBias` and `hasAddend` what it absorbed before. The order is fixed:
/// first a bias, then an addend, then an activation, which ends the epilogue.
LibraryEpilogue classifyLibraryEpilogue(mlir::Operation *root,
                                        mlir::Operation *op,
                                        mlir::Value chained, bool hasBias,
                                        bool hasAddend,
                                        std::string *reason = nullptr);

/// The tensor that an absorbed `op` adds: the 1-D operand of the channel
/// broadcast for a bias, else the other operand of the `add`; null for an
/// activation.
mlir::Value getLibraryEpilogueOperand(mlir::Operation *op, mlir::Value chained,
                                      LibraryEpilogue kind);

/// What an absorbed activation is called in a call: "relu" or "gelu_tanh".
llvm::StringRef getLibraryActivation(mlir::Operation *op);

/// Dimension of the output that holds channels (conv) or columns (matmul).
int64_t getLibraryChannelDim(mlir::Operation *root);

void printLibraryRules(llvm::raw_ostream &os);

} // namespace fusion

#endif // FUSION_ANALYSIS_LIBRARYRULES_H

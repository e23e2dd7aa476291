//===- LibraryRules.h - What the CPU library computes -----------*- C++ -*-===//
//
// The compiler's own table of what oneDNN is given and what it may absorb as an
// epilogue. It is data: compiling loads no library, so groups are the same on
// every machine. Each row was tried against the least version that it names.
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
  /// The absorbed ops give the bits of our own scalar bodies run afterwards.
  bool epilogueBitEqual;
  llvm::StringLiteral leastVersion; ///< of oneDNN
};

/// Post-ops that are never absorbed under strict arithmetic, and why.
struct LibraryRefusal {
  llvm::StringLiteral op;
  llvm::StringLiteral reason;
};

llvm::ArrayRef<LibraryRule> getLibraryRules();
llvm::ArrayRef<LibraryRefusal> getLibraryRefusals();

/// The row that serves `op`, or null; then `reason` (if given) says why not.
const LibraryRule *findLibraryRule(mlir::Operation *op,
                                   std::string *reason = nullptr);

/// The part an op plays behind a library op whose value is `chained`.
enum class LibraryEpilogue { None, Bias, Addend };

/// Whether `op`, which reads `chained`, can be absorbed. `root` is the library
/// op, `hasBias` and `hasAddend` what it absorbed before. The order is fixed:
/// first a bias, then an addend.
LibraryEpilogue classifyLibraryEpilogue(mlir::Operation *root,
                                        mlir::Operation *op,
                                        mlir::Value chained, bool hasBias,
                                        bool hasAddend,
                                        std::string *reason = nullptr);

/// The tensor that an absorbed `op` adds: the 1-D operand of the channel
/// broadcast for a bias, else the other operand of the `add`.
mlir::Value getLibraryEpilogueOperand(mlir::Operation *op, mlir::Value chained,
                                      LibraryEpilogue kind);

/// Dimension of the output that holds channels (conv) or columns (matmul).
int64_t getLibraryChannelDim(mlir::Operation *root);

void printLibraryRules(llvm::raw_ostream &os);

} // namespace fusion

#endif // FUSION_ANALYSIS_LIBRARYRULES_H

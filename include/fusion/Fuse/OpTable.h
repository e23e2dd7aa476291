//===- OpTable.h - The ops of a graph by stable names -----------*- C++ -*-===//
//
// How people and plan files name an op, whatever its SSA values are called:
// by its position and the hash of the expression it computes
// (`conv#3:1f2e3d4c`), by its position alone (`#3`), by its location's name
// (`@Conv@1`), or by its line in the model's text (`:12`). And the hash of a
// whole graph, which depends on no names of values, no locations and no
// printing.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_FUSE_OPTABLE_H
#define FUSION_FUSE_OPTABLE_H

#include "fusion/Analysis/FusionLegality.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <unordered_map>

namespace fusion {

/// One op as it was when the table was made.
struct TableOp {
  mlir::OperationName name;
  mlir::Location loc;
  /// Of the op's name, attributes and result types and of its operands' own
  /// hashes: equal expressions have equal ones.
  uint64_t hash;
  OpFamily family;
  /// It does no arithmetic: a constant, a view, or cheap to repeat.
  bool isMinor;
};

/// The ops of a function of one block, in program order, without the
/// terminator. What it says stays true of the function as it was.
class OpTable {
public:
  OpTable() = default;
  explicit OpTable(mlir::Block &block);

  unsigned size() const { return ops.size(); }
  const TableOp &operator[](unsigned op) const { return ops[op]; }

  /// The index of an op that was in the block. Meaningless for one that has
  /// been erased since.
  std::optional<unsigned> find(mlir::Operation *op) const;

  /// `conv#3:1f2e3d4c`; ops of other dialects carry their dialect's name.
  std::string getId(unsigned op) const;
  /// `conv#3 "Conv@1"`: for messages.
  std::string describe(unsigned op) const;
  /// The first name in the op's location, or an empty one.
  std::string getLocationName(unsigned op) const;

  /// 32 hexadecimal digits: of the arguments, every op in order, the results,
  /// and the bounds of the batch.
  llvm::StringRef getGraphHash() const { return graphHash; }

  /// The op that a text names, in one of the four forms. Fails if there is
  /// none, with the nearest names, or if there are several; of several the only
  /// one that isn't minor is meant. An id is found by its hash if it stands
  /// elsewhere now.
  llvm::Expected<unsigned> lookup(llvm::StringRef text) const;

private:
  llvm::Expected<unsigned> lookupId(llvm::StringRef text) const;
  llvm::Expected<unsigned> lookupIndex(llvm::StringRef text) const;
  llvm::Expected<unsigned> lookupName(llvm::StringRef name) const;
  llvm::Expected<unsigned> lookupLine(llvm::StringRef text) const;
  llvm::Expected<unsigned> selectOnly(llvm::ArrayRef<unsigned> found,
                                      llvm::StringRef text) const;

  llvm::SmallVector<TableOp, 0> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
  /// By the part of the hash that ids show.
  std::unordered_map<uint32_t, llvm::SmallVector<unsigned, 1>> byHash;
  std::string graphHash;

  /// By names and by lines of locations; made when first asked for.
  struct Places {
    llvm::StringMap<llvm::SmallVector<unsigned, 1>> names;
    std::unordered_map<unsigned, llvm::SmallVector<unsigned, 1>> lines;
    /// Names in the order of their first op.
    llvm::SmallVector<llvm::StringRef, 0> order;
  };
  const Places &getPlaces() const;
  mutable std::shared_ptr<Places> places;
  /// Questions with nearest names in their answers, which take a while.
  mutable unsigned numProposals = 0;
};

} // namespace fusion

#endif // FUSION_FUSE_OPTABLE_H

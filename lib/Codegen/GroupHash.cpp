//===- GroupHash.cpp - Equal groups share a kernel ------------------------===//
//
// See GroupHash.h. Which inputs are the same value matters too: it decides
// whether bytes may be shared in place.
//
//===----------------------------------------------------------------------===//
#include "GroupHash.h"
#include "fusion/Analysis/CommSchedule.h"

#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

Value codegen::getBuffer(Value value) {
  while (true) {
    if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      value = reshape.getInput();
      continue;
    }
    // A member of a horizontal group reads what the launch is given.
    auto argument = dyn_cast<BlockArgument>(value);
    auto launch = argument
                      ? dyn_cast<GroupOp>(argument.getOwner()->getParentOp())
                      : GroupOp();
    if (!launch || launch.getKind() != GroupKind::Horizontal)
      return value;
    value = launch.getInputs()[argument.getArgNumber()];
  }
}

int64_t codegen::findAlignment(Value value) {
  int64_t alignment = kPlannedAlignment;
  while (true) {
    value = getBuffer(value);
    if (auto slice = value.getDefiningOp<RankSliceOp>()) {
      for (int64_t bytes : {slice.getStartBytes(), slice.getPartBytes()})
        alignment = std::gcd(alignment, bytes);
      value = slice.getInput();
      continue;
    }
    auto group = value.getDefiningOp<GroupOp>();
    auto views = group ? group->getAttrOfType<DenseI64ArrayAttr>(kViewAttr)
                       : DenseI64ArrayAttr();
    if (!views)
      return alignment;
    size_t number = cast<OpResult>(value).getResultNumber();
    alignment = std::gcd(alignment, views[number]);
    value = group.getInputs()[number];
  }
}

int64_t codegen::findDonatedOutput(GroupOp group, unsigned input) {
  auto argument = dyn_cast<BlockArgument>(getBuffer(group.getInputs()[input]));
  auto function =
      argument
          ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp())
          : FunctionOpInterface();
  auto donated = function
                     ? function.getArgAttrOfType<IntegerAttr>(
                           argument.getArgNumber(), FusionDialect::kDonatedAttr)
                     : IntegerAttr();
  auto returned = argument ? argument.getOwner()->getTerminator()->getOperands()
                           : OperandRange(nullptr, 0);
  if (!donated || donated.getInt() < 0 ||
      donated.getInt() >= static_cast<int64_t>(returned.size()))
    return -1;
  Value value = returned[donated.getInt()];
  while (true) {
    if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      value = reshape.getInput();
      continue;
    }
    auto writer = value.getDefiningOp<GroupOp>();
    if (!writer)
      return -1;
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (writer == group)
      return number;
    if (writer.getKind() != GroupKind::Horizontal)
      return -1;
    value = writer.getYield().getValues()[number];
  }
}

/// For each input, the first input that has the same bytes, how it lies in
/// memory, and the output that takes its bytes: a kernel may rely on all three.
static SmallVector<int64_t> inputPattern(GroupOp group) {
  llvm::DenseMap<Value, unsigned> first;
  SmallVector<int64_t> pattern;
  for (auto [i, input] : llvm::enumerate(group.getInputs())) {
    pattern.push_back(first.try_emplace(getBuffer(input), i).first->second);
    pattern.push_back(findAlignment(input));
    pattern.push_back(findDonatedOutput(group, i));
  }
  return pattern;
}

llvm::hash_code codegen::hashGroup(GroupOp group, const BatchExtents &extents) {
  llvm::DenseMap<Value, unsigned> number;
  auto numberOf = [&](Value value) {
    return number.try_emplace(value, number.size()).first->second;
  };
  llvm::hash_code hash =
      llvm::hash_combine(static_cast<unsigned>(group.getKind()));
  for (int64_t same : inputPattern(group))
    hash = llvm::hash_combine(hash, same);
  for (Value argument : group.getBodyBlock()->getArguments()) {
    numberOf(argument);
    hash = llvm::hash_combine(hash, argument.getType());
    for (Extent extent : extents.getShape(argument))
      hash = llvm::hash_combine(hash, extent.scale, extent.base);
  }
  for (Operation &op : *group.getBodyBlock()) {
    hash = llvm::hash_combine(hash, op.getName(),
                              op.getDiscardableAttrDictionary(),
                              op.hashProperties());
    for (Value operand : op.getOperands())
      hash = llvm::hash_combine(hash, numberOf(operand));
    for (Value result : op.getResults())
      hash = llvm::hash_combine(hash, numberOf(result), result.getType());
  }
  return hash;
}

bool codegen::areEquivalent(GroupOp a, GroupOp b, const BatchExtents &extents) {
  if (a.getKind() != b.getKind() || inputPattern(a) != inputPattern(b))
    return false;
  for (auto [x, y] : llvm::zip(a.getBodyBlock()->getArguments(),
                               b.getBodyBlock()->getArguments()))
    if (x.getType() != y.getType() ||
        extents.getShape(x) != extents.getShape(y))
      return false;
  return OperationEquivalence::isRegionEquivalentTo(
      &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

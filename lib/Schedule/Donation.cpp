//===- Donation.cpp - Arguments that give their bytes to results ----------===//
//
// One look at each group's inputs and at each result. Linear.
//
//===----------------------------------------------------------------------===//
#include "Donation.h"
#include "fusion/Support/SeededBugs.h"

using namespace mlir;
using namespace fusion;

Value fusion::rootOf(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

Value fusion::baseOf(Value value) {
  while (true) {
    value = rootOf(value);
    auto view = value.getDefiningOp<GroupOp>();
    if (!view || !view->hasAttr(kViewAttr))
      return value;
    value = view.getInputs()[cast<OpResult>(value).getResultNumber()];
  }
}

/// Whether the kernel of `group` may write `result`, one of its outputs, over
/// the bytes of `argument`, as far as this group is concerned.
static bool computesInPlace(GroupOp group, Value result, Value argument) {
  SmallVector<unsigned> readers;
  for (auto [i, input] : llvm::enumerate(group.getInputs()))
    if (baseOf(input) == argument)
      readers.push_back(i);
  if (readers.empty())
    return true;
  auto pairs = group->getAttrOfType<DenseI64ArrayAttr>("fusion.in_place");
  // Of a library call, code generation names the addend and nothing else.
  if (readers.size() != 1 || !pairs)
    return false;
  ArrayRef<int64_t> list = pairs.asArrayRef();
  unsigned output = cast<OpResult>(result).getResultNumber();
  for (size_t i = 0; i + 1 < list.size(); i += 2)
    if (list[i] == output && list[i + 1] == readers.front())
      return true;
  return false;
}

FailureOr<SmallVector<Donation>>
fusion::findDonations(func::FuncOp function, ArrayRef<GroupOp> groups) {
  auto returned = function.getBody().front().getTerminator()->getOperands();
  // Position of each group, of the last reader of a value's bytes, and results
  // by value.
  llvm::DenseMap<Operation *, unsigned> position;
  llvm::DenseMap<Value, unsigned> lastReader;
  llvm::DenseMap<Value, SmallVector<unsigned, 1>> resultsOf;
  for (GroupOp group : groups) {
    unsigned at = position.size();
    position[group] = at;
    for (Value input : group.getInputs())
      lastReader[baseOf(input)] = at;
  }
  for (auto [i, value] : llvm::enumerate(returned))
    resultsOf[rootOf(value)].push_back(i);

  SmallVector<Donation> donations;
  llvm::SmallDenseMap<unsigned, unsigned> donorOf;
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto index = function.getArgAttrOfType<IntegerAttr>(
        number, FusionDialect::kDonatedAttr);
    if (!index)
      continue;
    int64_t result = index.getInt();
    auto fail = [&] {
      return emitError(argument.getLoc())
             << "argument " << number << " is donated to result " << result
             << ", ";
    };
    if (result < 0 || result >= static_cast<int64_t>(returned.size()))
      return fail() << "which does not exist: the function has "
                    << returned.size() << " results";
    if (returned[result].getType() != argument.getType())
      return fail() << "which has another type: " << returned[result].getType()
                    << " instead of " << argument.getType();
    auto [donor, isNew] = donorOf.try_emplace(result, number);
    if (!isNew)
      return fail() << "which has the bytes of argument " << donor->second
                    << " already";
    for (unsigned other : resultsOf.lookup(argument))
      if (other != result)
        return fail() << "but is result " << other
                      << " too: return a copy, or do not donate it";

    Donation donation{number, static_cast<unsigned>(result)};
    Value root = rootOf(returned[result]);
    donation.isIdentity = root == argument;
    if (auto writer = root.getDefiningOp<GroupOp>())
      donation.isDirect = (seededBug(12) || lastReader.lookup(argument) <=
                                                position.lookup(writer)) &&
                          computesInPlace(writer, root, argument);
    donations.push_back(donation);
  }
  return donations;
}

//===- Donation.cpp - Arguments that give their bytes to results ----------===//
//
// One look at each command's operands, at each result and at each copy. Linear.
//
//===----------------------------------------------------------------------===//
#include "Donation.h"
#include "fusion/Support/SeededBugs.h"

using namespace mlir;
using namespace fusion;

/// Whether the command of `op` may write `result`, one of its outputs, over
/// the bytes of `argument`, as far as this command is concerned.
static bool computesInPlace(Operation *op, Value result, Value argument) {
  SmallVector<unsigned> readers;
  for (auto [i, input] : llvm::enumerate(op->getOperands()))
    if (baseOf(input) == argument)
      readers.push_back(i);
  if (readers.empty())
    return true;
  auto pairs = op->getAttrOfType<DenseI64ArrayAttr>("fusion.in_place");
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
fusion::findDonations(func::FuncOp function, const CommandOrder &commands) {
  auto returned = function.getBody().front().getTerminator()->getOperands();
  llvm::DenseSet<Value> returnedRoots; // the values behind results
  for (Value value : returned)
    returnedRoots.insert(rootOf(value));

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
    Donation donation{number, static_cast<unsigned>(result)};
    Value root = rootOf(returned[result]);
    donation.isIdentity = root == argument;
    // An argument that is another result is copied there at the end, so its
    // bytes are written later still.
    Operation *writer = root.getDefiningOp();
    int64_t written = commands.find(writer);
    if (written >= 0 && !returnedRoots.contains(argument))
      donation.isDirect =
          (seededBug(12) || commands.getLastUse(argument) <= written ||
           commands.isLastReader(argument, written)) &&
          computesInPlace(writer, root, argument);
    donations.push_back(donation);
  }
  return donations;
}

CopyOrder fusion::orderCopies(ArrayRef<int64_t> overwriters) {
  CopyOrder result;
  SmallVector<unsigned> waitsFor(overwriters.size(), 0);
  for (int64_t later : overwriters)
    if (later >= 0)
      ++waitsFor[later];
  for (auto [i, count] : llvm::enumerate(waitsFor))
    if (count == 0)
      result.order.push_back(i);
  for (size_t at = 0; at < result.order.size(); ++at) {
    int64_t later = overwriters[result.order[at]];
    if (later >= 0 && --waitsFor[later] == 0)
      result.order.push_back(later);
  }
  // Who still waits is on a ring: each copy has at most one overwriter.
  for (unsigned start = 0; start < overwriters.size(); ++start) {
    if (waitsFor[start] == 0)
      continue;
    result.rings.push_back(result.order.size());
    for (unsigned i = start; waitsFor[i] != 0; i = overwriters[i]) {
      waitsFor[i] = 0;
      result.order.push_back(i);
    }
  }
  return result;
}

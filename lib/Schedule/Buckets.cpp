//===- Buckets.cpp - Operands of a collective, side by side ---------------===//
//
// What a collective with `fusion.bucket` reads is one slice of the arena, in
// the order of its operands, and so is what it writes: producers write their
// parts there, and nothing packs. A part that is no buffer of its own (an
// argument, a view, a value of two buckets) stays where it is; the collective
// has a range for each part. Parts are taken in the order in which they are
// computed: so what is not there yet is one gap, which others may use.
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace fusion;

/// Whether the producer of `value` may compute it over an operand that it is
/// the last to read: a gradient that is added to those of earlier batches.
static bool accumulates(Value value, const CommandOrder &commands) {
  Operation *op = value.getDefiningOp();
  auto pairs = op ? op->getAttrOfType<DenseI64ArrayAttr>("fusion.in_place")
                  : DenseI64ArrayAttr();
  if (!pairs)
    return false;
  ArrayRef<int64_t> list = pairs.asArrayRef();
  int64_t output = cast<OpResult>(value).getResultNumber();
  for (size_t i = 0; i + 1 < list.size(); i += 2)
    if (list[i] == output &&
        commands.isLastReader(baseOf(op->getOperand(list[i + 1])),
                              commands.find(op)))
      return true;
  return false;
}

/// When a part is computed: the number of an op, and of its result.
using PartKey = std::pair<int64_t, unsigned>;

/// Gives the parts of `op`, a collective of a bucket, the order of `keys`.
static void permuteParts(Operation *op, ArrayRef<PartKey> keys) {
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, keys.size()));
  llvm::stable_sort(order,
                    [&](unsigned a, unsigned b) { return keys[a] < keys[b]; });
  OperationState state(op->getLoc(), op->getName());
  for (unsigned part : order) {
    state.addOperands(op->getOperand(part));
    state.addTypes(op->getResult(part).getType());
  }
  state.addAttributes(op->getAttrs());
  Operation *sorted = OpBuilder(op).create(state);
  for (auto [i, part] : llvm::enumerate(order))
    op->getResult(part).replaceAllUsesWith(sorted->getResult(i));
  op->erase();
}

void MemoryPlanner::sortBuckets() {
  int64_t number = 0;
  llvm::DenseMap<Operation *, int64_t> numberOf;
  SmallVector<Operation *> buckets;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    numberOf[op] = number++;
    if (op->hasAttr(kBucketAttr) && op->getNumOperands() == op->getNumResults())
      buckets.push_back(op);
    // What a group contains has no place of its own.
    return isa<GroupOp>(op) ? WalkResult::skip() : WalkResult::advance();
  });
  for (Operation *op : buckets) {
    SmallVector<PartKey> keys;
    for (Value operand : op->getOperands()) {
      auto result = dyn_cast<OpResult>(baseOf(operand));
      keys.push_back(result ? PartKey(numberOf.lookup(result.getOwner()),
                                      result.getResultNumber())
                            : PartKey(-1, 0));
    }
    if (!llvm::is_sorted(keys))
      permuteParts(op, keys);
  }
}

void MemoryPlanner::findBuckets() {
  for (const Step &step : commands.getSteps()) {
    if (!step.op->hasAttr(kBucketAttr))
      continue;
    SmallVector<Value> roots;
    for (Value operand : step.op->getOperands())
      roots.push_back(rootOf(operand));
    // The slice is alive from its first part on. If all parts take over sums
    // that are there already, it is no longer alive than those.
    if (llvm::all_of(roots,
                     [&](Value root) { return accumulates(root, commands); }))
      continue;
    freshValues.insert(roots.begin(), roots.end());
  }
}

SmallVector<SmallVector<int64_t>> MemoryPlanner::getBucketSets() {
  SmallVector<SmallVector<int64_t>> sets;
  llvm::DenseSet<int64_t> taken;
  auto add = [&](Operation *op, ValueRange values) {
    SmallVector<int64_t> set;
    llvm::SmallDenseSet<int64_t> own;
    StringRef reason;
    for (Value value : values) {
      const Storage &storage = storages[storageOf(value)];
      if (storage.buffer < 0)
        reason = "a part is an argument, a constant or a result";
      else if (storage.offset != 0 ||
               buffers[storage.buffer].size != storage.size)
        reason = "a part is a view of a larger value";
      else if (!own.insert(storage.buffer).second)
        reason = "a value is two of its parts";
      else if (taken.contains(storage.buffer))
        reason = "a part belongs to another bucket too";
      else
        set.push_back(storage.buffer);
    }
    // Results that the program returns are not of the arena by design.
    if (!reason.empty() && llvm::equal(values, op->getOperands()))
      remark::missed(op->getLoc(), remark::RemarkOpts::name("bucket-apart")
                                       .category("fusion")
                                       .function(function.getSymName()))
          << remark::add("parts of a bucket lie apart: {0}", reason)
          << remark::metric("Parts", int64_t(values.size()))
          << remark::metric("Contiguous", int64_t(set.size()));
    if (set.size() < 2)
      return;
    taken.insert(set.begin(), set.end());
    sets.push_back(std::move(set));
  };
  for (const Step &step : commands.getSteps()) {
    if (!step.op->hasAttr(kBucketAttr))
      continue;
    add(step.op, step.op->getOperands());
    // In place, they are the operands' buffers.
    if (!llvm::all_of_zip(
            step.op->getOperands(), step.op->getResults(),
            [&](Value a, Value b) { return storageOf(a) == storageOf(b); }))
      add(step.op, step.op->getResults());
  }
  return sets;
}

SmallVector<int64_t> MemoryPlanner::getGatheredBuffers() {
  llvm::SetVector<int64_t> region;
  for (const Step &step : commands.getSteps())
    if (step.op->hasAttr(kPrefetchedAttr))
      for (Value result : step.op->getResults())
        if (const Storage &storage = storages[storageOf(result)];
            storage.buffer >= 0)
          region.insert(storage.buffer);
  return region.takeVector();
}

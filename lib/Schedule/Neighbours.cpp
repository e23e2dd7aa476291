//===- Neighbours.cpp - Equal distances for the members of a call ---------===//
//
// A GPU's library does equal products at once if their operands lie at equal
// distances. So the constants that are one operand of each member lie side by
// side, in the order of the members, and so do their buffers in the arena, if
// that costs little memory: together they live as long as any of them.
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"

#include "fusion/IR/Target.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace fusion;

/// Of a library call with several members: the values that are its first
/// operand for each of them, its second, and so on.
static SmallVector<SmallVector<Value>> getMemberOperands(GroupOp group) {
  auto call = group->getAttrOfType<DictionaryAttr>("fusion.call");
  auto members = call ? call.getAs<IntegerAttr>("members") : IntegerAttr();
  auto operands =
      call ? call.getAs<DenseI64ArrayAttr>("operands") : DenseI64ArrayAttr();
  if (!members || members.getInt() < 2 || !operands)
    return {};
  int64_t numInputs = group.getInputs().size();
  int64_t numMembers = members.getInt();
  SmallVector<SmallVector<Value>> columns(operands.size() / numMembers);
  if (int64_t(columns.size()) * numMembers != operands.size())
    return {};
  for (auto [i, index] : llvm::enumerate(operands.asArrayRef()))
    columns[i % columns.size()].push_back(
        index < numInputs ? group.getInputs()[index]
                          : group.getOutputs()[index - numInputs]);
  return columns;
}

LogicalResult MemoryPlanner::bindNeighbours() {
  if (!isForCuda(function))
    return success();
  for (GroupOp group : groups)
    for (ArrayRef<Value> column : getMemberOperands(group)) {
      llvm::SmallSetVector<Value, 8> roots;
      llvm::StringMap<char> keys;
      bool isEven = true;
      int64_t size = -1;
      for (Value value : column) {
        Value root = rootOf(value);
        std::string key = constantKey(root);
        isEven = !key.empty() && !constants.contains(key) &&
                 keys.try_emplace(key).second && roots.insert(root);
        if (!isEven)
          break;
        FailureOr<int64_t> bytes = bytesOf(root);
        if (failed(bytes))
          return failure();
        isEven = size < 0 || size == *bytes;
        if (!isEven)
          break;
        size = *bytes;
      }
      if (!isEven)
        continue;
      for (Value root : roots)
        if (failed(bindConstant(root)))
          return failure();
    }
  return success();
}

void MemoryPlanner::placeBuffers() {
  SmallVector<SmallVector<int64_t>> sets = getBucketSets();
  SmallVector<int64_t> region = getGatheredBuffers();
  arenaBytes = planArena(buffers, sets, region, gatheredBytes);
  // The bytes alive at once are within the budget (fusion-verify-graph); what
  // leaves gaps in a region of their own lies among the other values.
  if (auto budget = function->getAttrOfType<IntegerAttr>(kPrefetchBudgetAttr);
      budget && gatheredBytes > budget.getInt()) {
    remark::missed(function.getLoc(),
                   remark::RemarkOpts::name("prefetch-region")
                       .category("fusion")
                       .function(function.getSymName()))
        << remark::add("gathered values leave gaps in a region of their own")
        << remark::metric("RegionBytes", gatheredBytes)
        << remark::metric("Budget", budget.getInt());
    region.clear();
    gatheredBytes = 0;
    arenaBytes = planArena(buffers, sets);
  }
  if (!isForCuda(function))
    return;
  size_t numBuckets = sets.size();
  llvm::SmallDenseSet<int64_t> taken;
  taken.insert(region.begin(), region.end());
  for (ArrayRef<int64_t> set : sets)
    taken.insert(set.begin(), set.end());
  for (GroupOp group : groups)
    for (ArrayRef<Value> column : getMemberOperands(group)) {
      SmallVector<int64_t> set;
      for (Value value : column) {
        const Storage &storage = storages[storageOf(value)];
        int64_t size = storages[storageOf(column.front())].size;
        // The whole of a buffer, which no other place depends on.
        if (storage.buffer >= 0 && storage.offset == 0 &&
            storage.size == size &&
            buffers[storage.buffer].size == storage.size &&
            !taken.contains(storage.buffer) &&
            !llvm::is_contained(set, storage.buffer))
          set.push_back(storage.buffer);
      }
      if (set.size() != column.size())
        continue;
      taken.insert(set.begin(), set.end());
      sets.push_back(std::move(set));
    }
  if (sets.size() == numBuckets)
    return;
  SmallVector<Lifetime> together(buffers);
  int64_t regionBytes = 0;
  int64_t bytes = planArena(together, sets, region, regionBytes);
  if (bytes > arenaBytes + arenaBytes / 16 ||
      (memoryLimit != 0 && uint64_t(bytes) > memoryLimit))
    return;
  buffers = std::move(together);
  arenaBytes = bytes;
}

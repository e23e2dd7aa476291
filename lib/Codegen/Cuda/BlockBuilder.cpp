//===- BlockBuilder.cpp - What the threads of a block do together ---------===//
//
// See BlockBuilder.h.
//
//===----------------------------------------------------------------------===//
#include "BlockBuilder.h"

#include "../GroupHash.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static Value constantI32(KernelBuilder &k, int64_t number) {
  return k.constantInt(k.b.getI32Type(), APInt(32, number));
}

void codegen::buildBarrier(KernelBuilder &k, int64_t threads) {
  if (threads <= kWarp) {
    NVVM::SyncWarpOp::create(k.b, k.loc, constantI32(k, 0xffffffff));
    return;
  }
  NVVM::BarrierOp::create(k.b, k.loc, Type(), constantI32(k, 0),
                          constantI32(k, threads), NVVM::BarrierReductionAttr(),
                          Value());
}

/// `bits`, an i32, of another thread.
static Value shuffleBits(KernelBuilder &k, Value bits, int64_t distance) {
  return NVVM::ShflOp::create(
      k.b, k.loc, k.b.getI32Type(), constantI32(k, 0xffffffff), bits,
      constantI32(k, distance), constantI32(k, kWarp - 1), NVVM::ShflKind::bfly,
      UnitAttr());
}

Value codegen::buildShuffleXor(KernelBuilder &k, Value value,
                               int64_t distance) {
  Type type = value.getType(), i32 = k.b.getI32Type(), i64 = k.b.getI64Type();
  unsigned width = type.getIntOrFloatBitWidth();
  Type bitsType = k.b.getIntegerType(width);
  Value bits =
      type == bitsType ? value : k.op<arith::BitcastOp>(bitsType, value);
  if (width < 32) {
    bits = k.op<arith::ExtUIOp>(i32, bits);
    bits = shuffleBits(k, bits, distance);
    bits = k.op<arith::TruncIOp>(bitsType, bits);
  } else if (width == 32) {
    bits = shuffleBits(k, bits, distance);
  } else {
    Value half = k.constantI64(32);
    Value low = k.op<arith::TruncIOp>(i32, bits);
    Value high = k.op<arith::TruncIOp>(i32, k.op<arith::ShRUIOp>(bits, half));
    low = k.op<arith::ExtUIOp>(i64, shuffleBits(k, low, distance));
    high = k.op<arith::ExtUIOp>(i64, shuffleBits(k, high, distance));
    bits = k.op<arith::OrIOp>(low, k.op<arith::ShLIOp>(high, half));
  }
  return type == bitsType ? bits : k.op<arith::BitcastOp>(type, bits);
}

/// i1 is a byte.
static Type sharedType(KernelBuilder &k, Type element) {
  return element.isInteger(1) ? k.b.getI8Type() : element;
}

Value codegen::buildSharedArray(KernelBuilder &k, Type element, int64_t count) {
  OpBuilder::InsertionGuard guard(k.b);
  auto module = k.function->getParentOfType<ModuleOp>();
  std::string prefix = k.function.getSymName().str() + ".shared", name;
  for (unsigned number = 0;; ++number) {
    name = prefix + std::to_string(number);
    if (!module.lookupSymbol(name))
      break;
  }
  Type storage = sharedType(k, element);
  k.b.setInsertionPoint(k.function);
  auto global = LLVM::GlobalOp::create(
      k.b, k.loc, LLVM::LLVMArrayType::get(storage, count),
      /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
      kSharedAlignment, kSharedSpace);
  k.b.setInsertionPoint(k.constantI64(0).getDefiningOp());
  return LLVM::AddressOfOp::create(k.b, k.loc, global);
}

static Value sharedAddress(KernelBuilder &k, Type storage, Value array,
                           const Index &index) {
  return LLVM::GEPOp::create(k.b, k.loc, array.getType(), storage, array,
                             ValueRange{k.materialize(index)});
}

Value codegen::loadShared(KernelBuilder &k, Type element, Value array,
                          const Index &index) {
  Type storage = sharedType(k, element);
  Value value = LLVM::LoadOp::create(k.b, k.loc, storage,
                                     sharedAddress(k, storage, array, index));
  return storage == element ? value : k.op<arith::TruncIOp>(element, value);
}

void codegen::storeShared(KernelBuilder &k, Value value, Value array,
                          const Index &index) {
  Type storage = sharedType(k, value.getType());
  if (storage != value.getType())
    value = k.op<arith::ExtUIOp>(storage, value);
  LLVM::StoreOp::create(k.b, k.loc, value,
                        sharedAddress(k, storage, array, index));
}

Value codegen::combineLanes(KernelBuilder &k, ReduceKind kind, Value vector) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  for (int32_t half = type.getNumElements() / 2; half >= 1; half /= 2) {
    SmallVector<int32_t> low, high;
    for (int32_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    vector = combineReduction(k, kind, k.shuffle(vector, low),
                              k.shuffle(vector, high));
  }
  return k.extract(vector, k.constantI64(0));
}

void codegen::buildIf(KernelTask &task, Value condition,
                      llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  KernelBuilder &k = task.k;
  auto branch =
      scf::IfOp::create(k.b, k.loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPointToStart(branch.thenBlock());
  BodyEvaluator::Scope scope(task.evaluator);
  body();
}

int64_t codegen::findPowerOfTwo(Extent extent, int64_t limit) {
  int64_t factor = std::gcd(std::abs(extent.scale), std::abs(extent.base));
  int64_t power = limit;
  while (power > 1 && factor % power != 0)
    power /= 2;
  return power;
}

int64_t codegen::findWidestAccess(const KernelTask &task) {
  int64_t bytes = 16;
  auto see = [&](Value value) {
    Type element = getElementTypeOrSelf(value.getType());
    bytes = std::min<int64_t>(
        bytes, std::max(8u, element.getIntOrFloatBitWidth()) / 8);
  };
  for (auto &[value, operand] : task.stores)
    see(value);
  for (Operation *op : task.ops)
    for (Value operand : op->getOperands())
      if (isa<BlockArgument>(operand))
        see(operand);
  return std::clamp<int64_t>(16 / bytes, 1, 8);
}

VectorWalk::VectorWalk(KernelBuilder &k, ArrayRef<Extent> shape, WalkPlan given,
                       int64_t lanes)
    : plan(std::move(given)), lanes(lanes), k(k), rank(shape.size()) {
  auto sizesOf = [&](size_t first, size_t last) {
    SmallVector<Size> sizes;
    for (size_t i = first; i < last; ++i)
      sizes.push_back(k.size(shape[plan.dims[i]]));
    return sizes;
  };
  outerSizes = sizesOf(0, plan.lastUnit);
  middleSizes = sizesOf(plan.lastUnit, plan.firstInner);
  innerSizes = sizesOf(plan.firstInner, plan.dims.size());
  if (!plan.isRun()) {
    assert(plan.inner.scale % lanes == 0 && plan.inner.base % lanes == 0);
    perRow = k.size(Extent{plan.inner.scale / lanes, plan.inner.base / lanes});
  }
}

std::optional<Extent> VectorWalk::elements() const {
  return multiply(plan.outer, plan.inner);
}

void VectorWalk::visit(KernelTask &task, Value vector, bool single,
                       llvm::function_ref<void(ArrayRef<Index>)> body) {
  int64_t width = single ? 1 : lanes;
  Index position = Index::of(vector);
  Coordinates outerAt;
  if (!plan.isRun()) {
    Index row = k.divide(position, perRow);
    position = k.remainder(position, perRow);
    outerAt = k.delinearize(Index::of(k.materialize(row)), outerSizes);
  }
  position = Index::of(k.materialize(k.mul(position, Size::of(width))),
                       width > 1 ? 1 : 0);
  k.lanes = width;
  Coordinates innerAt = k.delinearize(position, innerSizes), middleAt;
  auto call = [&] {
    Coordinates at(rank, Index::of(0));
    for (size_t i = 0; i < plan.dims.size(); ++i)
      at[plan.dims[i]] = i < plan.lastUnit     ? outerAt[i]
                         : i < plan.firstInner ? middleAt[i - plan.lastUnit]
                                               : innerAt[i - plan.firstInner];
    body(at);
  };
  std::function<void(size_t)> nest = [&](size_t i) {
    if (i == middleSizes.size())
      return call();
    k.loop(k.constantI64(0), k.value(middleSizes[i]), 1, {},
           [&](Value at, ValueRange) -> SmallVector<Value> {
             BodyEvaluator::Scope scope(task.evaluator);
             middleAt.push_back(Index::of(at));
             nest(i + 1);
             middleAt.pop_back();
             return {};
           });
  };
  nest(0);
}

void codegen::describeOperands(
    KernelBuilder &k, GroupOp group, ArrayRef<int64_t> operands,
    ArrayRef<std::pair<Value, unsigned>> stores,
    ArrayRef<std::pair<unsigned, unsigned>> inPlace) {
  int64_t numInputs = group.getInputs().size();
  llvm::SmallDenseSet<int64_t> shared;
  for (auto [output, input] : inPlace)
    shared.insert(input);
  llvm::SmallDenseSet<unsigned> stored;
  for (auto &[value, operand] : stores)
    stored.insert(operand);
  for (size_t position = 0; position < operands.size(); ++position) {
    int64_t index = operands[position];
    if (index >= numInputs)
      continue;
    k.limitAlignment(position, findAlignment(group.getInputs()[index]));
    if (!shared.contains(index) && !stored.contains(position))
      k.markConstant(position);
  }
}

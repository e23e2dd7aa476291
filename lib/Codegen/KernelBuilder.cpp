//===- KernelBuilder.cpp - Function, memory and control of a kernel -------===//
//
// See KernelBuilder.h. Positions are in KernelPositions.cpp. i1 is a byte in
// memory; f16 and bf16 are converted at each load and store.
//
//===----------------------------------------------------------------------===//
#include "KernelBuilder.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// PTX's address space of global memory.
static constexpr unsigned kGlobalSpace = 1;

KernelBuilder::KernelBuilder(ModuleOp kernels, StringRef name,
                             unsigned numOperands, Location loc,
                             const BatchExtents &extents, Machine machine)
    : b(kernels.getContext()), loc(loc), extents(extents), machine(machine) {
  MLIRContext *context = kernels.getContext();
  Type pointer = LLVM::LLVMPointerType::get(context);
  Type i64 = b.getI64Type();
  b.setInsertionPointToEnd(kernels.getBody());
  SmallVector<Type> arguments{pointer, i64, i64};
  if (machine == Machine::Cpu)
    arguments.push_back(i64);
  function =
      func::FuncOp::create(b, loc, name, b.getFunctionType(arguments, {}));
  Block *entry = function.addEntryBlock();
  batch = entry->getArgument(1);
  b.setInsertionPointToEnd(entry);
  Type element = pointer;
  if (machine == Machine::Cpu) {
    begin = entry->getArgument(2);
    end = entry->getArgument(3);
  } else {
    block = entry->getArgument(2);
    Value x = NVVM::ThreadIdXOp::create(
        b, loc, b.getI32Type(),
        b.getAttr<LLVM::ConstantRangeAttr>(APInt(32, 0), APInt(32, 1024)));
    thread = op<arith::ExtUIOp>(i64, x);
    element = LLVM::LLVMPointerType::get(context, kGlobalSpace);
  }
  for (unsigned i = 0; i < numOperands; ++i) {
    Value slot =
        LLVM::GEPOp::create(b, loc, pointer, pointer, entry->getArgument(0),
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    Value address = LLVM::LoadOp::create(b, loc, pointer, slot);
    if (element != pointer)
      address = LLVM::AddrSpaceCastOp::create(b, loc, element, address);
    pointers.push_back(address);
    aliasClass.push_back(i);
    alignments.push_back(16);
  }
  // A mark, erased at the end: sizes and constants gather before it.
  entryEnd = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  b.setInsertionPointToEnd(entry);
}

void KernelBuilder::finish(Extent units, int64_t grain, int64_t threads,
                           const Twine &description) {
  func::ReturnOp::create(b, loc);
  entryEnd->erase();
  MLIRContext *context = function.getContext();
  function->setAttr("fusion.units",
                    ExtentAttr::get(context, units.scale, units.base));
  function->setAttr("fusion.grain",
                    b.getI64IntegerAttr(std::max<int64_t>(grain, 1)));
  function->setAttr("fusion.description", b.getStringAttr(description));
  if (machine == Machine::Cpu)
    return;
  function->setAttr("fusion.threads", b.getI64IntegerAttr(threads));
  function->setAttr("fusion.operands", b.getI64IntegerAttr(pointers.size()));
}

void KernelBuilder::allowInPlace(unsigned a, unsigned c) {
  unsigned from = aliasClass[a], to = aliasClass[c];
  for (unsigned &label : aliasClass)
    if (label == from)
      label = to;
}

void KernelBuilder::sealAliases() {
  MLIRContext *context = function.getContext();
  auto domain = LLVM::AliasScopeDomainAttr::get(context);
  SmallVector<Attribute> scopeOf(pointers.size());
  for (unsigned i = 0; i < pointers.size(); ++i)
    if (aliasClass[i] == i)
      scopeOf[i] = LLVM::AliasScopeAttr::get(domain);
  for (unsigned i = 0; i < pointers.size(); ++i) {
    SmallVector<Attribute> others;
    for (unsigned j = 0; j < pointers.size(); ++j)
      if (aliasClass[j] == j && aliasClass[i] != j)
        others.push_back(scopeOf[j]);
    accesses.push_back({b.getArrayAttr({scopeOf[aliasClass[i]]}),
                        others.empty() ? nullptr : b.getArrayAttr(others)});
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Type KernelBuilder::computeType(Type tensorOrElement) {
  return getComputeType(getElementTypeOrSelf(tensorOrElement));
}

VectorType KernelBuilder::vectorOf(Type element) {
  return VectorType::get({lanes}, element);
}

Value KernelBuilder::splat(Value scalar) {
  return op<vector::BroadcastOp>(vectorOf(scalar.getType()), scalar);
}

Value KernelBuilder::constant(Type element, double number) {
  TypedAttr attr = b.getFloatAttr(element, number);
  return op<arith::ConstantOp>(attr);
}

Value KernelBuilder::constantInt(Type element, const APInt &bits) {
  TypedAttr attr = b.getIntegerAttr(element, bits);
  return op<arith::ConstantOp>(attr);
}

Value KernelBuilder::constant(Type element, Attribute scalar) {
  Type compute = computeType(element);
  if (auto number = dyn_cast<FloatAttr>(scalar)) {
    APFloat wide = number.getValue();
    bool lossy = false;
    wide.convert(cast<FloatType>(compute).getFloatSemantics(),
                 APFloat::rmNearestTiesToEven, &lossy);
    TypedAttr attr = FloatAttr::get(compute, wide);
    return op<arith::ConstantOp>(attr);
  }
  return constantInt(compute, cast<IntegerAttr>(scalar).getValue());
}

Value KernelBuilder::extract(Value vector, Value lane) {
  return op<LLVM::ExtractElementOp>(vector, lane);
}

Value KernelBuilder::insert(Value vector, Value scalar, Value lane) {
  return op<LLVM::InsertElementOp>(vector, scalar, lane);
}

Value KernelBuilder::shuffle(Value vector, ArrayRef<int32_t> mask) {
  return shuffle(vector, vector, mask);
}

Value KernelBuilder::shuffle(Value first, Value second,
                             ArrayRef<int32_t> mask) {
  return op<LLVM::ShuffleVectorOp>(first, second, mask);
}

Value KernelBuilder::logicalAnd(Value a, Value c) {
  if (!a || !c)
    return a ? a : c;
  bool wide = isa<VectorType>(a.getType()) || isa<VectorType>(c.getType());
  return op<arith::AndIOp>(splatIf(a, wide), splatIf(c, wide));
}

Value KernelBuilder::select(Value condition, Value a, Value c) {
  bool wide = llvm::any_of(ValueRange{condition, a, c}, [](Value value) {
    return isa<VectorType>(value.getType());
  });
  return op<arith::SelectOp>(splatIf(condition, wide), splatIf(a, wide),
                             splatIf(c, wide));
}

static Type likeShape(Type shaped, Type element) {
  if (auto vector = dyn_cast<VectorType>(shaped))
    return vector.clone(element);
  return element;
}

Value KernelBuilder::round(Value value, Type element) {
  Type type = value.getType();
  if (getElementTypeOrSelf(type) == element)
    return value;
  Value narrow = op<arith::TruncFOp>(likeShape(type, element), value);
  return op<arith::ExtFOp>(type, narrow);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Type storageType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8)
                              : element;
}

static unsigned storageBytes(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

Value KernelBuilder::address(Value pointer, Type storage, const Index &index) {
  assert(index.isUniform() || index.stride == 1);
  Index first = index;
  first.stride = 0;
  if (first.isZero())
    return pointer;
  return LLVM::GEPOp::create(b, loc, pointer.getType(), storage, pointer,
                             ValueRange{materialize(first)});
}

/// A number that divides `value`, which is not negative; 0 for zero.
static uint64_t findFactor(Value value, unsigned depth = 0) {
  Operation *op = depth < 8 ? value.getDefiningOp() : nullptr;
  if (!op)
    return 1;
  auto operand = [&](unsigned i) {
    return findFactor(op->getOperand(i), depth + 1);
  };
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return number.abs().getZExtValue();
  if (isa<arith::MulIOp>(op)) {
    // Factors of an address: powers of two up to 16 matter.
    return (operand(0) & 0xffff) * (operand(1) & 0xffff);
  }
  if (isa<arith::AddIOp, arith::SubIOp, arith::RemUIOp, arith::MinSIOp,
          arith::MinUIOp, arith::MaxSIOp>(op))
    return std::gcd(operand(0), operand(1));
  return 1;
}

unsigned KernelBuilder::alignmentOf(const Index &index, Type storage,
                                    const Access &access) const {
  uint64_t bytes = storageBytes(storage);
  uint64_t factor =
      std::gcd<uint64_t>(access.alignment, std::abs(index.constant) * bytes);
  if (index.base)
    factor = std::gcd(factor, findFactor(index.base) * bytes);
  return std::max<uint64_t>(bytes, factor & -factor);
}

KernelBuilder::Access KernelBuilder::accessOf(unsigned operand) const {
  Access access = accesses[operand];
  if (machine == Machine::Cuda) {
    access.alignment = alignments[operand];
    access.isConstant = constantOperands.contains(operand);
  }
  return access;
}

Value KernelBuilder::toCompute(Value raw, Type element) {
  Type type = likeShape(raw.getType(), computeType(element));
  if (element.isInteger(1)) {
    Value zero = constantInt(b.getI8Type(), APInt(8, 0));
    return op<arith::CmpIOp>(arith::CmpIPredicate::ne, raw,
                             splatIf(zero, isa<VectorType>(type)));
  }
  return raw.getType() == type ? raw : op<arith::ExtFOp>(type, raw);
}

Value KernelBuilder::toStorage(Value value, Type element) {
  Type type = likeShape(value.getType(), storageType(element));
  if (element.isInteger(1))
    return op<arith::ExtUIOp>(type, value);
  return value.getType() == type ? value : op<arith::TruncFOp>(type, value);
}

Value KernelBuilder::loadFrom(Value pointer, Type element, const Index &index,
                              Access access) {
  Type storage = storageType(element);
  auto loadAt = [&](Value at, Type type, unsigned alignment = 1) {
    auto load = LLVM::LoadOp::create(
        b, loc, type, at, std::max(alignment, storageBytes(element)));
    load.setInvariant(access.isConstant);
    if (access.scopes)
      load.setAliasScopesAttr(access.scopes);
    if (access.others)
      load.setNoaliasScopesAttr(access.others);
    return load.getResult();
  };
  Index at = resolve(index);
  if (at.isUniform())
    return toCompute(loadAt(address(pointer, storage, at), storage), element);
  if (!at.lanes && at.stride == 1)
    return toCompute(loadAt(address(pointer, storage, at), vectorOf(storage),
                            alignmentOf(at, storage, access)),
                     element);
  // Any other pattern: one load a lane.
  Value result = op<LLVM::PoisonOp>(vectorOf(storage));
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value number = constantI64(lane);
    Index one = atLane(at, number);
    result =
        insert(result, loadAt(address(pointer, storage, one), storage), number);
  }
  return toCompute(result, element);
}

void KernelBuilder::storeTo(Value value, Value pointer, Type element,
                            const Index &index, Access access) {
  Type storage = storageType(element);
  Value raw = toStorage(value, element);
  auto storeAt = [&](Value what, Value at, unsigned alignment = 1) {
    auto store = LLVM::StoreOp::create(
        b, loc, what, at, std::max(alignment, storageBytes(element)));
    if (access.scopes)
      store.setAliasScopesAttr(access.scopes);
    if (access.others)
      store.setNoaliasScopesAttr(access.others);
  };
  Index at = resolve(index);
  if (at.isUniform() || (!at.lanes && at.stride == 1))
    return storeAt(splatIf(raw, !at.isUniform()), address(pointer, storage, at),
                   at.isUniform() ? 1 : alignmentOf(at, storage, access));
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value number = constantI64(lane);
    Value one = isa<VectorType>(raw.getType()) ? extract(raw, number) : raw;
    storeAt(one, address(pointer, storage, atLane(at, number)));
  }
}

Value KernelBuilder::load(unsigned operand, Type element, const Index &index) {
  return loadFrom(pointers[operand], element, index, accessOf(operand));
}

void KernelBuilder::store(Value value, unsigned operand, Type element,
                          const Index &index) {
  storeTo(value, pointers[operand], element, index, accessOf(operand));
}

Value KernelBuilder::allocate(Type element, int64_t count) {
  OpBuilder::InsertionGuard guard(b);
  Value size = constantI64(count);
  b.setInsertionPoint(entryEnd);
  return LLVM::AllocaOp::create(b, loc,
                                LLVM::LLVMPointerType::get(b.getContext()),
                                storageType(element), size, 64);
}

Value KernelBuilder::loadRaw(Type type, Type element, Value pointer,
                             const Index &index) {
  return LLVM::LoadOp::create(b, loc, type, address(pointer, element, index),
                              storageBytes(element));
}

void KernelBuilder::storeRaw(Value value, Type element, Value pointer,
                             const Index &index) {
  LLVM::StoreOp::create(b, loc, value, address(pointer, element, index),
                        storageBytes(element));
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::loop(
    Value from, Value to, int64_t step, ValueRange carried,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, loc, from, to, constantI64(step), carried);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *block = loop.getBody();
    if (carried.empty())
      block->getTerminator()->erase();
    b.setInsertionPointToEnd(block);
    SmallVector<Value> next =
        body(loop.getInductionVar(), loop.getRegionIterArgs());
    scf::YieldOp::create(b, loc, next);
  }
  return SmallVector<Value>(loop.getResults());
}

Value KernelBuilder::branch(Value condition, Type type,
                            llvm::function_ref<Value()> then,
                            llvm::function_ref<Value()> otherwise) {
  auto branch = scf::IfOp::create(b, loc, TypeRange{type}, condition,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, loc, then());
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, loc, otherwise());
  return branch.getResult(0);
}

//===- CudaLoop.cpp - Independent elements on a GPU -----------------------===//
//
// A thread computes vectors of neighbouring elements, 16 bytes of the narrowest
// type each. A block that lies inside the shape reads all its vectors before it
// stores the first, so that enough loads are under way; the last block asks for
// each vector whether it is there.
//
//===----------------------------------------------------------------------===//
#include "BlockBuilder.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// A device starts about a block a nanosecond: vectors that take no longer than
/// that come in large blocks. Those of much work are dealt more evenly, and to
/// threads that may have a number of registers between the powers of two.
static constexpr int64_t kThreads = 256, kThreadsOfWork = 128;
static constexpr size_t kFewOps = 32;
/// Elements from which on a thread takes two vectors: there are blocks enough,
/// and what they start with is hidden behind the others' accesses.
static constexpr int64_t kManyElements = int64_t(1) << 22;

/// Ops with a loop or a search of their own for each element: lanes would only
/// take threads away.
static bool isSerial(Operation *op) {
  return isa<MaxPoolOp, AvgPoolOp, MaxPoolGradOp, ConvOp, ConvTransposeOp,
             MatmulOp, AttentionOp, ArgMaxOp, ArgMinOp, ReduceOp, GatherNdOp>(
      op);
}

std::optional<KernelShape> codegen::emitCudaLoop(KernelTask &task,
                                                 std::string &reason) {
  KernelBuilder &k = task.k;
  Value first = task.stores.front().first;
  auto type = cast<RankedTensorType>(first.getType());
  for (auto &[value, operand] : task.stores)
    if (cast<RankedTensorType>(value.getType()).getShape() != type.getShape() ||
        k.extents.getShape(value) != k.extents.getShape(first)) {
      reason = "the outputs have different shapes";
      return std::nullopt;
    }
  if (std::optional<KernelShape> tiles = emitCudaTranspose(task))
    return tiles;
  SmallVector<Extent> shape(k.extents.getShape(first));
  WalkPlan plan =
      planWalk(shape, findMergeable(task.ops, type.getShape()), true);
  bool hasSerial = llvm::any_of(task.ops, isSerial);
  bool isWork = hasSerial || task.ops.size() > kFewOps;
  int64_t lanes = hasSerial ? 1 : findWidestAccess(task);
  // A run that is all of the shape may end within a vector.
  if (!plan.isRun())
    lanes = findPowerOfTwo(plan.inner, lanes);
  VectorWalk walk(k, shape, plan, lanes);
  std::optional<Extent> elements = walk.elements();
  if (!elements) {
    reason = "the number of elements is not affine in the batch";
    return std::nullopt;
  }
  bool isMany = elements->isStatic() ? elements->base >= kManyElements
                                     : elements->scale >= kManyElements;
  int64_t perThread = isMany && plan.lastUnit == plan.firstInner ? 2 : 1;
  int64_t threads = isWork || isMany ? kThreadsOfWork : kThreads;
  int64_t perBlock = threads * perThread;

  struct Pending {
    Value value;
    unsigned operand;
    Type element;
    Index at;
    int64_t lanes;
  };
  SmallVector<Pending> pending;
  auto evaluate = [&](ArrayRef<Index> at) {
    for (auto &[value, operand] : task.stores)
      pending.push_back({task.evaluator.evaluate(value, at), operand,
                         getElementTypeOrSelf(value.getType()),
                         k.linearize(at, k.shape(value)), k.lanes});
  };
  auto storeAll = [&] {
    for (Pending &store : pending) {
      k.lanes = store.lanes;
      k.store(store.value, store.operand, store.element, store.at);
    }
    pending.clear();
  };
  auto computeVector = [&](Value vector, bool single) {
    walk.visit(task, vector, single, [&](ArrayRef<Index> at) {
      evaluate(at);
      storeAll();
    });
  };

  // This block's vectors, and all there are.
  Value start = k.op<arith::AddIOp>(
      k.op<arith::MulIOp>(k.block, k.constantI64(perBlock)), k.thread);
  auto vectorOf = [&](int64_t i) {
    return i == 0 ? start
                  : k.op<arith::AddIOp>(start, k.constantI64(i * threads));
  };
  Value total = k.value(k.size(*elements));
  Value width = k.constantI64(lanes);
  Value vectors = k.op<arith::DivUIOp>(total, width);
  auto computeGuarded = [&] {
    for (int64_t i = 0; i < perThread; ++i) {
      Value vector = vectorOf(i);
      auto isBelow = [&](Value limit) {
        return k.op<arith::CmpIOp>(arith::CmpIPredicate::ult, vector, limit);
      };
      buildIf(task, isBelow(vectors), [&] { computeVector(vector, false); });
      if (lanes == 1 || findPowerOfTwo(*elements, lanes) == lanes)
        continue;
      // What is left, by the thread whose vector it would be.
      Value isNext =
          k.op<arith::CmpIOp>(arith::CmpIPredicate::eq, vector, vectors);
      buildIf(task, isNext, [&] {
        k.loop(k.op<arith::MulIOp>(vectors, width), total, 1, {},
               [&](Value at, ValueRange) -> SmallVector<Value> {
                 BodyEvaluator::Scope scope(task.evaluator);
                 computeVector(at, true);
                 return {};
               });
      });
    }
  };
  if (perThread == 1) {
    computeGuarded();
  } else {
    Value next =
        k.op<arith::MulIOp>(k.op<arith::AddIOp>(k.block, k.constantI64(1)),
                            k.constantI64(perBlock));
    Value isWhole =
        k.op<arith::CmpIOp>(arith::CmpIPredicate::ule, next, vectors);
    auto choice = scf::IfOp::create(k.b, k.loc, isWhole, true);
    OpBuilder::InsertionGuard guard(k.b);
    {
      BodyEvaluator::Scope scope(task.evaluator);
      k.b.setInsertionPointToStart(choice.thenBlock());
      for (int64_t i = 0; i < perThread; ++i)
        walk.visit(task, vectorOf(i), false, evaluate);
      storeAll();
    }
    k.b.setInsertionPointToStart(choice.elseBlock());
    computeGuarded();
  }
  return KernelShape{*elements, perBlock * lanes, threads};
}

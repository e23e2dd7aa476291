//===- KernelWork.cpp - What a kernel does --------------------------------===//
//
// Bytes, operations and blocks of a set of ops or of a group. Bytes count once
// for each tensor: a kernel that reads one twice finds it in a cache.
//
//===----------------------------------------------------------------------===//
#include "IterationSpace.h"
#include "fusion/Analysis/CostModel.h"
#include "fusion/IR/Target.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fusion;

/// Rows, and elements, of the output of a contraction that one block computes.
static constexpr double kTileRows = 128;
static constexpr double kTileElements = kTileRows * kTileRows;

/// A value produced by an earlier kernel is still in the cache if this many of
/// its size would fit: what ran in between has brought in more.
static constexpr int64_t kCacheShare = 4;

/// The tensor whose bytes `value` has, looking through views and into the
/// operands of the groups around it.
static Value getStorage(Value value) {
  while (true) {
    if (auto view = value.getDefiningOp<ReshapeOp>())
      value = view.getInput();
    else if (auto argument = dyn_cast<BlockArgument>(value);
             argument &&
             isa_and_nonnull<GroupOp>(argument.getOwner()->getParentOp()))
      value = cast<GroupOp>(argument.getOwner()->getParentOp())
                  .getInputs()[argument.getArgNumber()];
    else
      return value;
  }
}

/// How many times more elements `value` has at the largest batch than where `?`
/// counts 1.
static double getBatchFactor(Value value, const FusionLegality &legality) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.hasStaticShape())
    return 1;
  double elements = 1;
  for (int64_t size : type.getShape())
    elements *= ShapedType::isDynamic(size) ? 1 : size;
  return elements == 0 ? 1 : double(legality.getNumElements(value)) / elements;
}

/// Two products to find the weights and their gradients again, three for the
/// gradients of the operands; an unknown size counts 1.
static double countFlops(AttentionGradOp op) {
  auto size = [](Value value, int64_t dim) {
    int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(dim);
    return ShapedType::isDynamic(size) ? 1.0 : double(size);
  };
  double scores = size(op.getKey(), 2);
  for (int64_t dim = 0; dim < 3; ++dim)
    scores *= size(op.getQuery(), dim);
  return 2 * scores * (3 * size(op.getQuery(), 3) + 2 * size(op.getValue(), 3));
}

static Arithmetic getArithmetic(Operation *op) {
  Value value = op->getNumOperands() ? op->getOperand(0) : op->getResult(0);
  Type type = cast<RankedTensorType>(value.getType()).getElementType();
  if (getOpFamily(op) != OpFamily::Contraction)
    return type.isF64() ? Arithmetic::VectorF64 : Arithmetic::VectorF32;
  if (type.isF64())
    return Arithmetic::MatrixF64;
  if (type.isF16())
    return Arithmetic::MatrixF16;
  if (type.isBF16())
    return Arithmetic::MatrixBf16;
  if (type.isF32() && allowsTf32(op))
    return Arithmetic::MatrixTf32;
  return type.isInteger(8) ? Arithmetic::MatrixI8 : Arithmetic::MatrixF32;
}

/// The class of a kernel made of these ops: that of the op that shapes it most.
static KernelClass classify(ArrayRef<Operation *> ops) {
  KernelClass kernel = KernelClass::Loop;
  for (Operation *op : ops) {
    switch (getOpFamily(op)) {
    case OpFamily::Contraction:
      return isa<MatmulOp>(op) ? KernelClass::Product
                               : KernelClass::Convolution;
    case OpFamily::Reduction:
      if (getReducedRange(op)->second ==
          cast<RankedTensorType>(op->getOperand(0).getType()).getRank())
        kernel = kernel == KernelClass::ColumnReduce ? kernel
                                                     : KernelClass::RowReduce;
      else
        kernel = KernelClass::ColumnReduce;
      break;
    case OpFamily::Window:
    case OpFamily::Scatter:
    case OpFamily::Opaque:
    case OpFamily::Outside:
      return KernelClass::Other;
    default:
      if (isa<TransposeOp>(op) && kernel == KernelClass::Loop)
        kernel = KernelClass::Transpose;
    }
  }
  return kernel;
}

/// Elements of a row or column that a thread of a GPU takes, threads that share
/// a row, and a column, at most.
static constexpr double kElementsOfThread = 8, kThreadsOfRow = 1024,
                        kThreadsOfColumn = 32;

/// How many blocks a GPU's kernel of this reduction has at most: rows and
/// columns are dealt to threads whole.
static double countReductionBlocks(Operation *op,
                                   const FusionLegality &legality,
                                   const DeviceModel &device) {
  Value input = op->getOperand(0);
  auto type = cast<RankedTensorType>(input.getType());
  auto range = *getReducedRange(op);
  double length = 1;
  for (int64_t size :
       type.getShape().slice(range.first, range.second - range.first))
    length *= ShapedType::isDynamic(size) ? 1 : std::max<int64_t>(size, 1);
  double results = legality.getNumElements(input) / length;
  double each = std::max(length / kElementsOfThread, 1.0);
  double bytes = type.getElementType().isIntOrFloat()
                     ? std::max(type.getElementTypeBitWidth() / 8, 1u)
                     : 1;
  // Neighbouring columns share an access.
  double threads = range.second == type.getRank()
                       ? results * std::min(each, kThreadsOfRow)
                       : results * std::min(each, kThreadsOfColumn) * bytes /
                             device.vectorBytes;
  return std::max(std::ceil(threads / device.threadsPerBlock), 1.0);
}

/// Elements that a reader takes of an input, where they may be few of them.
static bool selectsElements(Operation *op, unsigned operand) {
  return operand == 0 && isa<SliceOp, GatherOp, GatherNdOp>(op);
}

static int64_t saturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  return llvm::AddOverflow(a, b, sum) ? std::numeric_limits<int64_t>::max()
                                      : sum;
}

/// Bytes read of each input.
static llvm::MapVector<Value, int64_t>
getBytesRead(const MemberSet &members, const FusionLegality &legality) {
  llvm::MapVector<Value, int64_t> bytes;
  for (Operation *op : members.ops)
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (members.getProducer(value) || isSplatConstant(value))
        continue;
      int64_t whole = legality.getByteSize(value), part = whole;
      if (selectsElements(op, operand.getOperandNumber()))
        part = std::min(whole, legality.getByteSize(op->getResult(0)));
      int64_t &sum = bytes[getStorage(value)];
      sum = std::min(whole, saturatingAdd(sum, part));
    }
  return bytes;
}

void fusion::addRereads(KernelWork &work, double weightBytes, double rows,
                        double products, const DeviceModel &device) {
  double again = std::max(std::ceil(rows / kTileRows) - 1, 0.0);
  if (weightBytes > device.cacheBytes)
    work.spilledBytes += again * products * weightBytes;
  else if (weightBytes > device.sharedBytesPerUnit)
    work.rereadBytes += again * products * weightBytes;
}

void fusion::addSpills(KernelWork &work, double waitingBytes,
                       const DeviceModel &device) {
  work.spilledBytes += 2 * std::max(0.0, waitingBytes - device.cacheBytes);
}

static bool staysInCache(double bytes, const DeviceModel &device) {
  return bytes * kCacheShare <= device.cacheBytes;
}

KernelWork fusion::computeCopyWork(double bytes, double elements,
                                   const DeviceModel &device) {
  KernelWork work;
  (staysInCache(bytes, device) ? work.cachedBytes : work.memoryBytes) += bytes;
  work.memoryBytes += bytes;
  work.blocks = std::ceil(elements / device.blockElements);
  return work;
}

/// What the matmul or convolution `op` reads again of its weights.
static void addProductRereads(KernelWork &work, Operation *op,
                              const FusionLegality &legality,
                              const DeviceModel &device) {
  Value weights = op->getOperand(1);
  double columns = 1, products = 1;
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    ArrayRef<int64_t> shape = matmul.getRhs().getType().getShape();
    columns = shape[shape.size() - (matmul.getTransposeRhs() ? 2 : 1)];
    for (int64_t size : shape.drop_back(2))
      products *= ShapedType::isDynamic(size) ? 1 : size;
  } else if (auto conv = dyn_cast<ConvOp>(op)) {
    columns = conv.getWeights().getType().getDimSize(0);
  } else {
    return;
  }
  double outputs = legality.getNumElements(op->getResult(0));
  if (columns > 0 && products > 0)
    addRereads(work, legality.getByteSize(weights) / products,
               outputs / columns / products, products, device);
}

KernelWork fusion::computeKernelWork(
    ArrayRef<Operation *> ops, llvm::function_ref<bool(Operation *)> escapes,
    const FusionLegality &legality, const DeviceModel &device) {
  MemberSet members(ops, escapes);
  KernelWork work;
  work.kernel = classify(members.ops);
  // What a user's kernel does is what it says; it runs as one block.
  if (members.ops.size() == 1)
    if (auto call = dyn_cast<KernelCallOp>(members.ops.front())) {
      work.memoryBytes = call.getBytes();
      work.flops[static_cast<unsigned>(Arithmetic::VectorF32)] =
          call.getFlops();
      work.blocks = 1;
      return work;
    }
  for (auto [value, bytes] : getBytesRead(members, legality)) {
    Operation *producer = value.getDefiningOp();
    bool isCached = producer && getOpFamily(producer) != OpFamily::Source &&
                    staysInCache(legality.getByteSize(value), device);
    (isCached ? work.cachedBytes : work.memoryBytes) += bytes;
  }
  // Elements that are computed, where some are computed more than once.
  bool isLoop = llvm::all_of(members.ops, [](Operation *op) {
    OpFamily family = getOpFamily(op);
    return family == OpFamily::Elementwise || family == OpFamily::Injective ||
           family == OpFamily::View;
  });
  SmallVector<double> evaluations;
  isLoop = isLoop && checkLoopSpace(members, legality, &evaluations).isLegal();
  double elements = 0;
  for (auto [i, op] : llvm::enumerate(members.ops)) {
    bool isContraction = getOpFamily(op) == OpFamily::Contraction;
    if (isContraction)
      addProductRereads(work, op, legality, device);
    double factor = 1;
    for (Value value : op->getOperands().take_front())
      factor = getBatchFactor(value, legality);
    for (Value value : op->getResults()) {
      factor = std::max(factor, getBatchFactor(value, legality));
      if (escapes(op))
        work.memoryBytes += legality.getByteSize(value);
      elements = std::max(elements, double(legality.getNumElements(value)));
      if (isContraction)
        work.blocks =
            std::max(work.blocks,
                     std::ceil(legality.getNumElements(value) / kTileElements));
    }
    if (getOpFamily(op) == OpFamily::Reduction)
      elements = std::max(elements,
                          double(legality.getNumElements(op->getOperand(0))));
    auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
    if (isLoop && elementwise)
      work.flops[static_cast<unsigned>(getArithmetic(op))] +=
          evaluations[i] * elementwise.getFlopsPerElement();
    else if (auto fusable = dyn_cast<FusableOpInterface>(op))
      work.flops[static_cast<unsigned>(getArithmetic(op))] +=
          factor * fusable.getFlops();
    else if (auto gradient = dyn_cast<AttentionGradOp>(op))
      work.flops[static_cast<unsigned>(getArithmetic(op))] +=
          factor * countFlops(gradient);
  }
  if (work.blocks == 0)
    work.blocks = std::ceil(elements / device.blockElements);
  if (device.isGpu && (work.kernel == KernelClass::RowReduce ||
                       work.kernel == KernelClass::ColumnReduce))
    for (Operation *op : members.ops)
      if (getOpFamily(op) == OpFamily::Reduction)
        work.blocks =
            std::min(work.blocks, countReductionBlocks(op, legality, device));
  // With a prologue the kernel goes row by row.
  for (Operation *op : members.ops)
    if (auto matmul = dyn_cast<MatmulOp>(op);
        matmul && members.getProducer(matmul.getLhs())) {
      int64_t columns = matmul.getResult().getType().getShape().back();
      double rows = legality.getNumElements(matmul.getResult());
      work.blocks = std::min(
          work.blocks,
          ShapedType::isDynamic(columns) || columns == 0 ? 1 : rows / columns);
    }
  return work;
}

KernelWork fusion::computeKernelWork(GroupOp group,
                                     const FusionLegality &legality,
                                     const DeviceModel &device) {
  KernelWork work;
  if (group.getKind() == GroupKind::Horizontal) {
    for (auto member : group.getBodyBlock()->getOps<GroupOp>())
      work += computeKernelWork(member, legality, device);
    return work;
  }
  llvm::SmallPtrSet<Operation *, 4> yielded;
  for (Value value : group.getYield().getValues())
    yielded.insert(value.getDefiningOp());
  SmallVector<Operation *> ops;
  for (Operation &op : group.getBodyBlock()->without_terminator())
    ops.push_back(&op);
  return computeKernelWork(
      ops, [&](Operation *op) { return yielded.contains(op); }, legality,
      device);
}

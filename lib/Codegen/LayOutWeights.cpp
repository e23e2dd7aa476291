//===- LayOutWeights.cpp - Weights as the library reads them --------------===//
//
// On a GPU the library reads the weights of channels-last images channels-last
// too. Constants are stored so, once, and the group says by a transpose of its
// input what the convolution means. The members of a launch are one call, so
// all of them take part or none. Weights that a run computes stay; the runtime
// lays those out at each run.
//
// Large products read [K, N] where the model has the weights of a linear layer,
// [N, K]: cuBLASLt then has faster algorithms.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

#include "fusion/Analysis/LibraryRules.h"
#include "fusion/Codegen/Passes.h"
#include "fusion/IR/Target.h"
#include "fusion/IR/Weights.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fusion {
#define GEN_PASS_DEF_LAYOUTWEIGHTS
#include "fusion/Codegen/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static remark::RemarkOpts getOptions() {
  return remark::RemarkOpts::name("lay-out-weights").category("fusion");
}

/// The weights that the library op of `group` reads channels-last, if these are
/// other bytes than the model's; else null.
static BlockArgument findWeights(GroupOp group) {
  if (group.getKind() != GroupKind::Library)
    return nullptr;
  for (Operation &op : *group.getBodyBlock()) {
    Value weights;
    if (auto conv = dyn_cast<ConvOp>(op))
      weights = conv.getLayout() == Layout::NHWC ? conv.getWeights() : Value();
    else if (auto conv = dyn_cast<ConvTransposeOp>(op))
      weights = conv.getLayout() == Layout::NHWC ? conv.getWeights() : Value();
    if (!weights)
      continue;
    auto argument = dyn_cast<BlockArgument>(weights);
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(weights.getType()).getShape();
    bool isOneTap = llvm::all_of(shape.drop_front(2),
                                 [](int64_t size) { return size == 1; });
    return argument && argument.hasOneUse() && shape[1] != 1 && !isOneTap
               ? argument
               : nullptr;
  }
  return nullptr;
}

/// How many rows and columns a product has, and of how many addends a sum is,
/// at least, for the order of its weights to matter. Measured on an H200 with
/// cuBLASLt 13.1, 8192x4096x16384 of bf16 with bias and gelu: of the algorithms
/// that it names, the fastest takes 0.93 of the time of the plain product of
/// [N, K] by its first one if the weights are [K, N], 1.02 if they are [N, K];
/// the first ones are equal. Small products are bound by other things.
static constexpr int64_t kLargeProduct = 2048;
/// Rows of [K, N] start at multiples of 16 bytes, which fast algorithms need.
static constexpr int64_t kAlignedElements = 8;

/// The product in `group` that reads weights [N, K] of its own and is large;
/// else null.
static MatmulOp findLargeProduct(GroupOp group) {
  if (group.getKind() != GroupKind::Library)
    return nullptr;
  for (auto product : group.getBodyBlock()->getOps<MatmulOp>()) {
    auto type = cast<RankedTensorType>(product.getRhs().getType());
    auto weights = dyn_cast<BlockArgument>(product.getRhs());
    Type element = type.getElementType();
    if (!weights || !weights.hasOneUse() || !product.getTransposeRhs() ||
        product.getTransposeLhs() || type.getRank() != 2 ||
        type.getDimSize(0) % kAlignedElements != 0 ||
        !(element.isF16() || element.isBF16()))
      return nullptr;
    ArrayRef<int64_t> lhs =
        cast<RankedTensorType>(product.getLhs().getType()).getShape();
    int64_t rows = 1;
    // Counting further could wrap.
    for (int64_t size : lhs.drop_back())
      rows = ShapedType::isDynamic(size) ? 0
             : rows >= kLargeProduct     ? rows * (size != 0)
                                         : rows * size;
    bool isLarge = rows >= kLargeProduct &&
                   llvm::all_of(type.getShape(), [](int64_t size) {
                     return size >= kLargeProduct;
                   });
    return isLarge ? product : nullptr;
  }
  return nullptr;
}

static RankedTensorType moveChannelsLast(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return RankedTensorType::get(shape, type.getElementType());
}

/// The elements of weights [A, B, taps...] as [A, taps..., B].
static TensorData moveChannelsLast(const TensorData &data) {
  RankedTensorType type = moveChannelsLast(data.getType());
  if (data.isSplat())
    return data.withType(type);
  int64_t outer = data.getType().getDimSize(0);
  int64_t channels = data.getType().getDimSize(1);
  int64_t taps = data.getNumElements() / std::max<int64_t>(outer * channels, 1);
  int64_t bytes = getElementBytes(data.getElementType());
  std::vector<char> moved(data.getStoredBytes());
  char *to = moved.data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = 0; c < channels; ++c, to += bytes)
        std::memcpy(to, data.getElement((o * channels + c) * taps + tap),
                    bytes);
  return TensorData::own(type, std::move(moved), /*isSplat=*/false);
}

/// Weights [N, K] as [K, N].
static TensorData transpose(const TensorData &data) {
  RankedTensorType type = data.getType();
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  Type element = type.getElementType();
  // Rows are the channels of one image.
  TensorData image =
      data.withType(RankedTensorType::get({1, rows, columns}, element));
  return moveChannelsLast(image).withType(
      RankedTensorType::get({columns, rows}, element));
}

namespace {
struct LayOutWeights final : fusion::impl::LayOutWeightsBase<LayOutWeights> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!isForCuda(module))
      return markAllAnalysesPreserved();
    ConstantReader reader(module, getParameterFolder(module, parameterFolder));
    WeightsBuilder builder(module, reader);
    moved.clear();
    for (auto function : module.getOps<FunctionOpInterface>())
      if (!function.isExternal())
        for (GroupOp group : llvm::make_early_inc_range(
                 function.getFunctionBody().front().getOps<GroupOp>()))
          visit(group, reader, builder);
    // New ones are unread if another member of their launch could not follow.
    for (auto &[old, made] : moved)
      for (Value value : {made, old})
        if (Operation *op = value.getDefiningOp())
          eraseDead(op);
    if (moved.empty())
      return markAllAnalysesPreserved();
    moved.clear();
    eraseUnusedParameters(module);
  }

private:
  /// The weights of a group, or of all members of a launch, with the group that
  /// reads each.
  using Readers = SmallVector<std::pair<GroupOp, BlockArgument>>;

  void visit(GroupOp group, ConstantReader &reader, WeightsBuilder &builder);
  Value move(Value weights, bool isProduct, ConstantReader &reader,
             WeightsBuilder &builder, std::string &reason);

  /// Old weights to new ones, in the order they were met.
  llvm::MapVector<Value, Value> moved;
};
} // namespace

/// Weights behind views have the type of the view.
Value LayOutWeights::move(Value weights, bool isProduct, ConstantReader &reader,
                          WeightsBuilder &builder, std::string &reason) {
  if (Value known = moved.lookup(weights))
    return known;
  auto type = cast<RankedTensorType>(weights.getType());
  Value source = weights;
  while (auto reshape = source.getDefiningOp<ReshapeOp>())
    source = reshape.getInput();
  std::optional<TensorData> data = reader.read(source, &reason);
  if (!data)
    return nullptr;
  OpBuilder at(weights.getContext());
  at.setInsertionPointAfterValue(weights);
  TensorData given = data->withType(type);
  Value made =
      builder.build(at, weights.getLoc(), weights,
                    isProduct ? "_transposed" : "_channels_last",
                    isProduct ? transpose(given) : moveChannelsLast(given));
  moved[weights] = made;
  return made;
}

void LayOutWeights::visit(GroupOp group, ConstantReader &reader,
                          WeightsBuilder &builder) {
  Readers readers;
  bool isLaunch = group.getKind() == GroupKind::Horizontal;
  size_t products = 0;
  auto add = [&](GroupOp member) {
    MatmulOp product = findLargeProduct(member);
    products += bool(product);
    readers.push_back({member, product ? cast<BlockArgument>(product.getRhs())
                                       : findWeights(member)});
  };
  if (isLaunch) {
    for (GroupOp member : group.getBodyBlock()->getOps<GroupOp>())
      add(member);
  } else {
    add(group);
  }
  bool isProduct = products > 0;
  if (isProduct && products != readers.size())
    return;
  // What the group itself reads for each.
  SmallVector<BlockArgument> arguments;
  SmallVector<Value> laidOut;
  for (auto [member, weights] : readers) {
    if (!weights)
      return;
    BlockArgument argument = weights;
    if (isLaunch) {
      Value input = member.getInputs()[weights.getArgNumber()];
      argument = dyn_cast<BlockArgument>(input);
      if (!argument || !argument.hasOneUse())
        return;
    }
    std::string reason;
    Value old = group.getInputs()[argument.getArgNumber()];
    // Another reader would keep the old ones: both would be stored.
    if (isProduct && !old.hasOneUse())
      return;
    Value made = move(old, isProduct, reader, builder, reason);
    // Weights that a run computes are as good as they come.
    if (!made && isProduct)
      return;
    if (!made) {
      remark::missed(group.getLoc(), getOptions())
          << remark::reason("each run lays the weights out: {0}", reason);
      return;
    }
    arguments.push_back(argument);
    laidOut.push_back(made);
  }
  int64_t bytes = 0;
  for (auto [reader, argument, made] : llvm::zip(readers, arguments, laidOut)) {
    BlockArgument weights = reader.second;
    Type oldType = weights.getType();
    group.getInputsMutable()[argument.getArgNumber()].assign(made);
    argument.setType(made.getType());
    weights.setType(cast<RankedTensorType>(made.getType()));
    bytes += getByteSize(cast<RankedTensorType>(oldType)).value_or(0);
    if (isProduct) {
      cast<MatmulOp>(*weights.user_begin()).setTransposeRhs(false);
      continue;
    }
    OpBuilder inside = OpBuilder::atBlockBegin(reader.first.getBodyBlock());
    int64_t rank = cast<RankedTensorType>(oldType).getRank();
    SmallVector<int64_t> toFirst{0, rank - 1};
    llvm::append_range(toFirst, llvm::seq<int64_t>(1, rank - 1));
    auto back = TransposeOp::create(inside, weights.getLoc(), oldType, weights,
                                    inside.getDenseI64ArrayAttr(toFirst));
    weights.replaceAllUsesExcept(back, back);
  }
  remark::passed(group.getLoc(), getOptions())
      << remark::add(isProduct ? "the weights are stored transposed"
                               : "the weights are stored channels-last")
      << remark::metric("Bytes", bytes);
}

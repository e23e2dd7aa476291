//===- BatchNormAnalysis.cpp - Which BatchNorms can be folded -------------===//
//
// The legality of a fold, and its arithmetic: s = scale / sqrt(variance + eps),
// W' = W * s, b' = (b - mean) * s + bias, all in f64 and rounded once.
//
//===----------------------------------------------------------------------===//
#include "BatchNormAnalysis.h"

#include "fusion/IR/BatchExtent.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

/// Largest constant that is searched for a value a channel.
static constexpr int64_t kMaxBiasElements = int64_t(1) << 24;

/// A fold whose weights lose more than this many times the unit roundoff to
/// underflow is refused.
static constexpr double kMaxRoundingLoss = 4.0;

void BatchNormFold::print(raw_ostream &os) const {
  os << "batch_norm at " << BatchNormOp(norm).getLoc() << ": ";
  if (!refusal.empty()) {
    os << "kept: " << refusal << "\n";
    return;
  }
  os << (clone ? "folded into a copy of " : "folded into ")
     << producer->getName() << ", " << adds.size() << " bias adds\n";
}

/// A number as short as it goes, for messages.
static std::string toText(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

static StringRef getOpNoun(Operation *op) {
  return TypeSwitch<Operation *, StringRef>(op)
      .Case<MatmulOp>([](auto) { return "matmul"; })
      .Case<ConvTransposeOp>([](auto) { return "transposed convolution"; })
      .Default([](auto) { return "convolution"; });
}

/// Unit roundoff of a float type.
static double getUnitRoundoff(Type type) {
  if (type.isF64())
    return std::ldexp(1.0, -53);
  if (type.isF32())
    return std::ldexp(1.0, -24);
  return std::ldexp(1.0, type.isF16() ? -11 : -8);
}

/// Elements of a constant, also behind reshapes.
static std::optional<TensorData>
readConstant(Value value, ConstantReader &reader, std::string *reason) {
  auto type = cast<RankedTensorType>(value.getType());
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  std::optional<TensorData> data = reader.read(value, reason);
  if (!data || !type.hasStaticShape())
    return std::nullopt;
  return data->withType(type);
}

/// If `value` is known and depends on the index along `axis` alone: its value
/// for each of the `channels` indices.
static std::optional<SmallVector<double>>
readPerChannel(Value value, int64_t axis, int64_t channels,
               ConstantReader &reader, std::string *reason) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> dims =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  // Each broadcast says where the operand's dimensions lie.
  while (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    SmallVector<int64_t> outer;
    for (int64_t dim : broadcast.getDims())
      outer.push_back(dims[dim]);
    dims = std::move(outer);
    value = broadcast.getInput();
  }
  std::optional<TensorData> data = readConstant(value, reader, reason);
  if (!data)
    return std::nullopt;
  auto refuse = [&](StringRef why) -> std::optional<SmallVector<double>> {
    if (reason)
      *reason = why.str();
    return std::nullopt;
  };
  if (data->isSplat())
    return SmallVector<double>(channels, data->getFloat(0));
  int64_t count = data->getNumElements();
  if (count == 0 || count > kMaxBiasElements)
    return refuse("empty, or too large to search");

  // Elements between two steps along the axis, or no axis at all.
  int64_t extent = 1, inner = 1;
  bool behindAxis = false;
  for (auto [dim, size] : llvm::zip(dims, data->getType().getShape())) {
    if (behindAxis)
      inner *= size;
    if (dim == axis) {
      extent = size;
      behindAxis = true;
    }
  }
  SmallVector<double> values(channels, 0.0);
  SmallVector<bool> seen(extent, false);
  for (int64_t i = 0; i < count; ++i) {
    int64_t channel = (i / inner) % extent;
    double element = data->getFloat(i);
    if (seen[channel] && element != values[channel])
      return refuse("varies within a channel");
    seen[channel] = true;
    values[channel] = element;
  }
  if (extent == 1)
    std::fill(values.begin(), values.end(), values.front());
  return values;
}

//===----------------------------------------------------------------------===//
// The producer
//===----------------------------------------------------------------------===//

namespace {
/// What conv, conv_transpose and matmul have in common here.
struct ProducerView {
  Value weights;
  Value bias;
  int64_t channelDim;
  int64_t flopsPerElement;
  /// Output channel that weight element `i` belongs to.
  std::function<int64_t(int64_t)> getChannel;
};
} // namespace

template <typename ConvLike> static int64_t getConvChannelDim(ConvLike op) {
  return op.getLayout() == Layout::NCHW ? 1 : op.getType().getRank() - 1;
}

static ProducerView viewProducer(ConvOp op) {
  auto weights = cast<RankedTensorType>(op.getWeights().getType());
  int64_t window = ShapedType::getNumElements(weights.getShape().drop_front());
  return {op.getWeights(), op.getBias(), getConvChannelDim(op), 2 * window,
          [window](int64_t i) { return i / window; }};
}

static ProducerView viewProducer(ConvTransposeOp op) {
  // Weights are [C, O / groups, window...]; input channel i is of group
  // i / (C / groups), whose output channels start at that times O / groups.
  auto weights = cast<RankedTensorType>(op.getWeights().getType());
  int64_t perGroup = weights.getDimSize(1);
  int64_t inputPerGroup = weights.getDimSize(0) / op.getGroups();
  int64_t window = ShapedType::getNumElements(weights.getShape().drop_front(2));
  return {op.getWeights(), op.getBias(), getConvChannelDim(op),
          2 * inputPerGroup * window, [=](int64_t i) {
            int64_t j = i / window % perGroup;
            int64_t input = i / window / perGroup;
            return input / inputPerGroup * perGroup + j;
          }};
}

static ProducerView viewProducer(MatmulOp op) {
  auto weights = cast<RankedTensorType>(op.getRhs().getType());
  int64_t rows = weights.getDimSize(weights.getRank() - 2);
  int64_t columns = weights.getDimSize(weights.getRank() - 1);
  bool transposed = op.getTransposeRhs();
  int64_t depth = transposed ? columns : rows;
  return {
      op.getRhs(), Value(), op.getType().getRank() - 1, 2 * depth,
      [=](int64_t i) { return transposed ? i / columns % rows : i % columns; }};
}

/// The one `?` of `value` as a multiple of B, or nullopt if it isn't one.
static std::optional<int64_t> getBatchScale(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getNumDynamicDims() != 1)
    return std::nullopt;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (!type.isDynamicDim(dim))
      continue;
    std::optional<Extent> extent = getBatchExtent(value, dim);
    if (extent && extent->base == 0)
      return extent->scale;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//

namespace {
class Analyzer {
public:
  Analyzer(BatchNormOp norm, ConstantReader &reader, int64_t cloneFlops)
      : reader(reader), cloneFlops(cloneFlops) {
    fold.norm = norm;
  }
  BatchNormFold run();

private:
  bool refuse(std::string why) {
    fold.refusal = std::move(why);
    return false;
  }
  bool findProducer();
  bool checkUses();
  bool readStatistics();
  bool foldWeights();

  BatchNormFold fold;
  ConstantReader &reader;
  int64_t cloneFlops;
  ProducerView view;
  int64_t channels = 0;
  SmallVector<double> addedBias;
  SmallVector<double> scale, shift;
};
} // namespace

/// Walks from the norm up to a producer, through adds of a constant bias.
bool Analyzer::findProducer() {
  BatchNormOp norm = fold.norm;
  int64_t axis = norm.getAxis();
  channels = norm.getType().getDimSize(axis);
  addedBias.assign(channels, 0.0);
  Value value = norm.getInput();
  while (auto add = value.getDefiningOp<AddOp>()) {
    std::string reason;
    auto take = [&](Value constant, Value rest) {
      std::string why;
      auto bias = readPerChannel(constant, axis, channels, reader, &why);
      if (!bias) {
        // That the other operand is not constant says nothing.
        if (reason.empty() || reason == "computed at run time")
          reason = why;
        return false;
      }
      for (auto [sum, term] : llvm::zip(addedBias, *bias))
        sum += term;
      value = rest;
      return true;
    };
    if (!take(add.getRhs(), add.getLhs()) && !take(add.getLhs(), add.getRhs()))
      return refuse("the add before it does not add a constant bias: " +
                    reason);
    fold.adds.insert(fold.adds.begin(), add);
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return refuse("its input is an argument, not a convolution or matmul");
  bool known = TypeSwitch<Operation *, bool>(op)
                   .Case<ConvOp, ConvTransposeOp, MatmulOp>([&](auto producer) {
                     view = viewProducer(producer);
                     return true;
                   })
                   .Default([](auto) { return false; });
  if (!known)
    return refuse(llvm::formatv("its input is made by {0}, not by a "
                                "convolution or matmul",
                                op->getName()));
  if (view.channelDim != axis)
    return refuse(llvm::formatv("its axis {0} is not the {1}'s channel "
                                "dimension {2}",
                                axis, getOpNoun(op), view.channelDim));
  fold.producer = op;
  fold.flopsPerElement = view.flopsPerElement;
  return true;
}

/// Other users of a value on the path keep it alive: then the producer must be
/// repeated, which pays only if that is cheaper than a pass over memory.
bool Analyzer::checkUses() {
  int64_t uses = 1;
  auto count = [&](Value value) {
    uses = std::max<int64_t>(uses,
                             std::distance(value.use_begin(), value.use_end()));
  };
  count(fold.producer->getResult(0));
  for (AddOp add : fold.adds)
    count(add.getResult());
  if (uses == 1)
    return true;
  if (view.flopsPerElement > cloneFlops)
    return refuse(llvm::formatv(
        "the {0}'s result has {1} uses, and repeating it costs {2} flops an "
        "element, limit {3}",
        getOpNoun(fold.producer), uses, view.flopsPerElement, cloneFlops));
  fold.clone = true;
  return true;
}

/// Reads scale, bias, mean and variance, and what they come down to.
bool Analyzer::readStatistics() {
  BatchNormOp norm = fold.norm;
  std::string reason;
  auto read = [&](Value value, StringRef name, SmallVector<double> &into) {
    auto values = readPerChannel(value, /*axis=*/0, channels, reader, &reason);
    if (!values)
      return refuse(llvm::formatv("its {0}: {1}", name, reason));
    for (auto [i, element] : llvm::enumerate(*values))
      if (!std::isfinite(element))
        return refuse(
            llvm::formatv("{0}[{1}] is {2}", name, i, toText(element)));
    into = std::move(*values);
    return true;
  };
  SmallVector<double> gamma, beta, mean, variance;
  if (!read(norm.getScale(), "scale", gamma) ||
      !read(norm.getBias(), "bias", beta) ||
      !read(norm.getMean(), "mean", mean) ||
      !read(norm.getVariance(), "variance", variance))
    return false;

  SmallVector<double> bias(channels, 0.0);
  if (view.bias) {
    auto values =
        readPerChannel(view.bias, /*axis=*/0, channels, reader, &reason);
    if (!values)
      return refuse(llvm::formatv("the {0}'s bias: {1}",
                                  getOpNoun(fold.producer), reason));
    bias = std::move(*values);
  }
  double epsilon = norm.getEpsilon().convertToDouble();
  for (int64_t c = 0; c < channels; ++c) {
    double spread = variance[c] + epsilon;
    if (!(spread > 0.0))
      return refuse(llvm::formatv(
          "variance[{0}] + epsilon is {1}, not above zero", c, toText(spread)));
    scale.push_back(gamma[c] / std::sqrt(spread));
    shift.push_back((bias[c] + addedBias[c] - mean[c]) * scale[c] + beta[c]);
    if (!std::isfinite(scale[c]) || !std::isfinite(shift[c]))
      return refuse(llvm::formatv("channel {0} scales by {1} and shifts by {2}",
                                  c, toText(scale[c]), toText(shift[c])));
  }
  return true;
}

/// Computes the folded weights and bias, and what rounding makes of them.
bool Analyzer::foldWeights() {
  std::string reason;
  std::optional<TensorData> old = readConstant(view.weights, reader, &reason);
  if (!old)
    return refuse(llvm::formatv("the {0}'s weights: {1}",
                                getOpNoun(fold.producer), reason));
  Type type = old->getElementType();
  int64_t elementBytes = getElementBytes(type);
  auto round = [&](double exact, char *to) {
    storeFloat(type, exact, to);
    return loadFloat(type, to);
  };

  int64_t count = old->getNumElements();
  std::vector<char> bytes(count * elementBytes);
  SmallVector<double> lost(channels, 0.0), kept(channels, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t c = view.getChannel(i);
    double weight = old->getFloat(i);
    double exact = weight * scale[c];
    double rounded = round(exact, bytes.data() + i * elementBytes);
    if (!std::isfinite(weight))
      return refuse(llvm::formatv("weight {0} is {1}", i, toText(weight)));
    if (!std::isfinite(rounded))
      return refuse(llvm::formatv("folded weight {0} is {1}, which overflows "
                                  "{2}",
                                  i, toText(exact), type));
    lost[c] += std::abs(rounded - exact);
    kept[c] += std::abs(exact);
  }
  double limit = kMaxRoundingLoss * getUnitRoundoff(type);
  for (int64_t c = 0; c < channels; ++c)
    if (lost[c] > limit * kept[c])
      return refuse(
          llvm::formatv("folded weights of channel {0} underflow {1}: "
                        "relative rounding error {2}, limit {3}",
                        c, type, toText(lost[c] / kept[c]), toText(limit)));
  fold.weights = TensorData::own(old->getType(), std::move(bytes),
                                 /*isSplat=*/false);

  std::vector<char> biasBytes(channels * elementBytes);
  for (int64_t c = 0; c < channels; ++c)
    if (!std::isfinite(round(shift[c], biasBytes.data() + c * elementBytes)))
      return refuse(llvm::formatv("folded bias {0} is {1}, which overflows {2}",
                                  c, toText(shift[c]), type));
  fold.bias = TensorData::own(RankedTensorType::get({channels}, type),
                              std::move(biasBytes), /*isSplat=*/false);
  return true;
}

BatchNormFold Analyzer::run() {
  if (!findProducer() || !checkUses() || !readStatistics() || !foldWeights())
    return std::move(fold);
  auto type = cast<RankedTensorType>(fold.producer->getResult(0).getType());
  if (isa<MatmulOp>(fold.producer) && !type.hasStaticShape()) {
    // The bias needs a broadcast, which must say what `?` is.
    std::optional<int64_t> batchScale =
        getBatchScale(fold.producer->getResult(0));
    if (batchScale)
      fold.batchScale = *batchScale;
    else
      refuse("the batch extent of the matmul is not known");
  }
  return std::move(fold);
}

BatchNormFold fusion::analyzeBatchNorm(BatchNormOp norm, ConstantReader &reader,
                                       int64_t cloneFlopsPerElement) {
  return Analyzer(norm, reader, cloneFlopsPerElement).run();
}

//===- Library.cpp - Groups that a library computes -----------------------===//
//
// Finds the library op of a group and the epilogue that LibraryRules lets it
// absorb, and describes the call. What is left of the body becomes a kernel
// over the library's output, which it reads and overwrites.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"
#include "GroupHash.h"

#include "fusion/Analysis/LibraryGradients.h"
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/IR/Target.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

namespace {
/// Writes the attribute `fusion.call`: keys are the fields of LibraryCall.
class CallWriter {
public:
  CallWriter(MLIRContext *context, const BatchExtents &extents)
      : b(context), extents(extents) {}

  void text(StringRef key, StringRef value) {
    add(key, b.getStringAttr(value));
  }
  void flag(StringRef key, bool value) { add(key, b.getBoolAttr(value)); }
  void number(StringRef key, int64_t value) {
    add(key, b.getI64IntegerAttr(value));
  }
  void real(StringRef key, FloatAttr value) { add(key, value); }
  void numbers(StringRef key, ArrayRef<int64_t> values) {
    add(key, b.getDenseI64ArrayAttr(values));
  }
  /// The sizes of `tensor`, channels moved behind the batch for `nhwc`.
  void shape(StringRef key, Value tensor, bool channelsLast) {
    SmallVector<Extent> sizes = extents.getShape(tensor);
    if (channelsLast)
      std::rotate(sizes.begin() + 1, sizes.end() - 1, sizes.end());
    SmallVector<Attribute> attrs;
    for (Extent size : sizes)
      attrs.push_back(ExtentAttr::get(b.getContext(), size.scale, size.base));
    add(key, b.getArrayAttr(attrs));
  }
  Attribute finish() { return b.getDictionaryAttr(entries); }

private:
  void add(StringRef key, Attribute value) {
    entries.push_back(b.getNamedAttr(key, value));
  }
  Builder b;
  const BatchExtents &extents;
  SmallVector<NamedAttribute> entries;
};
} // namespace

/// The group's result that holds `value`'s bytes: the one that yields it, else
/// the first of the same type, which its tail overwrites.
static std::optional<unsigned> findOutput(GroupOp group, Value value) {
  OperandRange yielded = group.getYield().getValues();
  for (auto [i, result] : llvm::enumerate(yielded))
    if (result == value)
      return i;
  for (auto [i, result] : llvm::enumerate(yielded))
    if (result.getType() == value.getType())
      return i;
  return std::nullopt;
}

/// The group's results that hold those of an op with several: they must be all
/// that it yields, each once.
static FailureOr<SmallVector<int64_t>> findOutputs(GroupOp group,
                                                   Operation *root) {
  OperandRange yielded = group.getYield().getValues();
  SmallVector<int64_t> outputs;
  for (Value result : root->getResults())
    for (auto [i, value] : llvm::enumerate(yielded))
      if (value == result)
        outputs.push_back(i);
  if (outputs.size() != root->getNumResults() ||
      outputs.size() != yielded.size())
    return group.emitError("yield each result of ")
           << root->getName() << " once and nothing else: the library's call "
           << "has no epilogue";
  return outputs;
}

/// The input of the group that holds `weights` channels-last, which the body
/// transposes back (LayOutWeights); else null.
static Value getLaidOutWeights(Operation *root, Value weights, bool isLast) {
  auto back = weights.getDefiningOp<TransposeOp>();
  if (!back || !isLast || !isForCuda(root) || !back->hasOneUse() ||
      !isa<BlockArgument>(back.getInput()))
    return nullptr;
  int64_t rank = back.getType().getRank();
  SmallVector<int64_t> toFirst{0, rank - 1};
  llvm::append_range(toFirst, llvm::seq<int64_t>(1, rank - 1));
  return back.getPermutation() == ArrayRef<int64_t>(toFirst) ? back.getInput()
                                                             : Value();
}

FailureOr<LibraryPlan> codegen::planLibrary(GroupOp group,
                                            const BatchExtents &extents) {
  Block *body = group.getBodyBlock();
  LibraryPlan plan;
  for (Operation &op : *body)
    if (isa<ConvOp, ConvTransposeOp, MatmulOp, AvgPoolOp, AttentionOp,
            AttentionGradOp>(op)) {
      if (plan.root)
        return group.emitError(
            "a library group holds exactly one contraction or "
            "pool; this one has two: split it");
      plan.root = &op;
    }
  if (!plan.root)
    return group.emitError(
        "a library group needs a conv, conv_transpose, matmul, avg_pool, "
        "attention or attention_grad; use another kind");
  std::string reason;
  if (!findLibraryRule(plan.root, &reason))
    return plan.root->emitError("not served by the library: ")
           << reason << "; use kind contraction or window";

  // The absorbed epilogue: a chain of adds with one reader each, and perhaps an
  // activation that ends it.
  plan.chained = plan.root->getResult(0);
  auto isInput = [&](Value value) { return isa<BlockArgument>(value); };
  Value laidOutWeights;
  llvm::TypeSwitch<Operation *>(plan.root).Case<ConvOp, ConvTransposeOp>(
      [&](auto conv) {
        laidOutWeights = getLaidOutWeights(conv, conv.getWeights(),
                                           conv.getLayout() == Layout::NHWC);
      });
  for (auto [i, operand] : llvm::enumerate(plan.root->getOperands()))
    if (!isInput(operand) && !(i == 1 && laidOutWeights))
      return plan.root->emitError(
          "an operand of a library op must be an input of its group");
  Value bias, addend, slopeAt;
  StringRef activation, summed;
  if (auto gradients = findLibraryGradients(group)) {
    plan.chained = gradients->result;
    plan.sum = gradients->sum;
    summed = stringifySummed(gradients->summed);
    slopeAt = gradients->slopeAt;
    if (slopeAt && !isInput(slopeAt))
      return plan.root->emitError(
          "where a slope is taken must be an input of its group");
    if (slopeAt)
      activation = "gelu_tanh_grad";
  }
  bool hasGradient = slopeAt || plan.sum;
  while (!hasGradient && activation.empty() && plan.chained.hasOneUse()) {
    Operation *user = *plan.chained.user_begin();
    LibraryEpilogue kind = classifyLibraryEpilogue(
        plan.root, user, plan.chained, static_cast<bool>(bias),
        static_cast<bool>(addend));
    if (kind == LibraryEpilogue::None)
      break;
    if (kind == LibraryEpilogue::Activation) {
      activation = getLibraryActivation(user);
    } else {
      Value operand = getLibraryEpilogueOperand(user, plan.chained, kind);
      if (!isInput(operand))
        break;
      (kind == LibraryEpilogue::Bias ? bias : addend) = operand;
    }
    plan.chained = user->getResult(0);
  }
  std::optional<unsigned> output = findOutput(group, plan.chained);
  if (!output)
    return group.emitError(
        "no output of the group has the type of the library's result, "
        "so it has no place; yield it or end the group there");
  plan.output = *output;
  SmallVector<int64_t> outputs{plan.output};
  bool hasOneResult = plan.root->getNumResults() == 1;
  if (!hasOneResult) {
    FailureOr<SmallVector<int64_t>> found = findOutputs(group, plan.root);
    if (failed(found))
      return failure();
    outputs = *found;
  }
  if (plan.sum)
    outputs.push_back(*findOutput(group, plan.sum));

  int64_t numInputs = group.getInputs().size();
  SmallVector<int64_t> operands;
  auto addOperand = [&](Value value) {
    operands.push_back(cast<BlockArgument>(value).getArgNumber());
  };
  CallWriter call(group.getContext(), extents);
  std::string dtype;
  llvm::raw_string_ostream(dtype)
      << getElementTypeOrSelf(plan.chained.getType());
  call.text("dtype", dtype);
  if (getElementTypeOrSelf(plan.chained.getType()).isF32() &&
      !isa<AvgPoolOp>(plan.root) && allowsTf32(plan.root))
    call.flag("computeTf32", true);
  auto convFields = [&](auto conv, StringRef name, ArrayRef<int64_t> padHigh) {
    bool last = conv.getLayout() == Layout::NHWC;
    call.text("op", name);
    call.flag("channelsLast", last);
    call.shape("inputShape", conv.getInput(), last);
    call.shape("weightShape", conv.getWeights(), false);
    call.shape("outputShape", conv.getResult(), last);
    call.numbers("strides", conv.getStrides());
    call.numbers("dilations", conv.getDilations());
    call.numbers("padLow", conv.getPadLow());
    call.numbers("padHigh", padHigh);
    call.number("groups", conv.getGroups());
    if (laidOutWeights)
      call.flag("weightsLast", true);
    addOperand(conv.getInput());
    addOperand(laidOutWeights ? laidOutWeights : conv.getWeights());
    if (conv.getBias())
      bias = conv.getBias();
  };
  auto attentionFields = [&](auto attention, StringRef name, Value output) {
    call.text("op", name);
    call.shape("inputShape", attention.getQuery(), false);
    call.shape("weightShape", attention.getKey(), false);
    call.shape("outputShape", output, false);
    call.real("scale", attention.getScaleAttr());
    call.flag("causal", attention.getCausal());
    if (attention.getMask())
      call.shape("maskShape", attention.getMask(), false);
    for (Value operand : attention->getOperands())
      addOperand(operand);
  };
  llvm::TypeSwitch<Operation *>(plan.root)
      .Case([&](ConvOp conv) { convFields(conv, "conv", conv.getPadHigh()); })
      .Case([&](ConvTransposeOp conv) {
        // What output_padding adds is padding that is not cut off.
        SmallVector<int64_t> padHigh(conv.getPadHigh());
        for (auto [high, extra] : llvm::zip(padHigh, conv.getOutputPadding()))
          high -= extra;
        convFields(conv, "conv_transpose", padHigh);
      })
      .Case([&](MatmulOp matmul) {
        call.text("op", "matmul");
        Type element = getElementTypeOrSelf(matmul.getResult());
        if (isForCuda(matmul) && !isFast(matmul) &&
            (element.isF16() || element.isBF16()))
          call.flag("keepsOrder", true);
        call.shape("inputShape", matmul.getLhs(), false);
        call.shape("weightShape", matmul.getRhs(), false);
        call.shape("outputShape", matmul.getResult(), false);
        call.flag("transposeLhs", matmul.getTransposeLhs());
        call.flag("transposeRhs", matmul.getTransposeRhs());
        addOperand(matmul.getLhs());
        addOperand(matmul.getRhs());
      })
      .Case([&](AttentionOp attention) {
        attentionFields(attention, "attention", attention.getResult());
      })
      .Case([&](AttentionGradOp attention) {
        attentionFields(attention, "attention_grad", attention.getGrad());
      })
      .Case([&](AvgPoolOp pool) {
        bool last = pool.getLayout() == Layout::NHWC;
        call.text("op", "avg_pool");
        call.flag("channelsLast", last);
        call.shape("inputShape", pool.getInput(), last);
        call.shape("outputShape", pool.getResult(), last);
        call.numbers("window", pool.getWindow());
        call.numbers("strides", pool.getStrides());
        call.numbers("dilations", pool.getDilations());
        call.numbers("padLow", pool.getPadLow());
        call.numbers("padHigh", pool.getPadHigh());
        call.flag("countIncludePad", pool.getCountIncludePad());
        addOperand(pool.getInput());
      });
  call.flag("hasBias", static_cast<bool>(bias));
  call.flag("hasAddend", static_cast<bool>(addend));
  if (!activation.empty())
    call.text("activation", activation);
  if (plan.sum)
    call.text("biasGradient", summed);
  if (bias)
    addOperand(bias);
  if (addend) {
    addOperand(addend);
    auto argument = cast<BlockArgument>(addend);
    Value outer = getBuffer(group.getInputs()[argument.getArgNumber()]);
    auto sameBytes = [&](Value input) { return getBuffer(input) == outer; };
    // cuDNN does not promise to read an addend before it writes there.
    bool mayAlias = !isForCuda(plan.root) || isa<MatmulOp>(plan.root);
    if (mayAlias && argument.hasOneUse() &&
        llvm::count_if(group.getInputs(), sameBytes) == 1 &&
        addend.getType() == plan.chained.getType())
      plan.inPlace = {plan.output, argument.getArgNumber()};
  }
  if (slopeAt)
    addOperand(slopeAt);
  for (int64_t output : outputs)
    operands.push_back(numInputs + output);
  call.numbers("operands", operands);
  plan.call = call.finish();

  // The tail reads what the library wrote, the inputs it uses, and writes all
  // outputs that are not the library's own result.
  OperandRange yielded = group.getYield().getValues();
  plan.hasTail = hasOneResult && llvm::any_of(yielded, [&](Value value) {
                   return value != plan.chained && value != plan.sum;
                 });
  return plan;
}

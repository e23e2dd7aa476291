//===- LibraryRules.cpp - What a vendor's library computes ----------------===//
//
// The table, the questions passes ask of it, and nothing about how a call is
// made. A refusal always says which limit was met.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/IR/Target.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fusion;

static constexpr LibraryRule cpuRules[] = {
    {"conv", "f32", 3, 5, "nhwc nchw", true, true, "propagates", true, "oneDNN",
     "2.6.3"},
    {"conv_transpose", "f32", 3, 5, "nhwc nchw", true, true, "propagates", true,
     "oneDNN", "2.6.3"},
    {"matmul", "f32", 2, 6, "row-major", true, true, "propagates", true,
     "oneDNN", "2.6.3"},
    {"avg_pool", "f32", 3, 5, "nhwc nchw", false, false, "propagates", true,
     "oneDNN", "2.6.3"},
};

static constexpr LibraryRule cudaMatmul(llvm::StringLiteral dtype,
                                        bool isBitEqual,
                                        llvm::StringLiteral activations,
                                        llvm::StringLiteral gradients) {
  return {"matmul",    dtype,      2,      8,
          "row-major", true,       true,   "not verified",
          isBitEqual,  "cuBLASLt", "12.0", activations,
          gradients};
}

static constexpr LibraryRule cudaConv(llvm::StringLiteral op,
                                      llvm::StringLiteral dtype, bool isNarrow,
                                      int64_t maxRank = 5) {
  return {op,   dtype,        3,         maxRank, "nhwc", true,
          true, "propagates", !isNarrow, "cuDNN", "9.0",  "relu"};
}

/// The weights of the values are rounded to `dtype`, which no strict result is.
static constexpr LibraryRule cudaAttention(llvm::StringLiteral op,
                                           llvm::StringLiteral dtype) {
  return {op,          dtype,   4,     4,
          "row-major", false,   false, "propagates but from masked keys",
          false,       "cuDNN", "9.6"};
}

/// Narrow results are rounded once, behind the epilogue.
static constexpr LibraryRule cudaRules[] = {
    // No slope of relu: the library reads signs as bits that the product in
    // front of the relu would have to write, in a form of its own.
    cudaMatmul("f16", false, "relu gelu_tanh", "side gelu_tanh result"),
    cudaMatmul("bf16", false, "relu gelu_tanh", "side gelu_tanh result"),
    cudaMatmul("f32", true, "relu gelu_tanh", "side gelu_tanh result"),
    // Seen with cuBLASLt 13.1: with an epilogue it sums in another order.
    cudaMatmul("f64", false, "", ""),
    cudaConv("conv", "f16", true),
    cudaConv("conv", "bf16", true),
    cudaConv("conv", "f32", false),
    cudaConv("conv_transpose", "f16", true),
    cudaConv("conv_transpose", "bf16", true),
    // Seen with cuDNN 9: no engine for three spatial dimensions.
    cudaConv("conv_transpose", "f32", false, /*maxRank=*/4),
    cudaAttention("attention", "f16"),
    cudaAttention("attention", "bf16"),
    cudaAttention("attention_grad", "f16"),
    cudaAttention("attention_grad", "bf16"),
};

static constexpr LibraryRefusal refusals[] = {
    {"relu", "the post-op turns NaN into 0"},
    {"clamp", "the post-op turns NaN into 0"},
    {"max", "the post-op turns NaN into 0"},
    {"min", "the post-op turns NaN into 0"},
    {"max_pool", "drops NaN"},
    {"gelu", "3 to 519 ULP from the accurate value"},
    {"silu", "3 to 519 ULP from the accurate value"},
    {"hard_sigmoid", "no such post-op in the least version"},
};

ArrayRef<LibraryRule> fusion::getLibraryRules(StringRef target) {
  if (target == "cuda")
    return cudaRules;
  return cpuRules;
}
ArrayRef<LibraryRefusal> fusion::getLibraryRefusals() { return refusals; }

static std::string describe(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static bool hasEmptyDim(Value value) {
  return llvm::is_contained(cast<RankedTensorType>(value.getType()).getShape(),
                            0);
}

/// What the groups of a convolution have against cuDNN, or "". Seen with cuDNN
/// 9: tensor cores take groups of four channels at full speed; of depthwise
/// convolutions it has slow plans only, of f32 none that is known to be fast.
static std::string checkCudaGroups(ConvOp conv) {
  if (conv.getGroups() == 1)
    return "";
  if (!isFast(conv))
    return "the library lets NaN of one group reach others; --fp=fast lets it";
  auto weights = cast<RankedTensorType>(conv.getWeights().getType());
  int64_t inputs = weights.getDimSize(1),
          outputs = weights.getDimSize(0) / conv.getGroups();
  if (weights.getElementType().isF32() || weights.getRank() > 4 ||
      inputs % 4 != 0 || outputs % 4 != 0)
    return "the library has fast plans for groups of f16 and bf16 only, of a "
           "multiple of 4 channels in and out, and no third spatial dimension";
  return "";
}

/// What attention has against cuDNN, or "". The limits are those of its fused
/// kernels on all GPUs that we compile for.
template <typename OpT> static std::string checkCudaAttention(OpT op) {
  constexpr int64_t kDepths = 8, kMaxDepth = 128, kMaskColumns = 8;
  if (!isFast(op))
    return "the library rounds the weights of the values; --fp=fast lets it";
  for (Value operand : op->getOperands())
    if (llvm::any_of(
            cast<RankedTensorType>(operand.getType()).getShape().drop_front(),
            ShapedType::isDynamic))
      return "a dimension behind the leading one depends on the batch";
  int64_t rows = op.getQuery().getType().getDimSize(2),
          keys = op.getKey().getType().getDimSize(2);
  for (int64_t depth : {op.getQuery().getType().getDimSize(3),
                        op.getValue().getType().getDimSize(3)})
    if (depth % kDepths != 0 || depth > kMaxDepth)
      return "the library takes depths that are multiples of 8 up to 128";
  if (op.getCausal() && rows > keys)
    return "queries that see no key give NaN, the library's do not";
  if (op.getCausal() && op.getMask() && rows != keys)
    return "the library takes a mask with causal only where there are as many "
           "keys as queries";
  if (isa<AttentionGradOp>(op) && rows == 1 && keys == 1)
    return "the library has no gradients of one query over one key";
  if (op.getMask() && (keys % kMaskColumns != 0 || rows == 1))
    return "the library takes masks of several queries and a multiple of 8 "
           "keys";
  return "";
}

/// What `output_padding` has against every library, or "".
static std::string checkOutputPadding(ConvTransposeOp conv) {
  for (auto [high, extra] :
       llvm::zip(conv.getPadHigh(), conv.getOutputPadding()))
    if (extra > high)
      return "output_padding above pad_high needs a negative padding";
  return "";
}

/// What the shapes and attributes of `op` have against cuBLASLt or cuDNN, or
/// "". A plan is made for one batch, so any dimension may depend on it.
static std::string checkCudaDetails(Operation *op) {
  for (Value operand : op->getOperands())
    if (cast<RankedTensorType>(operand.getType()).getElementType() !=
        getElementTypeOrSelf(op->getResult(0)))
      return "operands and result differ in element type";
  // Seen with cuDNN 9: no engine for most epilogues of images that are not
  // channels-last.
  auto checkLayout = [](auto conv) -> std::string {
    if (conv.getLayout() != Layout::NHWC)
      return "the library is given channels-last images only";
    return "";
  };
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case<AttentionOp, AttentionGradOp>(
          [](auto attention) { return checkCudaAttention(attention); })
      .Case([&](ConvOp conv) -> std::string {
        auto input = cast<RankedTensorType>(conv.getInput().getType());
        if (conv.getPadLow() != conv.getPadHigh() &&
            (input.getElementType().isF32() || input.getRank() > 4))
          return "the library pads both ends of a dimension alike, but for f16 "
                 "and bf16 of at most two spatial dimensions";
        std::string why = checkCudaGroups(conv);
        return why.empty() ? checkLayout(conv) : why;
      })
      .Case([&](ConvTransposeOp conv) -> std::string {
        // The gradient of a convolution that pads both ends by pad_low and
        // whose last steps need not reach the end.
        for (auto [low, high, extra, stride] :
             llvm::zip(conv.getPadLow(), conv.getPadHigh(),
                       conv.getOutputPadding(), conv.getStrides()))
          if (low - high + extra < 0 || low - high + extra >= stride)
            return "the library cuts both ends of a dimension alike, the end "
                   "by up to a stride less";
        if (conv.getGroups() != 1)
          return "the library is given no groups of a transposed convolution";
        std::string why = checkOutputPadding(conv);
        return why.empty() ? checkLayout(conv) : why;
      })
      .Default([](Operation *) { return std::string(); });
}

/// What the shapes and attributes of `op` have against oneDNN, or "".
static std::string checkDetails(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case([](AvgPoolOp pool) -> std::string {
        if (llvm::any_of(pool.getDilations(), [](int64_t d) { return d != 1; }))
          return "the library's pooling has no dilation";
        return "";
      })
      .Case(checkOutputPadding)
      .Case([](MatmulOp matmul) -> std::string {
        auto lhs = cast<RankedTensorType>(matmul.getLhs().getType());
        auto rhs = cast<RankedTensorType>(matmul.getRhs().getType());
        auto dynamicInside = [](RankedTensorType type) {
          for (int64_t dim = 1; dim < type.getRank(); ++dim)
            if (type.isDynamicDim(dim))
              return true;
          return false;
        };
        if (dynamicInside(lhs) || dynamicInside(rhs) ||
            (rhs.isDynamicDim(0) && rhs.getRank() == 2) ||
            (lhs.isDynamicDim(0) && lhs.getRank() == 2 &&
             matmul.getTransposeLhs()))
          return "a dimension behind the leading one depends on the batch";
        return "";
      })
      .Default([](Operation *) { return std::string(); });
}

/// The element types of the rows for `op`: "f32" or "f16, bf16, f32".
static std::string listTypes(ArrayRef<LibraryRule> rules, StringRef op) {
  SmallVector<StringRef> types;
  for (const LibraryRule &rule : rules)
    if (rule.op == op)
      types.push_back(rule.dtype);
  return llvm::join(types, ", ");
}

const LibraryRule *fusion::findLibraryRule(Operation *op, std::string *reason) {
  auto refuse = [&](const llvm::Twine &why) -> const LibraryRule * {
    if (reason)
      *reason = why.str();
    return nullptr;
  };
  bool cuda = isForCuda(op);
  ArrayRef<LibraryRule> rules = getLibraryRules(cuda ? "cuda" : "cpu");
  StringRef name = op->getName().getStringRef();
  name.consume_front("fusion.");
  auto isRule = [&](const LibraryRule &row) { return row.op == name; };
  if (llvm::none_of(rules, isRule)) {
    for (const LibraryRefusal &refusal : refusals)
      if (refusal.op == name && !cuda)
        return refuse("the library is not used for " + name + ": " +
                      refusal.reason);
    return refuse("the library has no " + name);
  }
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  std::string dtype = describe(type.getElementType());
  const LibraryRule *rule = llvm::find_if(rules, [&](const LibraryRule &row) {
    return row.op == name && row.dtype == dtype;
  });
  if (rule == rules.end())
    return refuse(name + " of " + dtype + ": the library computes " +
                  listTypes(rules, name));
  if (type.getRank() < rule->minRank || type.getRank() > rule->maxRank)
    return refuse("rank " + llvm::Twine(type.getRank()) + " is not in " +
                  llvm::Twine(rule->minRank) + ".." +
                  llvm::Twine(rule->maxRank));
  if (llvm::any_of(op->getOperands(), hasEmptyDim) ||
      llvm::any_of(op->getResults(), hasEmptyDim))
    return refuse("an operand or the result is empty");
  std::string why = cuda ? checkCudaDetails(op) : checkDetails(op);
  if (!why.empty())
    return refuse(why);
  return rule;
}

int64_t fusion::getLibraryChannelDim(Operation *root) {
  int64_t last =
      cast<RankedTensorType>(root->getResult(0).getType()).getRank() - 1;
  if (auto conv = dyn_cast<ConvOp>(root))
    return conv.getLayout() == Layout::NHWC ? last : 1;
  if (auto conv = dyn_cast<ConvTransposeOp>(root))
    return conv.getLayout() == Layout::NHWC ? last : 1;
  return last;
}

static bool hasOwnBias(Operation *root) {
  if (auto conv = dyn_cast<ConvOp>(root))
    return static_cast<bool>(conv.getBias());
  if (auto conv = dyn_cast<ConvTransposeOp>(root))
    return static_cast<bool>(conv.getBias());
  return false;
}

/// The 1-D tensor that `value` broadcasts along `channelDim` only, or null.
static Value getChannelBroadcast(Value value, int64_t channelDim) {
  auto bcast = value.getDefiningOp<BroadcastOp>();
  if (!bcast)
    return nullptr;
  auto from = cast<RankedTensorType>(bcast.getInput().getType());
  auto to = cast<RankedTensorType>(bcast.getResult().getType());
  if (from.getRank() != 1 || bcast.getDims()[0] != channelDim ||
      from.getDimSize(0) != to.getDimSize(channelDim))
    return nullptr;
  return bcast.getInput();
}

static Value otherOperand(AddOp add, Value chained) {
  return add.getLhs() == chained ? add.getRhs() : add.getLhs();
}

StringRef fusion::getLibraryActivation(Operation *op) {
  if (isa<ReluOp>(op))
    return "relu";
  auto gelu = dyn_cast<GeluOp>(op);
  return gelu && gelu.getKind() == GeluKind::Tanh ? "gelu_tanh" : "";
}

static bool hasActivation(const LibraryRule &rule, Operation *op) {
  StringRef name = getLibraryActivation(op);
  SmallVector<StringRef> known;
  rule.activations.split(known, ' ');
  return !name.empty() && llvm::is_contained(known, name);
}

LibraryEpilogue fusion::classifyLibraryEpilogue(Operation *root, Operation *op,
                                                Value chained, bool hasBias,
                                                bool hasAddend,
                                                std::string *reason) {
  auto refuse = [&](const llvm::Twine &why) {
    if (reason)
      *reason = why.str();
    return LibraryEpilogue::None;
  };
  const LibraryRule *rule = findLibraryRule(root, reason);
  if (!rule)
    return LibraryEpilogue::None;
  bool cuda = isForCuda(root), fast = isFast(root);
  auto add = dyn_cast<AddOp>(op);
  if (!add) {
    StringRef name = op->getName().getStringRef();
    name.consume_front("fusion.");
    if (cuda) {
      if (!hasActivation(*rule, op))
        return refuse(rule->library + " has no " + name + " behind a " +
                      rule->op);
      if (!fast)
        return refuse(name + " is absorbed under --fp=fast only");
      return LibraryEpilogue::Activation;
    }
    for (const LibraryRefusal &refusal : refusals)
      if (refusal.op == name)
        return refuse(name + " is not absorbed: " + refusal.reason);
    return refuse("only a bias and a sum are absorbed bit for bit");
  }
  if (add.getLhs() == add.getRhs())
    return refuse("both operands of the add are the library's output");
  if (add.getLhs() != chained && add.getRhs() != chained)
    return refuse("the add does not read the library's output");
  if (hasAddend)
    return refuse("an addend was absorbed before");
  if (cuda && !fast && !rule->epilogueBitEqual)
    return refuse(rule->dtype == "f64"
                      ? Twine("the library sums in another order then; "
                              "--fp=fast lets it")
                      : "the library would not round to " + rule->dtype +
                            " before the add; --fp=fast lets it");
  Value other = otherOperand(add, chained);
  if (getChannelBroadcast(other, getLibraryChannelDim(root))) {
    if (!rule->absorbsBias)
      return refuse(rule->op + " has no bias");
    if (hasBias || hasOwnBias(root))
      return refuse("a bias was absorbed before");
    return LibraryEpilogue::Bias;
  }
  if (!rule->absorbsAddend)
    return refuse(rule->op + " has no addend");
  if (cuda && !fast && (hasBias || hasOwnBias(root)))
    return refuse("the library would add the addend before the bias; "
                  "--fp=fast lets it");
  return LibraryEpilogue::Addend;
}

Value fusion::getLibraryEpilogueOperand(Operation *op, Value chained,
                                        LibraryEpilogue kind) {
  if (kind == LibraryEpilogue::Activation)
    return nullptr;
  Value other = otherOperand(cast<AddOp>(op), chained);
  if (kind == LibraryEpilogue::Bias)
    return other.getDefiningOp<BroadcastOp>().getInput();
  return other;
}

void fusion::printLibraryRules(llvm::raw_ostream &os) {
  for (StringRef target : {"cpu", "cuda"})
    for (const LibraryRule &rule : getLibraryRules(target))
      os << target << ' ' << rule.op << ' ' << rule.dtype << " rank "
         << rule.minRank << ".." << rule.maxRank << " layouts [" << rule.layouts
         << "] bias " << (rule.absorbsBias ? "yes" : "no") << " addend "
         << (rule.absorbsAddend ? "yes" : "no") << " activations ["
         << rule.activations << "] gradients [" << rule.gradients << "] nan "
         << rule.nan << " epilogue "
         << (rule.epilogueBitEqual ? "bit-equal" : "close") << ' '
         << rule.library << " >= " << rule.leastVersion << '\n';
  for (const LibraryRefusal &refusal : refusals)
    os << "cpu " << refusal.op << " compiled: " << refusal.reason << '\n';
}

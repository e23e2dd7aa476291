//===- AnalysisTest.cpp - What code generation asks of analyses -----------===//
//
// Sizes as functions of the batch, and what the library is given.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/BatchExtents.h"
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace fusion;

namespace {
struct Parsed {
  explicit Parsed(const char *text) {
    DialectRegistry registry;
    registry.insert<FusionDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    module = parseSourceString<ModuleOp>(text, &context);
    if (module)
      module->walk([&](func::FuncOp op) { main = op; });
  }
  template <typename OpTy> OpTy find() {
    OpTy found;
    main.walk([&](OpTy op) { found = op; });
    return found;
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp main;
};
} // namespace

TEST(BatchExtents, FollowsOpsIntoGroups) {
  Parsed p(R"(
    func.func @main(%x: tensor<?x4xf32>) -> tensor<?x2xf32> attributes {fusion.batch = array<i64: 1, 8>} {
      %c = fusion.constant dense<1.0> : tensor<3x4xf32>
      %r = fusion.group loop (%a = %x : tensor<?x4xf32>, %b = %c : tensor<3x4xf32>) -> tensor<?x2xf32> {
        %0 = fusion.concat %a, %a, %b axis = 0 : tensor<?x4xf32>, tensor<?x4xf32>, tensor<3x4xf32>
        %1 = fusion.reshape %0 : tensor<?x4xf32> to tensor<?x2xf32>
        fusion.yield %1 : tensor<?x2xf32>
      }
      return %r : tensor<?x2xf32>
    })");
  auto extents = BatchExtents::analyze(p.main);
  ASSERT_TRUE(succeeded(extents));
  EXPECT_EQ(extents->getExtent(p.find<ConcatOp>().getResult(), 0),
            (Extent{2, 3}));
  EXPECT_EQ(extents->getExtent(p.find<ReshapeOp>().getResult(), 0),
            (Extent{4, 6}));
  EXPECT_EQ(*extents->getNumElements(p.find<GroupOp>().getOutputs()[0]),
            (Extent{8, 12}));
}

TEST(BatchExtents, SquareOfTheBatchIsNotAffine) {
  Parsed p(R"(
    func.func @main(%x: tensor<?x4xf32>) -> tensor<?x?xf32> attributes {fusion.batch = array<i64: 1, 8>} {
      %0 = fusion.matmul %x, %x {transpose_rhs} : tensor<?x4xf32>, tensor<?x4xf32>
      return %0 : tensor<?x?xf32>
    })");
  auto extents = BatchExtents::analyze(p.main);
  ASSERT_TRUE(succeeded(extents));
  Value product = p.find<MatmulOp>().getResult();
  EXPECT_EQ(extents->getExtent(product, 1), (Extent{1, 0}));
  EXPECT_FALSE(extents->getNumElements(product).has_value());
}

TEST(LibraryRules, SaysWhyNot) {
  Parsed p(R"(
    func.func @main(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>, %z: tensor<1x4x8x8xf32>) -> (tensor<2x4xf64>, tensor<1x4x4x4xf32>) {
      %0 = fusion.matmul %x, %y : tensor<2x3xf64>, tensor<3x4xf64>
      %1 = fusion.max_pool %z window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
      return %0, %1 : tensor<2x4xf64>, tensor<1x4x4x4xf32>
    })");
  std::string reason;
  EXPECT_EQ(findLibraryRule(p.find<MatmulOp>(), &reason), nullptr);
  EXPECT_EQ(reason, "matmul of f64: the library computes f32");
  EXPECT_EQ(findLibraryRule(p.find<MaxPoolOp>(), &reason), nullptr);
  EXPECT_EQ(reason, "the library is not used for max_pool: drops NaN");
}

TEST(LibraryRules, AbsorbsOneBiasThenOneAddend) {
  Parsed p(R"(
    func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>, %b: tensor<4xf32>, %s: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %0 = fusion.matmul %x, %y : tensor<2x3xf32>, tensor<3x4xf32>
      %w = fusion.broadcast %b dims = [1] : tensor<4xf32> to tensor<2x4xf32>
      %1 = fusion.add %w, %0 : tensor<2x4xf32>
      %2 = fusion.add %1, %s : tensor<2x4xf32>
      %3 = fusion.relu %2 : tensor<2x4xf32>
      return %3 : tensor<2x4xf32>
    })");
  Operation *matmul = p.find<MatmulOp>();
  Operation *bias = *matmul->getUsers().begin();
  Operation *sum = *bias->getUsers().begin();
  Operation *relu = *sum->getUsers().begin();
  Value product = matmul->getResult(0), biased = bias->getResult(0);
  EXPECT_EQ(classifyLibraryEpilogue(matmul, bias, product, false, false),
            LibraryEpilogue::Bias);
  EXPECT_EQ(getLibraryEpilogueOperand(bias, product, LibraryEpilogue::Bias),
            p.main.getArgument(2));
  EXPECT_EQ(classifyLibraryEpilogue(matmul, sum, biased, true, false),
            LibraryEpilogue::Addend);
  std::string reason;
  EXPECT_EQ(
      classifyLibraryEpilogue(matmul, bias, product, true, false, &reason),
      LibraryEpilogue::None);
  EXPECT_EQ(reason, "a bias was absorbed before");
  EXPECT_EQ(classifyLibraryEpilogue(matmul, relu, sum->getResult(0), true, true,
                                    &reason),
            LibraryEpilogue::None);
  EXPECT_EQ(reason, "relu is not absorbed: the post-op turns NaN into 0");
}

TEST(LibraryRules, CudaServesFourTypesAndSaysWhyNot) {
  Parsed p(R"(
    module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
    func.func @main(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>, %i: tensor<2x3xi32>, %j: tensor<3x4xi32>, %z: tensor<1x4x8x8xf32>, %w: tensor<4x1x1x1xf32>) -> (tensor<2x4xf64>, tensor<2x4xi32>, tensor<1x4x4x4xf32>, tensor<1x4x8x8xf32>) {
      %0 = fusion.matmul %x, %y : tensor<2x3xf64>, tensor<3x4xf64>
      %1 = fusion.matmul %i, %j : tensor<2x3xi32>, tensor<3x4xi32>
      %2 = fusion.avg_pool %z window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
      %3 = fusion.conv %z, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 4 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x1x1x1xf32>
      return %0, %1, %2, %3 : tensor<2x4xf64>, tensor<2x4xi32>, tensor<1x4x4x4xf32>, tensor<1x4x8x8xf32>
    }})");
  ASSERT_TRUE(p.main);
  std::string reason;
  EXPECT_EQ(findLibraryRule(p.find<MatmulOp>(), &reason), nullptr);
  EXPECT_EQ(reason, "matmul of i32: the library computes f16, bf16, f32, f64");
  const LibraryRule *rule = findLibraryRule(
      p.main.getBody().front().front().getResult(0).getDefiningOp());
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->library, "cuBLASLt");
  EXPECT_EQ(findLibraryRule(p.find<AvgPoolOp>(), &reason), nullptr);
  EXPECT_EQ(reason, "the library has no avg_pool");
  EXPECT_EQ(findLibraryRule(p.find<ConvOp>(), &reason), nullptr);
  EXPECT_EQ(reason,
            "the library has fast plans for groups of f16 and bf16 only, of a "
            "multiple of 4 channels in and out, and no third spatial "
            "dimension");
}

/// A convolution of `channels` to `outputs` under a window of 3, and what the
/// rules of a GPU say.
static std::string askConv(StringRef dtype, int64_t spatial, int64_t channels,
                           int64_t outputs, int64_t groups, bool padsAlike,
                           StringRef fp = "fast") {
  auto list = [&](StringRef value) {
    std::string text;
    for (int64_t i = 0; i < spatial; ++i)
      text += (i ? ", " : "") + value.str();
    return "[" + text + "]";
  };
  auto image = [&](StringRef size, int64_t count) {
    std::string text = "tensor<1x";
    for (int64_t i = 0; i < spatial; ++i)
      text += size.str();
    return text + std::to_string(count) + "x" + dtype.str() + ">";
  };
  std::string x = image("8x", channels),
              y = image(padsAlike ? "8x" : "7x", outputs),
              w = "tensor<" + std::to_string(outputs) + "x" +
                  std::to_string(channels / groups);
  for (int64_t i = 0; i < spatial; ++i)
    w += "x3";
  w += "x" + dtype.str() + ">";
  Parsed p(("module attributes {fusion.target = \"cuda\", fusion.fp = \"" +
            fp.str() +
            "\"} {\n"
            "func.func @main(%x: " +
            x + ", %w: " + w + ") -> " + y +
            " {\n%0 = fusion.conv %x, %w strides = " + list("1") +
            " pad_low = " + list(padsAlike ? "1" : "0") +
            " pad_high = " + list("1") + " dilations = " + list("1") +
            " groups = " + std::to_string(groups) + " layout = nhwc : " + x +
            ", " + w + "\nreturn %0 : " + y + "\n}}")
               .c_str());
  if (!p.main)
    return "does not parse";
  std::string reason;
  findLibraryRule(p.find<ConvOp>(), &reason);
  return reason;
}

/// What cuDNN was seen to compute at full speed, and no more.
TEST(LibraryRules, CudaTakesGroupsAndUnlikePadding) {
  const char *kGroups =
      "the library has fast plans for groups of f16 and bf16 only, of a "
      "multiple of 4 channels in and out, and no third spatial dimension";
  const char *kPads =
      "the library pads both ends of a dimension alike, but for f16 and bf16 "
      "of at most two spatial dimensions";
  for (const char *dtype : {"f16", "bf16"}) {
    EXPECT_EQ(askConv(dtype, 2, 16, 16, 1, false), "");
    EXPECT_EQ(askConv(dtype, 1, 16, 16, 1, false), "");
    EXPECT_EQ(askConv(dtype, 3, 16, 16, 1, false), kPads);
    EXPECT_EQ(askConv(dtype, 3, 16, 16, 1, true), "");
    EXPECT_EQ(askConv(dtype, 2, 16, 16, 4, true), "");
    EXPECT_EQ(askConv(dtype, 2, 16, 16, 4, false), "");
    EXPECT_EQ(askConv(dtype, 1, 16, 32, 2, true), "");
    EXPECT_EQ(askConv(dtype, 3, 16, 16, 4, true), kGroups);
    EXPECT_EQ(askConv(dtype, 2, 16, 16, 16, true), kGroups); // depthwise
    EXPECT_EQ(askConv(dtype, 2, 16, 8, 4, true), kGroups);   // 2 out
    EXPECT_EQ(askConv(dtype, 2, 8, 16, 4, true), kGroups);   // 2 in
  }
  EXPECT_EQ(
      askConv("f16", 2, 16, 16, 4, true, "strict"),
      "the library lets NaN of one group reach others; --fp=fast lets it");
  EXPECT_EQ(askConv("f16", 2, 16, 16, 1, false, "strict"), "");
  EXPECT_EQ(askConv("f32", 2, 16, 16, 1, true), "");
  EXPECT_EQ(askConv("f32", 2, 16, 16, 1, false), kPads);
  EXPECT_EQ(askConv("f32", 2, 16, 16, 4, true), kGroups);
}

/// What the rules of a GPU say of attention over `batch` x 4 heads of 2 groups,
/// and of its gradients, which is the same.
static std::string askAttention(StringRef dtype, int64_t rows, int64_t keys,
                                int64_t depth, StringRef attributes,
                                bool hasMask, StringRef fp = "fast") {
  auto tensor = [&](int64_t heads, int64_t length, int64_t width) {
    return "tensor<?x" + std::to_string(heads) + "x" + std::to_string(length) +
           "x" + std::to_string(width) + "x" + dtype.str() + ">";
  };
  std::string q = tensor(4, rows, depth), k = tensor(2, keys, depth),
              v = tensor(2, keys, 8), y = tensor(4, rows, 8),
              m = "tensor<1x1x" + std::to_string(rows) + "x" +
                  std::to_string(keys) + "x" + dtype.str() + ">";
  Parsed p(("module attributes {fusion.target = \"cuda\", fusion.fp = \"" +
            fp.str() + "\"} {\nfunc.func @main(%q: " + q + ", %k: " + k +
            ", %v: " + v + ", %m: " + m + ") -> " + y +
            " attributes {fusion.batch = array<i64: 1, 4>} {\n%0 = "
            "fusion.attention %q, %k, %v " +
            (hasMask ? "mask %m " : "") + "scale = 0.5 " + attributes.str() +
            " : " + q + ", " + k + ", " + v + (hasMask ? ", " + m : "") +
            "\n%1:3 = fusion.attention_grad %q, %k, %v, %0 " +
            (hasMask ? "mask %m " : "") + "scale = 0.5 " + attributes.str() +
            " : " + q + ", " + k + ", " + v + ", " + y +
            (hasMask ? ", " + m : "") + "\nreturn %0 : " + y + "\n}}")
               .c_str());
  if (!p.main)
    return "does not parse";
  std::string reason, ofGradients;
  const LibraryRule *rule = findLibraryRule(p.find<AttentionOp>(), &reason);
  EXPECT_EQ(rule != nullptr, reason.empty());
  rule = findLibraryRule(p.find<AttentionGradOp>(), &ofGradients);
  EXPECT_EQ(rule != nullptr, ofGradients.empty());
  if (StringRef(ofGradients).starts_with("attention_grad of"))
    ofGradients.erase(strlen("attention"), strlen("_grad"));
  EXPECT_EQ(ofGradients, reason);
  return reason;
}

TEST(LibraryRules, CudaTakesAttentionUnderFastArithmetic) {
  for (StringRef dtype : {"f16", "bf16"}) {
    EXPECT_EQ(askAttention(dtype, 5, 7, 64, "", false), "");
    EXPECT_EQ(askAttention(dtype, 5, 7, 128, "causal", false), "");
    EXPECT_EQ(askAttention(dtype, 1, 7, 64, "causal", false), "");
    EXPECT_EQ(askAttention(dtype, 5, 16, 64, "", true), "");
    EXPECT_EQ(askAttention(dtype, 16, 16, 64, "causal", true), "");
    EXPECT_EQ(askAttention(dtype, 5, 7, 64, "", false, "strict"),
              "the library rounds the weights of the values; --fp=fast lets "
              "it");
    for (int64_t depth : {12, 136})
      EXPECT_EQ(askAttention(dtype, 5, 7, depth, "", false),
                "the library takes depths that are multiples of 8 up to 128");
    EXPECT_EQ(askAttention(dtype, 7, 5, 64, "causal", false),
              "queries that see no key give NaN, the library's do not");
    EXPECT_EQ(askAttention(dtype, 8, 16, 64, "causal", true),
              "the library takes a mask with causal only where there are as "
              "many keys as queries");
    for (auto [rows, keys] : {std::pair(5, 12), {1, 16}})
      EXPECT_EQ(askAttention(dtype, rows, keys, 64, "", true),
                "the library takes masks of several queries and a multiple of "
                "8 keys");
  }
  EXPECT_EQ(askAttention("f32", 5, 7, 64, "", false),
            "attention of f32: the library computes f16, bf16");
}

/// cuDNN has no engine for one of f32 with three spatial dimensions.
TEST(LibraryRules, CudaRefusesGradientsOfVolumesInF32) {
  for (std::string dtype : {"f16", "bf16", "f32"}) {
    std::string types = "tensor<1x3x4x5x8x" + dtype + ">, tensor<8x8x2x2x2x" +
                        dtype + ">",
                result = "tensor<1x6x8x10x8x" + dtype + ">";
    Parsed p(("module attributes {fusion.target = \"cuda\"} {\n"
              "func.func @main(%x: tensor<1x3x4x5x8x" +
              dtype + ">, %w: tensor<8x8x2x2x2x" + dtype + ">) -> " + result +
              " {\n%0 = fusion.conv_transpose %x, %w strides = [2, 2, 2] "
              "pad_low = [0, 0, 0] pad_high = [0, 0, 0] output_padding = "
              "[0, 0, 0] dilations = [1, 1, 1] groups = 1 layout = nhwc : " +
              types + "\nreturn %0 : " + result + "\n}}")
                 .c_str());
    ASSERT_TRUE(p.main);
    std::string reason;
    findLibraryRule(p.find<ConvTransposeOp>(), &reason);
    EXPECT_EQ(reason, dtype == "f32" ? "rank 5 is not in 3..4" : "");
  }
}

TEST(LibraryRules, CudaTakesChannelsLastOnly) {
  for (bool last : {true, false}) {
    std::string shape = last ? "1x8x8x4" : "1x4x8x8";
    Parsed p((R"(
    module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
    func.func @main(%z: tensor<)" +
              shape + R"(xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<)" + shape +
              R"(xf32> {
      %0 = fusion.conv %z, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = )" +
              (last ? "nhwc" : "nchw") + " : tensor<" + shape +
              R"(xf32>, tensor<4x4x1x1xf32>
      return %0 : tensor<)" +
              shape + R"(xf32>
    }})")
                 .c_str());
    ASSERT_TRUE(p.main);
    std::string reason;
    EXPECT_EQ(findLibraryRule(p.find<ConvOp>(), &reason) != nullptr, last);
    if (!last)
      EXPECT_EQ(reason, "the library is given channels-last images only");
  }
}

/// A transposed convolution is a gradient: the output may be longer than the
/// convolution's steps reach, by less than one stride.
TEST(LibraryRules, CudaTakesGradientsOfConvolutions) {
  struct Case {
    const char *attributes, *reason;
    int64_t size; // of the output, from 5 positions under a window of 3
  };
  const char *kUnlike = "the library cuts both ends of a dimension alike, the "
                        "end by up to a stride less";
  for (const Case &test :
       {Case{"pad_low = [1] pad_high = [1] output_padding = [0]", "", 9},
        Case{"pad_low = [1] pad_high = [1] output_padding = [1]", "", 10},
        Case{"pad_low = [1] pad_high = [0] output_padding = [0]", "", 10},
        Case{"pad_low = [0] pad_high = [1] output_padding = [0]", kUnlike, 10},
        Case{"pad_low = [1] pad_high = [0] output_padding = [1]", kUnlike, 11},
        Case{"pad_low = [0] pad_high = [0] output_padding = [1]",
             "output_padding above pad_high needs a negative padding", 12}}) {
    std::string result = "tensor<1x" + std::to_string(test.size) + "x2xf16>";
    Parsed p(
        (R"(
    module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
    func.func @main(%x: tensor<1x5x4xf16>, %w: tensor<4x2x3xf16>) -> )" +
         result + R"( {
      %0 = fusion.conv_transpose %x, %w strides = [2] )" +
         test.attributes +
         R"( dilations = [1] groups = 1 layout = nhwc : tensor<1x5x4xf16>, tensor<4x2x3xf16>
      return %0 : )" +
         result + "\n}}")
            .c_str());
    ASSERT_TRUE(p.main) << test.attributes;
    std::string reason;
    const LibraryRule *rule =
        findLibraryRule(p.find<ConvTransposeOp>(), &reason);
    EXPECT_EQ(rule == nullptr, *test.reason != 0) << test.attributes;
    EXPECT_EQ(reason, test.reason);
    if (rule)
      EXPECT_EQ(rule->library, "cuDNN");
  }
}

static constexpr char kCudaEpilogue[] = R"(
    func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>, %b: tensor<4xf32>, %s: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
      %0 = fusion.matmul %x, %y : tensor<2x3xf32>, tensor<3x4xf32>
      %w = fusion.broadcast %b dims = [1] : tensor<4xf32> to tensor<2x4xf32>
      %1 = fusion.add %w, %0 : tensor<2x4xf32>
      %2 = fusion.add %1, %s : tensor<2x4xf32>
      %3 = fusion.gelu tanh, %2 : tensor<2x4xf32>
      %4 = fusion.gelu erf, %2 : tensor<2x4xf32>
      return %3, %4 : tensor<2x4xf32>, tensor<2x4xf32>
    }})";

/// What `op` is behind the product of kCudaEpilogue, which has a bias.
static LibraryEpilogue classify(Parsed &p, Operation *op, Value chained,
                                std::string &reason) {
  return classifyLibraryEpilogue(p.find<MatmulOp>(), op, chained, true, false,
                                 &reason);
}

TEST(LibraryRules, CudaAbsorbsMoreUnderFastArithmetic) {
  Parsed fast((std::string("module attributes {fusion.target = \"cuda\", "
                           "fusion.fp = \"fast\"} {") +
               kCudaEpilogue)
                  .c_str());
  Parsed strict((std::string("module attributes {fusion.target = \"cuda\", "
                             "fusion.fp = \"strict\"} {") +
                 kCudaEpilogue)
                    .c_str());
  std::string reason;
  for (Parsed *p : {&fast, &strict}) {
    ASSERT_TRUE(p->main);
    Operation *bias = *p->find<MatmulOp>()->getUsers().begin();
    EXPECT_EQ(classifyLibraryEpilogue(p->find<MatmulOp>(), bias,
                                      p->find<MatmulOp>(), false, false),
              LibraryEpilogue::Bias);
  }
  auto sumOf = [](Parsed &p) { return p.find<GeluOp>().getInput(); };
  auto addOf = [&](Parsed &p) { return cast<AddOp>(sumOf(p).getDefiningOp()); };
  EXPECT_EQ(classify(fast, addOf(fast), addOf(fast).getLhs(), reason),
            LibraryEpilogue::Addend);
  EXPECT_EQ(classify(strict, addOf(strict), addOf(strict).getLhs(), reason),
            LibraryEpilogue::None);
  EXPECT_EQ(reason, "the library would add the addend before the bias; "
                    "--fp=fast lets it");
  for (Operation *gelu : sumOf(fast).getUsers()) {
    bool isTanh = cast<GeluOp>(gelu).getKind() == GeluKind::Tanh;
    EXPECT_EQ(classify(fast, gelu, sumOf(fast), reason),
              isTanh ? LibraryEpilogue::Activation : LibraryEpilogue::None);
    if (isTanh)
      EXPECT_EQ(getLibraryActivation(gelu), "gelu_tanh");
    else
      EXPECT_EQ(reason, "cuBLASLt has no gelu behind a matmul");
  }
  for (Operation *gelu : sumOf(strict).getUsers())
    if (cast<GeluOp>(gelu).getKind() == GeluKind::Tanh) {
      EXPECT_EQ(classify(strict, gelu, sumOf(strict), reason),
                LibraryEpilogue::None);
      EXPECT_EQ(reason, "gelu is absorbed under --fp=fast only");
    }
}

//===- RegisterEstimateTest.cpp - Estimated registers against ptxas -------===//
//
// Reference kernels of every emitter, as the fuse phase groups them: what
// granularity believes a thread takes, and what the assembler gives it. Needs
// ptxas, no GPU. The table is printed whether the test passes or not.
//
// The bar is a fifth, or four registers for the smallest: half of the eight in
// which the hardware deals them.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/KernelResources.h"
#include "fusion/Codegen/CudaProbe.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace fusion;

namespace {

/// One kernel: `body` over inputs %0, %1, ... gives %y, or %y and further %y1,
/// ... of the same type.
struct Reference {
  std::string name;
  std::vector<std::string> inputs;
  std::string result;
  std::string body;
  unsigned results = 1;
  /// Already one group, of more ops than the phase would put together.
  bool isGroup = false;
};

/// The references, by the emitter that takes them.
class References {
public:
  References() {
    addLoops();
    addWide();
    addNorms();
    addRows();
    addColumns();
    addMoves();
  }
  std::vector<Reference> all;

private:
  void add(std::string name, std::vector<std::string> inputs,
           std::string result, std::string body, unsigned results = 1) {
    all.push_back({name, inputs, result, body, results, false});
  }
  /// `$` in the body is the type of all values.
  void loop(std::string name, std::string type, unsigned inputs,
            const std::string &body, unsigned results = 1) {
    add(name, std::vector<std::string>(inputs, type), type, fill(body, type),
        results);
  }
  static std::string fill(const std::string &text, const std::string &type);

  void addLoops();
  void addWide();
  void addNorms();
  void addRows();
  void addColumns();
  void addMoves();
};

} // namespace

/// A tensor, of one vector a thread or of two.
static std::string small(const std::string &element) {
  return "tensor<65536x" + element + ">";
}
static std::string large(const std::string &element) {
  return "tensor<16777216x" + element + ">";
}

std::string References::fill(const std::string &text, const std::string &type) {
  std::string made;
  for (char c : text)
    if (c == '$')
      made += type;
    else
      made += c;
  return made;
}

void References::addLoops() {
  const char *sum = "%y = fusion.add %0, %1 : $";
  for (const char *element : {"f64", "f32", "bf16", "i8"})
    loop(std::string("add ") + element, small(element), 2, sum);
  for (const char *element : {"f32", "f16", "bf16"})
    loop(std::string("add ") + element + ", two vectors", large(element), 2,
         sum);
  loop("exp f32", small("f32"), 1, "%y = fusion.exp %0 : $");
  loop("erf f32", small("f32"), 1, "%y = fusion.erf %0 : $");
  loop("pow f32", small("f32"), 2, "%y = fusion.pow %0, %1 : $");
  loop("log f32, two vectors", large("f32"), 1, "%y = fusion.log %0 : $");
  loop("div f32, two vectors", large("f32"), 2, "%y = fusion.div %0, %1 : $");
  loop("silu bf16", small("bf16"), 1, "%y = fusion.silu %0 : $");
  loop("gelu bf16", small("bf16"), 1, "%y = fusion.gelu tanh, %0 : $");
  loop("8 inputs f32", small("f32"), 8,
       "%a = fusion.add %0, %1 : $\n%b = fusion.add %2, %3 : $\n"
       "%c = fusion.add %4, %5 : $\n%d = fusion.add %6, %7 : $\n"
       "%e = fusion.mul %a, %b : $\n%f = fusion.mul %c, %d : $\n"
       "%y = fusion.add %e, %f : $");
  loop("Adam f32, two vectors", large("f32"), 4,
       "%b1 = fusion.constant dense<0.9> : $\n"
       "%c1 = fusion.constant dense<0.1> : $\n"
       "%b2 = fusion.constant dense<0.99> : $\n"
       "%c2 = fusion.constant dense<0.01> : $\n"
       "%m0 = fusion.mul %1, %b1 : $\n%m1 = fusion.mul %3, %c1 : $\n"
       "%y1 = fusion.add %m0, %m1 : $\n"
       "%v0 = fusion.mul %2, %b2 : $\n%g2 = fusion.mul %3, %3 : $\n"
       "%v1 = fusion.mul %g2, %c2 : $\n%y2 = fusion.add %v0, %v1 : $\n"
       "%r = fusion.sqrt %y2 : $\n%e = fusion.add %r, %c2 : $\n"
       "%u = fusion.div %y1, %e : $\n%y = fusion.sub %0, %u : $",
       3);
}

/// `width` values that their sum scales: all are live at once.
static std::string makeWide(unsigned width) {
  std::string text = "%a0 = fusion.neg %0 : $\n", last = "%a0";
  auto line = [&](std::string result, const char *op, std::string operands) {
    text += result + " = fusion." + op + " " + operands + " : $\n";
    last = result;
  };
  auto name = [](const char *prefix, unsigned i) {
    return prefix + std::to_string(i);
  };
  for (unsigned i = 1; i < width; ++i)
    line(name("%a", i), "mul", last + ", %0");
  last = "%a0";
  for (unsigned i = 1; i < width; ++i)
    line(name("%s", i), "add", last + ", " + name("%a", i));
  for (unsigned i = 0; i < width; ++i)
    line(i + 1 < width ? name("%t", i) : "%y", "mul",
         last + ", " + name("%a", i));
  return text;
}

void References::addWide() {
  for (auto [width, type, note] :
       {std::tuple(20u, small("f32"), " f32"),
        std::tuple(40u, small("f32"), " f32"),
        std::tuple(80u, small("f32"), " f32"),
        std::tuple(160u, small("f32"), " f32"),
        std::tuple(80u, large("f32"), " f32, two vectors"),
        std::tuple(40u, small("bf16"), " bf16")}) {
    loop(std::to_string(width) + " live values" + note, type, 1,
         makeWide(width));
    all.back().isGroup = true;
  }
}

void References::addNorms() {
  for (auto [element, rows, width] :
       {std::tuple("bf16", 512, 768), std::tuple("bf16", 8192, 1024),
        std::tuple("bf16", 4096, 4096), std::tuple("f32", 4096, 64),
        std::tuple("f32", 4096, 1024), std::tuple("f16", 512, 16384),
        std::tuple("bf16", 512, 32768)}) {
    std::string tail = std::to_string(width) + "x" + element + ">";
    std::string row = "tensor<" + tail;
    std::string type = "tensor<" + std::to_string(rows) + "x" + tail;
    add("layer_norm " + tail.substr(0, tail.size() - 1), {type, row, row}, type,
        "%y = fusion.layer_norm %0 scale %1 bias %2 epsilon = 1.0e-5 axis = "
        "1 : " +
            type + ", " + row + ", " + row);
  }
  for (const char *rows : {"8192x4096xbf16", "512x16384xf32"}) {
    std::string type = std::string("tensor<") + rows + ">";
    std::string row = "tensor<" + type.substr(type.find('x') + 1);
    add("residual rms_norm " + row.substr(7, row.size() - 8), {type, type, row},
        type,
        "%y1 = fusion.add %0, %1 : " + type +
            "\n%y = fusion.rms_norm %y1 scale %2 epsilon = 1.0e-5 axis = 1 : " +
            type + ", " + row,
        2);
  }
}

void References::addRows() {
  for (const char *rows : {"8192x128xf32", "8192x1024xbf16", "8192x4096xf32",
                           "512x32768xf32", "64x131072xf32"})
    loop(std::string("softmax ") + rows, std::string("tensor<") + rows + ">", 1,
         "%y = fusion.softmax %0 axis = 1 : $");
  add("row sums 4096xf32", {"tensor<4096x4096xf32>"}, "tensor<4096xf32>",
      "%y = fusion.reduce sum, %0 dims = [1] : tensor<4096x4096xf32>");
  add("row maxima 1000xbf16", {"tensor<4096x1000xbf16>"}, "tensor<4096xbf16>",
      "%y = fusion.reduce max, %0 dims = [1] : tensor<4096x1000xbf16>");
  // What is read again behind the sum is held: two rows, three rows.
  for (const char *rows : {"512x4096xf32"}) {
    std::string type = std::string("tensor<") + rows + ">", name = rows;
    std::string sum = "%s = fusion.reduce sum, %p dims = [1] : $\n"
                      "%b = fusion.broadcast %s dims = [0] : tensor<512xf32> "
                      "to $\n%d = fusion.sub %0, %b : $\n";
    loop("two rows held " + name, type, 2,
         "%p = fusion.mul %0, %1 : $\n" + sum + "%y = fusion.mul %d, %1 : $");
    loop("three rows held " + name, type, 3,
         "%q = fusion.mul %0, %1 : $\n%p = fusion.add %q, %2 : $\n" + sum +
             "%f = fusion.mul %d, %1 : $\n%y = fusion.add %f, %2 : $");
  }
}

void References::addColumns() {
  auto sums = [&](const char *shape, const char *result, const char *dim) {
    std::string type = std::string("tensor<") + shape + ">";
    add(std::string("column sums ") + shape, {type}, result,
        "%y = fusion.reduce sum, %0 dims = [" + std::string(dim) +
            "] : " + type);
  };
  sums("8192x16384xbf16", "tensor<16384xbf16>", "0");
  sums("64x262144xf32", "tensor<262144xf32>", "0");
  sums("64x512x128xf32", "tensor<64x128xf32>", "1");
}

void References::addMoves() {
  const char *transpose = "%y = fusion.transpose %0 permutation = [1, 0] : $";
  loop("transpose f32", "tensor<8192x8192xf32>", 1, transpose);
  loop("transpose bf16", "tensor<8192x8192xbf16>", 1, transpose);
  loop("transpose and add f32", "tensor<1024x1024xf32>", 2,
       "%t = fusion.transpose %0 permutation = [1, 0] : $\n"
       "%y = fusion.add %t, %1 : $");
  add("gather of rows f32", {"tensor<32000x1024xf32>", "tensor<4096xi64>"},
      "tensor<4096x1024xf32>",
      "%y = fusion.gather %0, %1 axis = 0 : tensor<32000x1024xf32>, "
      "tensor<4096xi64>");
  add("concat f32", {"tensor<4096x256xf32>", "tensor<4096x768xf32>"},
      "tensor<4096x1024xf32>",
      "%y = fusion.concat %0, %1 axis = 1 : tensor<4096x256xf32>, "
      "tensor<4096x768xf32>");
}

static std::string print(const Reference &reference) {
  std::string text = "func.func @main(", types, values, body = reference.body;
  std::string first = reference.inputs.front();
  for (auto [i, type] : llvm::enumerate(reference.inputs))
    text += (i ? ", %" : "%") + std::to_string(i) + ": " + type;
  for (unsigned i = 0; i < reference.results; ++i) {
    types += (i ? ", " : "") + reference.result;
    values += i ? ", %y" + std::to_string(i) : "%y";
  }
  if (reference.isGroup) {
    // The group's own name of the input.
    for (size_t at; (at = body.find("%0")) != std::string::npos;)
      body.replace(at, 2, "%x");
    body = "%g = fusion.group loop (%x = %0 : " + first + ") -> " + first +
           " {\n" + body + "fusion.yield %y : " + first + "\n}";
    values = "%g";
  }
  return text + ") -> (" + types + ") {\n" + body + "\nreturn " + values +
         " : " + types + "\n}\n";
}

TEST(RegisterEstimate, IsWithinAFifthOfTheAssembler) {
  DeviceCodeOptions options;
  options.contract = true;
  options.ptxas = llvm::cantFail(findAssembler(""));
  options.libdevice = findLibdevice();
  if (options.ptxas.empty())
    GTEST_SKIP() << "no ptxas: run ./dev setup, or set CUDA_HOME";
  DeviceModel device = llvm::cantFail(DeviceModel::load("h200"));
  std::unique_ptr<KernelProbe> probe = createCudaProbe(options, "fast");
  DialectRegistry registry;
  registry.insert<FusionDialect, func::FuncDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  unsigned kernels = 0;
  for (const Reference &reference : References().all) {
    SCOPED_TRACE(reference.name);
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(print(reference), &context);
    ASSERT_TRUE(module);
    Builder b(&context);
    (*module)->setAttr(kTargetAttr, b.getStringAttr("cuda"));
    (*module)->setAttr(kFpAttr, b.getStringAttr("fast"));
    PassManager manager(&context);
    FuseOptions fuse;
    fuse.device = "h200";
    if (!reference.isGroup)
      buildFusePipeline(manager, fuse);
    ASSERT_TRUE(succeeded(manager.run(*module)));
    auto function = module->lookupSymbol<func::FuncOp>("main");
    auto legality = FusionLegality::create(function, GroupLimits());
    ASSERT_TRUE(succeeded(legality));
    SmallVector<GroupOp> groups(function.getOps<GroupOp>());
    ASSERT_EQ(groups.size(), 1u);
    KernelResources estimate =
        estimateResources(groups.front(), *legality, device);
    std::optional<ProbeResult> real = probe->probe(groups.front());
    ASSERT_TRUE(real);
    ++kernels;
    int64_t said = estimate.registersPerThread, is = real->registersPerThread;
    llvm::outs() << llvm::format("%-34s estimated %4d, ptxas %4d: %+4.0f %%\n",
                                 reference.name.c_str(), int(said), int(is),
                                 100.0 * (said - is) / is);
    EXPECT_LE(std::abs(said - is), std::max(is / 5.0, 4.0));
    EXPECT_EQ(real->spillBytes, 0);
  }
  EXPECT_GE(kernels, 20u);
}

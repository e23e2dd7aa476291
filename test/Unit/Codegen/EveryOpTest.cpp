//===- EveryOpTest.cpp - Each op against the reference evaluator ----------===//
//
// Every compute op with every element type it takes, as a group of one op: the
// kernel's result against the evaluator's, by the tolerance of
// docs/tolerances.md. Inputs hold special values (NaN, infinities, zeros,
// subnormals, least and largest integers). The last test asserts that no op was
// forgotten.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include "fusion/IR/FusionDialect.h"
#include "fusion/Reference/Compare.h"
#include "fusion/Reference/Evaluator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace fusion::test;
using namespace fusion::reference;

namespace {
/// One op: its text over %0, %1, ... and types where T is the element type.
struct OpCase {
  std::string text;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  /// Largest absolute value of random inputs; 0: integers in [-4, 4].
  double range = 0;
  bool specials = false;
};

enum Elements : unsigned { Floats = 1, Ints = 2, Bool = 4 };
struct CaseSet {
  unsigned elements;
  std::vector<OpCase> cases;
};
} // namespace

static const char *kVector = "tensor<83xT>";

static CaseSet unary(unsigned elements, std::vector<std::string> names,
                     double range, bool specials = true) {
  CaseSet set{elements, {}};
  for (const std::string &name : names)
    set.cases.push_back({"fusion." + name + " %0 : tensor<83xT>",
                         {kVector},
                         {kVector},
                         range,
                         specials});
  return set;
}

static CaseSet binary(unsigned elements, std::vector<std::string> names,
                      double range) {
  CaseSet set{elements, {}};
  for (const std::string &name : names)
    set.cases.push_back({"fusion." + name + " %0, %1 : tensor<83xT>",
                         {kVector, kVector},
                         {kVector},
                         range,
                         true});
  return set;
}

static std::vector<CaseSet> allCases() {
  std::vector<CaseSet> sets;
  sets.push_back(unary(Floats | Ints, {"neg", "abs", "sign", "relu"}, 100));
  sets.push_back(
      unary(Floats,
            {"ceil",  "floor", "round", "sqrt", "rsqrt", "reciprocal", "exp",
             "exp2",  "expm1", "log",   "log2", "log1p", "sin",        "cos",
             "tan",   "asin",  "acos",  "atan", "sinh",  "cosh",       "asinh",
             "acosh", "atanh", "tanh",  "erf"},
            3));
  sets.push_back(unary(Ints | Bool, {"not"}, 100));
  sets.push_back(unary(
      Floats, {"sigmoid", "silu", "softplus", "mish", "hard_swish"}, 5, false));
  sets.push_back(binary(
      Floats | Ints, {"add", "sub", "mul", "div", "rem", "max", "min"}, 100));
  sets.push_back(binary(Floats, {"pow", "atan2"}, 4));
  sets.push_back(binary(Ints | Bool, {"and", "or", "xor"}, 100));
  sets.push_back(binary(Ints, {"shift_left", "shift_right"}, 40));
  sets.push_back(
      {Floats,
       {{"fusion.is_nan %0 : tensor<83xT>",
         {kVector},
         {"tensor<83xi1>"},
         4,
         true},
        {"fusion.is_inf %0 : tensor<83xT>",
         {kVector},
         {"tensor<83xi1>"},
         4,
         true},
        {"fusion.hard_sigmoid %0 alpha = 0.2 beta = 0.5 : tensor<83xT>",
         {kVector},
         {kVector},
         4},
        {"fusion.leaky_relu %0 alpha = 0.01 : tensor<83xT>",
         {kVector},
         {kVector},
         4,
         true},
        {"fusion.elu %0 alpha = 0.7 : tensor<83xT>", {kVector}, {kVector}, 4},
        // Numbers that only f64 has are rounded first.
        {"fusion.hard_sigmoid %0 alpha = 1.0e39 beta = 0.5 : tensor<83xT>",
         {kVector},
         {kVector}},
        {"fusion.hard_sigmoid %0 alpha = 0.5 beta = 1.0e39 : tensor<83xT>",
         {kVector},
         {kVector}},
        {"fusion.leaky_relu %0 alpha = 1.0e-46 : tensor<83xT>",
         {kVector},
         {kVector}},
        {"fusion.elu %0 alpha = 1.0e39 : tensor<83xT>", {kVector}, {kVector}},
        {"fusion.gelu erf, %0 : tensor<83xT>", {kVector}, {kVector}, 3},
        {"fusion.gelu tanh, %0 : tensor<83xT>", {kVector}, {kVector}, 3}}});
  CaseSet mixed{Floats | Ints | Bool, {}};
  for (std::string kind : {"eq", "ne", "lt", "le", "gt", "ge"})
    mixed.cases.push_back({"fusion.compare " + kind + ", %0, %1 : tensor<83xT>",
                           {kVector, kVector},
                           {"tensor<83xi1>"},
                           3,
                           true});
  mixed.cases.push_back(
      {"fusion.select %0, %1, %2 : tensor<83xi1>, tensor<83xT>",
       {"tensor<83xi1>", kVector, kVector},
       {kVector},
       100,
       true});
  for (std::string to : {"f64", "f32", "f16", "bf16", "i1", "i8", "i32", "i64"})
    mixed.cases.push_back(
        {"fusion.cast %0 : tensor<83xT> to tensor<83x" + to + ">",
         {kVector},
         {"tensor<83x" + to + ">"},
         300,
         true});
  auto structural = [&](std::string text, std::vector<std::string> inputs,
                        std::string output) {
    mixed.cases.push_back({text, inputs, {output}, 100, true});
  };
  structural(
      "fusion.broadcast %0 dims = [1] : tensor<20xT> to tensor<3x20x2xT>",
      {"tensor<20xT>"}, "tensor<3x20x2xT>");
  structural(
      "fusion.broadcast %0 dims = [0, 2] : tensor<3x1xT> to tensor<3x2x18xT>",
      {"tensor<3x1xT>"}, "tensor<3x2x18xT>");
  structural("fusion.reshape %0 : tensor<6x10xT> to tensor<3x20xT>",
             {"tensor<6x10xT>"}, "tensor<3x20xT>");
  structural("fusion.reshape %0 : tensor<4x6x5xT> to tensor<4x1x30xT>",
             {"tensor<4x6x5xT>"}, "tensor<4x1x30xT>");
  structural("fusion.transpose %0 permutation = [2, 0, 1] : tensor<3x18x5xT>",
             {"tensor<3x18x5xT>"}, "tensor<5x3x18xT>");
  structural(
      "fusion.slice %0 starts = [1, 3] limits = [5, 40] strides = [2, 2] : "
      "tensor<6x41xT>",
      {"tensor<6x41xT>"}, "tensor<2x19xT>");
  structural("fusion.reverse %0 dims = [1] : tensor<3x21xT>",
             {"tensor<3x21xT>"}, "tensor<3x21xT>");
  structural(
      "fusion.concat %0, %1, %2 axis = 1 : tensor<2x17xT>, tensor<2x0xT>, "
      "tensor<2x5xT>",
      {"tensor<2x17xT>", "tensor<2x0xT>", "tensor<2x5xT>"}, "tensor<2x22xT>");
  structural("fusion.concat %0, %1 axis = 0 : tensor<2x17xT>, tensor<1x17xT>",
             {"tensor<2x17xT>", "tensor<1x17xT>"}, "tensor<3x17xT>");
  structural("fusion.pad %0, %1 low = [1, 2] high = [0, 3] : tensor<3x16xT>, "
             "tensor<T>",
             {"tensor<3x16xT>", "tensor<T>"}, "tensor<4x21xT>");
  structural("fusion.gather %0, %1 axis = 0 : tensor<7x18xT>, tensor<2x3xi64>",
             {"tensor<7x18xT>", "tensor<2x3xi64>"}, "tensor<2x3x18xT>");
  structural(
      "fusion.gather %0, %1 axis = 1 {batch_dims = 1 : i64} : tensor<3x7xT>, "
      "tensor<3x20xi32>",
      {"tensor<3x7xT>", "tensor<3x20xi32>"}, "tensor<3x20xT>");
  structural("fusion.gather_nd %0, %1 : tensor<4x5x17xT>, tensor<6x2xi64>",
             {"tensor<4x5x17xT>", "tensor<6x2xi64>"}, "tensor<6x17xT>");
  structural(
      "fusion.update_slice %0, %1 at (%2, %3) : tensor<5x20xT>, tensor<2x6xT>, "
      "tensor<i64>, tensor<i64>",
      {"tensor<5x20xT>", "tensor<2x6xT>", "tensor<i64>", "tensor<i64>"},
      "tensor<5x20xT>");
  structural(
      "fusion.scatter set, %0, %1, %2 : tensor<6x18xT>, tensor<4x1xi64>, "
      "tensor<4x18xT>",
      {"tensor<6x18xT>", "tensor<4x1xi64>", "tensor<4x18xT>"},
      "tensor<6x18xT>");
  structural("fusion.reduce max, %0 dims = [1] : tensor<3x41xT>",
             {"tensor<3x41xT>"}, "tensor<3xT>");
  structural("fusion.reduce min, %0 dims = [0] : tensor<5x41xT>",
             {"tensor<5x41xT>"}, "tensor<41xT>");
  sets.push_back(mixed);

  CaseSet numbers{Floats | Ints, {}};
  numbers.cases.push_back({"fusion.clamp %0, %1, %2 : tensor<83xT>",
                           {kVector, kVector, kVector},
                           {kVector},
                           5,
                           true});
  numbers.cases.push_back(
      {"fusion.iota axis = 1 : tensor<2x40xT>", {}, {"tensor<2x40xT>"}});
  for (std::string kind : {"add", "min", "max"})
    numbers.cases.push_back(
        {"fusion.scatter " + kind +
             ", %0, %1, %2 : tensor<6x4xT>, tensor<9x2xi32>, tensor<9xT>",
         {"tensor<6x4xT>", "tensor<9x2xi32>", "tensor<9xT>"},
         {"tensor<6x4xT>"}});
  for (std::string kind : {"sum", "prod"})
    for (std::string dims : {"[2]", "[1, 2]", "[0]", "[1]", "[0, 1, 2]"}) {
      std::string out = dims == "[2]"      ? "tensor<3x4xT>"
                        : dims == "[1, 2]" ? "tensor<3xT>"
                        : dims == "[0]"    ? "tensor<4x37xT>"
                        : dims == "[1]"    ? "tensor<3x37xT>"
                                           : "tensor<T>";
      numbers.cases.push_back({"fusion.reduce " + kind + ", %0 dims = " + dims +
                                   " : tensor<3x4x37xT>",
                               {"tensor<3x4x37xT>"},
                               {out},
                               kind == "prod" ? 1.0 : 0.0});
    }
  for (std::string op : {"arg_max", "arg_min"}) {
    numbers.cases.push_back({"fusion." + op + " %0 axis = 1 : tensor<3x19xT>",
                             {"tensor<3x19xT>"},
                             {"tensor<3xi64>"}});
    numbers.cases.push_back(
        {"fusion." + op + " %0 axis = 0 {select_last} : tensor<9x19xT>",
         {"tensor<9x19xT>"},
         {"tensor<19xi64>"},
         3,
         true});
  }
  numbers.cases.push_back(
      {"fusion.matmul %0, %1 : tensor<5x7xT>, tensor<7x19xT>",
       {"tensor<5x7xT>", "tensor<7x19xT>"},
       {"tensor<5x19xT>"}});
  numbers.cases.push_back(
      {"fusion.matmul %0, %1 {transpose_lhs, transpose_rhs} : tensor<2x7x5xT>, "
       "tensor<2x6x7xT>",
       {"tensor<2x7x5xT>", "tensor<2x6x7xT>"},
       {"tensor<2x5x6xT>"}});
  numbers.cases.push_back(
      {"fusion.matmul %0, %1 : tensor<2x3x4xT>, tensor<4x5xT>",
       {"tensor<2x3x4xT>", "tensor<4x5xT>"},
       {"tensor<2x3x5xT>"}});
  numbers.cases.push_back(
      {"fusion.max_pool %0 window = [3, 2] strides = [2, 1] pad_low = [1, 0] "
       "pad_high = "
       "[1, 1] dilations = [1, 2] layout = nchw : tensor<1x2x6x20xT>",
       {"tensor<1x2x6x20xT>"},
       {"tensor<1x2x3x19xT>"},
       100,
       true});
  numbers.cases.push_back(
      {"fusion.max_pool %0 window = [2, 2] strides = [2, 2] pad_low = [1, 0] "
       "pad_high = "
       "[0, 1] dilations = [1, 1] layout = nhwc : tensor<1x5x5x18xT>",
       {"tensor<1x5x5x18xT>"},
       {"tensor<1x3x3x18xT>"},
       100,
       true});
  sets.push_back(numbers);

  CaseSet floats{Floats, {}};
  auto real = [&](std::string text, std::vector<std::string> inputs,
                  std::string output, double range = 0) {
    floats.cases.push_back({text, inputs, {output}, range});
  };
  real("fusion.rng_uniform %0, %1 : tensor<i64>, tensor<i64>, tensor<3x21xT>",
       {"tensor<i64>", "tensor<i64>"}, "tensor<3x21xT>");
  real("fusion.reduce mean, %0 dims = [1] : tensor<3x37xT>", {"tensor<3x37xT>"},
       "tensor<3xT>");
  real("fusion.reduce mean, %0 dims = [0] : tensor<3x37xT>", {"tensor<3x37xT>"},
       "tensor<37xT>", 3);
  for (std::string layout : {"nchw", "nhwc"}) {
    bool last = layout == "nhwc";
    std::string x = last ? "tensor<2x7x8x4xT>" : "tensor<2x4x7x8xT>";
    std::string y = last ? "tensor<2x4x5x18xT>" : "tensor<2x18x4x5xT>";
    real("fusion.conv %0, %1 bias %2 strides = [2, 2] pad_low = [1, 2] "
         "pad_high = [1, 1] "
         "dilations = [1, 1] groups = 2 layout = " +
             layout + " : " + x + ", tensor<18x2x3x3xT>, tensor<18xT>",
         {x, "tensor<18x2x3x3xT>", "tensor<18xT>"}, y);
    real("fusion.conv_transpose %0, %1 strides = [2, 1] pad_low = [1, 0] "
         "pad_high = "
         "[0, 1] output_padding = [1, 0] dilations = [1, 2] groups = 2 layout "
         "= " +
             layout + " : " + x + ", tensor<4x3x3x2xT>",
         {x, "tensor<4x3x3x2xT>"},
         last ? "tensor<2x15x9x6xT>" : "tensor<2x6x15x9xT>");
    std::string pooled = last ? "tensor<2x4x4x4xT>" : "tensor<2x4x4x4xT>";
    std::string pool =
        "fusion.avg_pool %0 window = [3, 3] strides = [2, 2] pad_low = "
        "[1, 1] pad_high = [1, 0] dilations = [1, 1] layout = " +
        layout;
    real(pool + " : " + x, {x}, pooled);
    real(pool + " {count_include_pad} : " + x, {x}, pooled);
  }
  real("fusion.conv %0, %1 strides = [1] pad_low = [0] pad_high = [0] "
       "dilations = [2] "
       "groups = 1 layout = nchw : tensor<1x3x25xT>, tensor<2x3x3xT>",
       {"tensor<1x3x25xT>", "tensor<2x3x3xT>"}, "tensor<1x2x21xT>");
  real("fusion.batch_norm %0, %1, %2, %3, %4 epsilon = 1.0 axis = 1 : "
       "tensor<2x5x17xT>, "
       "tensor<5xT>",
       {"tensor<2x5x17xT>", "tensor<5xT>", "tensor<5xT>", "tensor<5xT>",
        "positive<5xT>"},
       "tensor<2x5x17xT>", 3);
  floats.cases.push_back(
      {"fusion.batch_norm_training %0, %1, %2 epsilon = 1.0e-2 axis = "
       "1 : tensor<4x5x17xT>, tensor<5xT>",
       {"tensor<4x5x17xT>", "tensor<5xT>", "tensor<5xT>"},
       {"tensor<4x5x17xT>", "tensor<5xT>", "tensor<5xT>"},
       3});
  real("fusion.layer_norm %0 scale %1 bias %2 epsilon = 1.0e-2 axis = 1 : "
       "tensor<3x37xT>, "
       "tensor<37xT>, tensor<37xT>",
       {"tensor<3x37xT>", "tensor<37xT>", "tensor<37xT>"}, "tensor<3x37xT>", 3);
  real("fusion.rms_norm %0 scale %1 epsilon = 1.0e-2 axis = 1 : "
       "tensor<3x37xT>, tensor<37xT>",
       {"tensor<3x37xT>", "tensor<37xT>"}, "tensor<3x37xT>", 3);
  for (std::string op : {"softmax", "log_softmax"}) {
    real("fusion." + op + " %0 axis = 1 : tensor<3x37xT>", {"tensor<3x37xT>"},
         "tensor<3x37xT>", 3);
    real("fusion." + op + " %0 axis = 1 : tensor<2x5x18xT>",
         {"tensor<2x5x18xT>"}, "tensor<2x5x18xT>", 3);
  }
  real("fusion.attention %0, %1, %2 scale = 0.5 causal : tensor<1x2x3x4xT>, "
       "tensor<1x1x5x4xT>, tensor<1x1x5x6xT>",
       {"tensor<1x2x3x4xT>", "tensor<1x1x5x4xT>", "tensor<1x1x5x6xT>"},
       "tensor<1x2x3x6xT>", 1);
  // One kernel has outputs of one shape.
  floats.cases.push_back(
      {"fusion.attention_grad %0, %1, %2, %3 scale = 0.5 causal : "
       "tensor<2x2x3x4xT>, tensor<2x2x3x4xT>, tensor<2x2x3x4xT>, "
       "tensor<2x2x3x4xT>",
       std::vector<std::string>(4, "tensor<2x2x3x4xT>"),
       std::vector<std::string>(3, "tensor<2x2x3x4xT>"), 1});
  // Small integers: many windows hold their largest element twice.
  real("fusion.max_pool_grad %0, %1 window = [3, 2] strides = [2, 1] pad_low = "
       "[1, 0] pad_high = [1, 1] dilations = [1, 2] layout = nchw : "
       "tensor<1x2x6x20xT>, tensor<1x2x3x19xT>",
       {"tensor<1x2x6x20xT>", "tensor<1x2x3x19xT>"}, "tensor<1x2x6x20xT>");
  real("fusion.max_pool_grad %0, %1 window = [3, 3] strides = [1, 2] pad_low = "
       "[1, 1] pad_high = [1, 1] dilations = [1, 1] layout = nhwc : "
       "tensor<2x5x6x18xT>, tensor<2x5x3x18xT>",
       {"tensor<2x5x6x18xT>", "tensor<2x5x3x18xT>"}, "tensor<2x5x6x18xT>");
  real("fusion.rope %0, %1, %2 : tensor<2x3x8xT>, tensor<3x4xT>",
       {"tensor<2x3x8xT>", "tensor<3x4xT>", "tensor<3x4xT>"}, "tensor<2x3x8xT>",
       2);
  real("fusion.rope %0, %1, %2 {interleaved} : tensor<2x3x8xT>, tensor<3x4xT>",
       {"tensor<2x3x8xT>", "tensor<3x4xT>", "tensor<3x4xT>"}, "tensor<2x3x8xT>",
       2);
  sets.push_back(floats);
  return sets;
}

static std::string replaceElement(std::string text,
                                  const std::string &element) {
  for (std::string mark : {"xT>", "<T>"})
    for (size_t at; (at = text.find(mark)) != std::string::npos;)
      text.replace(at + 1, 1, element);
  return text;
}

/// Values of a tensor type, small integers or reals with special values.
static Tensor randomTensor(mlir::RankedTensorType type, const OpCase &op,
                           bool positive, std::mt19937 &random) {
  ElementKind kind = *getElementKind(type.getElementType());
  size_t count = type.getNumElements();
  double range = op.range == 0 ? 4 : op.range;
  std::uniform_real_distribution<double> real(-range, range);
  if (isFloat(kind)) {
    static const double special[] = {
        NAN,  INFINITY, -INFINITY, 0.0, -0.0, 1e-310, 1e-40,
        1e-6, 65519.0,  -3e38,     0.5, -2.5, 1e19};
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = op.range == 0 ? std::nearbyint(real(random)) : real(random);
      if (op.specials && random() % 5 == 0)
        values[i] = special[random() % std::size(special)];
      if (positive)
        values[i] = std::abs(values[i]);
    }
    return llvm::cantFail(Tensor::fromFloats(kind, type.getShape(), values));
  }
  static const int64_t special[] = {
      0,         -1,        1,    INT64_MIN, INT64_MAX,
      INT32_MIN, INT32_MAX, -128, 127,       (int64_t(1) << 53) + 1};
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<int64_t>(std::nearbyint(real(random)));
    if (op.specials && random() % 5 == 0)
      values[i] = special[random() % std::size(special)];
  }
  return llvm::cantFail(Tensor::fromInts(kind, type.getShape(), values));
}

static void runCases(const std::vector<OpCase> &cases,
                     const std::string &element, const std::string &cpu) {
  // One function with a group for each case.
  std::string arguments, body, results, resultTypes;
  unsigned numArguments = 0;
  std::vector<std::vector<bool>> positive;
  for (auto [c, op] : llvm::enumerate(cases)) {
    std::string id = std::to_string(c), inputs, outputs, yielded;
    std::string text = replaceElement(op.text, element);
    positive.emplace_back();
    for (auto [i, given] : llvm::enumerate(op.inputs)) {
      std::string type = given;
      positive.back().push_back(type.rfind("positive", 0) == 0);
      if (positive.back().back())
        type = "tensor" + type.substr(8);
      type = replaceElement(type, element);
      std::string argument = "%x" + std::to_string(numArguments++);
      arguments += (arguments.empty() ? "" : ", ") + argument + ": " + type;
      std::string local = "%c" + id + "_" + std::to_string(i);
      inputs += (i ? ", " : "") + local + " = " + argument + " : " + type;
      for (size_t at;
           (at = text.find("%" + std::to_string(i))) != std::string::npos;)
        text.replace(at, 2, local);
    }
    for (auto [i, type] : llvm::enumerate(op.outputs)) {
      outputs += (i ? ", " : "") + replaceElement(type, element);
      std::string suffix = op.outputs.size() > 1 ? "#" + std::to_string(i) : "";
      results += (results.empty() ? "%r" : ", %r") + id + suffix;
      yielded += (i ? ", %y" : "%y") + id + suffix;
    }
    resultTypes += (resultTypes.empty() ? "" : ", ") + outputs;
    std::string many =
        op.outputs.size() > 1 ? ":" + std::to_string(op.outputs.size()) : "";
    std::string grouped = op.outputs.size() > 1 ? "(" + outputs + ")" : outputs;
    body += "%r" + id + many + " = fusion.group fallback (" + inputs + ") -> " +
            grouped + " {\n%y" + id + many + " = " + text + "\nfusion.yield " +
            yielded + " : " + outputs + "\n}\n";
  }
  std::string module = "func.func @main(" + arguments + ") -> (" + resultTypes +
                       ") {\n" + body + "return " + results + " : " +
                       resultTypes + "\n}\n";
  KernelRunner runner(module, cpu);
  ASSERT_TRUE(runner.ok()) << runner.error() << module;

  // The evaluator gets the module as it was.
  auto fresh = mlir::parseSourceString<mlir::ModuleOp>(module, &runner.context);
  auto main = fresh->lookupSymbol<mlir::func::FuncOp>("main");
  std::mt19937 random(7);
  std::vector<Tensor> inputs;
  std::vector<Bytes> bytes;
  unsigned next = 0;
  for (auto [c, op] : llvm::enumerate(cases))
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      auto type = llvm::cast<mlir::RankedTensorType>(
          main.getArgument(next++).getType());
      inputs.push_back(randomTensor(type, op, positive[c][i], random));
      std::string raw = inputs.back().toBytes();
      bytes.emplace_back(raw.begin(), raw.end());
    }
  auto wanted = evaluate(main, inputs);
  ASSERT_TRUE(static_cast<bool>(wanted)) << llvm::toString(wanted.takeError());
  std::vector<Bytes> got = runner.run(bytes);
  ASSERT_EQ(got.size(), wanted->size());

  unsigned result = 0, input = 0;
  auto group = main.getOps<fusion::GroupOp>().begin();
  for (auto [c, op] : llvm::enumerate(cases)) {
    mlir::Operation *inner = &(*group)->getRegion(0).front().front();
    llvm::ArrayRef<Tensor> operands(inputs.data() + input, op.inputs.size());
    for (size_t i = 0; i < op.outputs.size(); ++i, ++result) {
      const Tensor &want = (*wanted)[result];
      llvm::ArrayRef<char> raw(
          reinterpret_cast<const char *>(got[result].data()),
          got[result].size());
      Tensor have = llvm::cantFail(
          Tensor::fromBytes(want.getKind(), want.getShape(), raw));
      auto criterion = getCriterion(inner, operands, want);
      ASSERT_TRUE(static_cast<bool>(criterion))
          << llvm::toString(criterion.takeError());
      Comparison comparison = compare(have, want, *criterion);
      EXPECT_TRUE(comparison.passed) << element << " " << op.text << " result "
                                     << i << ": " << comparison.message;
    }
    input += op.inputs.size();
    ++group;
  }
}

class EveryOp
    : public ::testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(EveryOp, EqualsTheReference) {
  auto [element, cpu] = GetParam();
  unsigned wanted = element[0] == 'f' || element[0] == 'b' ? Floats
                    : std::string(element) == "i1"         ? Bool
                                                           : Ints;
  std::vector<OpCase> cases;
  for (const CaseSet &set : allCases())
    if (set.elements & wanted)
      cases.insert(cases.end(), set.cases.begin(), set.cases.end());
  runCases(cases, element, cpu);
}

INSTANTIATE_TEST_SUITE_P(
    Types, EveryOp,
    ::testing::Values(std::pair{"f32", "native"}, std::pair{"f64", "native"},
                      std::pair{"f16", "native"}, std::pair{"bf16", "native"},
                      std::pair{"i1", "native"}, std::pair{"i8", "native"},
                      std::pair{"i32", "native"}, std::pair{"i64", "native"},
                      // No SSE4.1, no F16C: everything is expanded.
                      std::pair{"f16", "x86-64"}, std::pair{"f32", "x86-64"}),
    [](const auto &info) {
      std::string cpu = info.param.second;
      return std::string(info.param.first) +
             (cpu == "native" ? "_native" : "_baseline");
    });

TEST(EveryOpList, CoversTheDialect) {
  mlir::DialectRegistry registry;
  registry.insert<fusion::FusionDialect>();
  mlir::MLIRContext context(registry);
  context.loadDialect<fusion::FusionDialect>();
  std::set<std::string> covered;
  for (const CaseSet &set : allCases())
    for (const OpCase &op : set.cases)
      covered.insert(op.text.substr(0, op.text.find_first_of(" ,", 7)));
  // What is not computed by a kernel: structure, program and collectives.
  std::set<std::string> others = {"fusion.constant",
                                  "fusion.parameter",
                                  "fusion.get_parameter",
                                  "fusion.yield",
                                  "fusion.group",
                                  "fusion.async",
                                  "fusion.await",
                                  "fusion.kernel_call",
                                  "fusion.mesh",
                                  "fusion.after",
                                  "fusion.all_reduce",
                                  "fusion.all_gather",
                                  "fusion.reduce_scatter",
                                  "fusion.all_to_all",
                                  "fusion.collective_broadcast",
                                  "fusion.collective_permute",
                                  "fusion.axis_index",
                                  "fusion.rank_concat",
                                  "fusion.rank_slice",
                                  "fusion.program",
                                  "fusion.segment",
                                  "fusion.content",
                                  "fusion.port",
                                  "fusion.launch",
                                  "fusion.call",
                                  "fusion.copy",
                                  "fusion.collective",
                                  "fusion.record",
                                  "fusion.wait"};
  for (mlir::RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("fusion")) {
    std::string text = name.getStringRef().str();
    EXPECT_TRUE(covered.count(text) || others.count(text))
        << text << " has no case";
  }
}

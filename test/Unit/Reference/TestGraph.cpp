//===- TestGraph.cpp - Evaluates graphs written as text -------------------===//

#include "TestGraph.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/Parser/Parser.h"

#include <cmath>

using namespace fusion::reference;
using fusion::reference::testing::Outcome;

Tensor fusion::reference::testing::floats(ElementKind kind,
                                          llvm::ArrayRef<int64_t> shape,
                                          llvm::ArrayRef<double> values) {
  return llvm::cantFail(Tensor::fromFloats(kind, shape, values));
}

Tensor fusion::reference::testing::ints(ElementKind kind,
                                        llvm::ArrayRef<int64_t> shape,
                                        llvm::ArrayRef<int64_t> values) {
  return llvm::cantFail(Tensor::fromInts(kind, shape, values));
}

Tensor fusion::reference::testing::smallIntegers(ElementKind kind,
                                                 llvm::ArrayRef<int64_t> shape,
                                                 unsigned seed) {
  Tensor tensor = llvm::cantFail(Tensor::create(kind, shape));
  uint64_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    // A linear congruential generator (Knuth's MMIX constants).
    state = state * 6364136223846793005u + 1442695040888963407u;
    int64_t value = static_cast<int64_t>((state >> 33) % 15) - 7;
    isFloat(kind) ? tensor.setFloat(i, value) : tensor.setInt(i, value);
  }
  return tensor;
}

static ::testing::AssertionResult
parse(mlir::MLIRContext &context, const std::string &text,
      mlir::OwningOpRef<mlir::ModuleOp> &out) {
  context.loadDialect<fusion::FusionDialect, mlir::func::FuncDialect>();
  out = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (out)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "this does not parse:\n" << text;
}

Outcome fusion::reference::testing::evaluateOnRanks(
    const std::string &text, std::vector<std::vector<Tensor>> inputs,
    std::vector<std::string> functions, const Options &options) {
  Outcome outcome;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  EXPECT_TRUE(parse(context, text, module));
  if (!module) {
    outcome.error = "no module";
    return outcome;
  }
  std::vector<mlir::func::FuncOp> chosen;
  for (size_t rank = 0; rank < inputs.size(); ++rank)
    chosen.push_back(module->lookupSymbol<mlir::func::FuncOp>(
        functions.empty() ? "main" : functions[rank]));
  auto results = evaluateRanks(chosen, inputs, options);
  if (results)
    outcome.ranks = std::move(*results);
  else
    outcome.error = takeMessage(results.takeError(), outcome.kind);
  return outcome;
}

Outcome fusion::reference::testing::evaluateFailing(const std::string &text,
                                                    std::vector<Tensor> inputs,
                                                    const Options &options) {
  Outcome outcome = evaluateOnRanks(text, {std::move(inputs)}, {}, options);
  EXPECT_NE(outcome.error, "") << "an error was expected";
  return outcome;
}

Outcome fusion::reference::testing::evaluateModule(const std::string &text,
                                                   std::vector<Tensor> inputs,
                                                   const Options &options) {
  Outcome outcome = evaluateOnRanks(text, {std::move(inputs)}, {}, options);
  EXPECT_EQ(outcome.error, "");
  if (!outcome.error.empty())
    outcome.ranks = {std::vector<Tensor>(8, f32({}, {0}))};
  return outcome;
}

std::string fusion::reference::testing::makeModule(const std::string &arguments,
                                                   const std::string &op,
                                                   const std::string &type) {
  return "func.func @main(" + arguments + ") -> " + type + " {\n  %r = " + op +
         "\n  return %r : " + type + "\n}\n";
}

Tensor fusion::reference::testing::evaluateOp(const std::string &arguments,
                                              const std::string &op,
                                              const std::string &type,
                                              std::vector<Tensor> inputs,
                                              const Options &options) {
  return evaluateModule(makeModule(arguments, op, type), std::move(inputs),
                        options)[0];
}

std::vector<double> fusion::reference::testing::valuesOf(const Tensor &tensor) {
  if (!tensor.isFloat()) {
    ADD_FAILURE() << "a tensor of integers";
    return {};
  }
  return tensor.floats().vec();
}

std::vector<int64_t> fusion::reference::testing::intsOf(const Tensor &tensor) {
  if (tensor.isFloat()) {
    ADD_FAILURE() << "a tensor of floats";
    return {};
  }
  return tensor.ints().vec();
}

std::vector<int64_t> fusion::reference::testing::shapeOf(const Tensor &tensor) {
  return tensor.getShape().vec();
}

void fusion::reference::testing::expectNear(const Tensor &tensor,
                                            llvm::ArrayRef<double> want,
                                            double tolerance) {
  std::vector<double> got = valuesOf(tensor);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::fabs(want[i])))
        << "element " << i;
}

//===- EvaluateText.h - Evaluates IR written in a test ----------*- C++ -*-===//
//
// Parses a module from text and runs its @main on the reference evaluator, with
// small integers as inputs: sums and products of them are exact.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_TEST_UNIT_IR_EVALUATETEXT_H
#define FUSION_TEST_UNIT_IR_EVALUATETEXT_H

#include "fusion/IR/FusionDialect.h"
#include "fusion/Reference/Evaluator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

namespace fusion::test {

/// What a `?` stands for.
constexpr int64_t kBatch = 3;

class Program {
public:
  /// `text` is the body of a module with a function @main.
  explicit Program(llvm::StringRef text) {
    context.loadDialect<FusionDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text.str();
  }

  mlir::func::FuncOp main() {
    return module->lookupSymbol<mlir::func::FuncOp>("main");
  }

  /// The first op of @main that `OpTy` describes, an op or an interface.
  template <typename OpTy> OpTy find() {
    OpTy found;
    main().walk([&](OpTy op) {
      if (!found)
        found = op;
    });
    return found;
  }

  /// One tensor for each argument; floats and integers run through
  /// -5 ... 5 in an order that repeats after 11 elements, shifted by argument.
  std::vector<reference::Tensor> makeInputs() {
    std::vector<reference::Tensor> inputs;
    for (auto [number, type] : llvm::enumerate(main().getArgumentTypes())) {
      auto tensorType = llvm::cast<mlir::RankedTensorType>(type);
      llvm::SmallVector<int64_t> shape(tensorType.getShape());
      for (int64_t &size : shape)
        size = mlir::ShapedType::isDynamic(size) ? kBatch : size;
      auto kind = *reference::getElementKind(tensorType.getElementType());
      auto tensor = llvm::cantFail(reference::Tensor::create(kind, shape));
      for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
        int64_t value = (i * 7 + number * 3) % 11 - 5;
        tensor.isFloat() ? tensor.setFloat(i, double(value))
                         : tensor.setInt(i, value);
      }
      inputs.push_back(tensor);
    }
    return inputs;
  }

  std::vector<reference::Tensor>
  evaluate(llvm::ArrayRef<reference::Tensor> inputs) {
    reference::Options options;
    options.batch = kBatch;
    auto results = reference::evaluate(main(), inputs, options);
    if (!results) {
      ADD_FAILURE() << llvm::toString(results.takeError());
      return {};
    }
    return *results;
  }

  mlir::ModuleOp getModule() { return *module; }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace fusion::test

#endif // FUSION_TEST_UNIT_IR_EVALUATETEXT_H

//===- TestGraph.h - Evaluates graphs written as text -----------*- C++ -*-===//
//
// Helpers of the evaluator's unit tests: tensors from literals, and functions
// given as the text of their body.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_TEST_UNIT_REFERENCE_TESTGRAPH_H
#define FUSION_TEST_UNIT_REFERENCE_TESTGRAPH_H

#include "fusion/Reference/Evaluator.h"

#include "gtest/gtest.h"

namespace fusion::reference::testing {

Tensor floats(ElementKind kind, llvm::ArrayRef<int64_t> shape,
              llvm::ArrayRef<double> values);
Tensor ints(ElementKind kind, llvm::ArrayRef<int64_t> shape,
            llvm::ArrayRef<int64_t> values);
inline Tensor f32(llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<double> values) {
  return floats(ElementKind::F32, shape, values);
}
inline Tensor f64(llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<double> values) {
  return floats(ElementKind::F64, shape, values);
}
inline Tensor i32(llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<int64_t> values) {
  return ints(ElementKind::I32, shape, values);
}
inline Tensor i64(llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<int64_t> values) {
  return ints(ElementKind::I64, shape, values);
}

/// Small integers that repeat with no short period: -7..7, exact in every type.
Tensor smallIntegers(ElementKind kind, llvm::ArrayRef<int64_t> shape,
                     unsigned seed);

/// What an evaluation gave: the results of each rank, or an error.
struct Outcome {
  std::vector<std::vector<Tensor>> ranks;
  std::string error;
  FailureKind kind = FailureKind::Program;

  const Tensor &operator[](size_t result) const { return ranks[0][result]; }
};

/// Evaluates @main of a module on one rank, and reports an unexpected error as
/// a test failure.
Outcome evaluateModule(const std::string &text, std::vector<Tensor> inputs,
                       const Options &options = {});

/// The same for an evaluation that must fail.
Outcome evaluateFailing(const std::string &text, std::vector<Tensor> inputs,
                        const Options &options = {});

/// Rank i runs the function @<functions[i]>, or @main when there are none.
Outcome evaluateOnRanks(const std::string &text,
                        std::vector<std::vector<Tensor>> inputs,
                        std::vector<std::string> functions = {},
                        const Options &options = {});

/// The module of one function @main: `arguments` as "%a: tensor<4xf32>", one op
/// that gives `%r`, and its type.
std::string makeModule(const std::string &arguments, const std::string &op,
                       const std::string &type);

/// The result of one op: `evaluateModule(makeModule(...))[0]`.
Tensor evaluateOp(const std::string &arguments, const std::string &op,
                  const std::string &type, std::vector<Tensor> inputs,
                  const Options &options = {});

/// Elements as vectors, to compare with literals.
std::vector<double> valuesOf(const Tensor &tensor);
std::vector<int64_t> intsOf(const Tensor &tensor);
std::vector<int64_t> shapeOf(const Tensor &tensor);

/// Each element of `tensor` is within `tolerance` of `want`, relative to
/// max(|want|, 1).
void expectNear(const Tensor &tensor, llvm::ArrayRef<double> want,
                double tolerance);

} // namespace fusion::reference::testing

#endif // FUSION_TEST_UNIT_REFERENCE_TESTGRAPH_H

//===- ElementwiseMap.h - One function for all elements ---------*- C++ -*-===//
//
// How an elementwise op gets its rule: a function on doubles, and for ops that
// take integers one on int64_t.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_REFERENCE_ELEMENTWISEMAP_H
#define FUSION_LIB_REFERENCE_ELEMENTWISEMAP_H

#include "OpRules.h"

namespace fusion::reference {

/// Fails unless all operands have one shape.
llvm::Error requireSameShapes(mlir::Operation *op, Tensors inputs);

/// `result[i] = function(x[i])`, for an op on floats.
using FloatUnary = double (*)(double);
using IntUnary = int64_t (*)(int64_t);
using FloatBinary = double (*)(double, double);
/// The kind tells the width.
using IntBinary = int64_t (*)(int64_t, int64_t, ElementKind);

/// Rules of ops whose result has the operands' type. A function that is null is
/// for operands that the op does not take.
void addUnaryRule(RuleTable &rules, llvm::StringRef name, FloatUnary onFloats,
                  IntUnary onInts);
void addBinaryRule(RuleTable &rules, llvm::StringRef name, FloatBinary onFloats,
                   IntBinary onInts);

template <typename OpT>
void addUnary(RuleTable &rules, FloatUnary onFloats,
              IntUnary onInts = nullptr) {
  addUnaryRule(rules, OpT::getOperationName(), onFloats, onInts);
}
template <typename OpT>
void addBinary(RuleTable &rules, FloatBinary onFloats,
               IntBinary onInts = nullptr) {
  addBinaryRule(rules, OpT::getOperationName(), onFloats, onInts);
}

} // namespace fusion::reference

#endif // FUSION_LIB_REFERENCE_ELEMENTWISEMAP_H

//===- KernelIndex.h - Positions inside a kernel ----------------*- C++ -*-===//
//
// A position along one dimension, for one element or for a vector of lanes.
// Most positions are affine in the lane (`base + constant + stride * lane`) and
// stay symbolic, so that a load along them is one contiguous vector. A quotient
// and remainder of an affine position (what taking a flat position apart gives)
// stays symbolic too: put together again it folds back to the flat position.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_KERNELINDEX_H
#define FUSION_LIB_CODEGEN_KERNELINDEX_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace fusion::codegen {

/// A non-negative size: a constant, or an i64 value that depends on the batch.
struct Size {
  mlir::Value value; ///< null: `constant`
  int64_t constant = 1;

  static Size of(int64_t constant) { return {nullptr, constant}; }
  bool isStatic() const { return !value; }
  bool is(int64_t expected) const { return !value && constant == expected; }
  friend bool operator==(const Size &a, const Size &b) {
    return a.value == b.value && (a.value || a.constant == b.constant);
  }
  friend bool operator!=(const Size &a, const Size &b) { return !(a == b); }
};

/// See the file's comment. `modulus` 0 means that there is none.
struct Index {
  mlir::Value base; ///< scalar i64, or null for 0
  int64_t constant = 0;
  int64_t stride = 0; ///< of the lane number
  Size divisor = Size::of(1);
  Size modulus = Size::of(0);
  mlir::Value lanes; ///< vector of i64: one position a lane; the rest unused

  static Index of(int64_t constant) {
    Index index;
    index.constant = constant;
    return index;
  }
  static Index of(mlir::Value base, int64_t stride = 0) {
    Index index;
    index.base = base;
    index.stride = stride;
    return index;
  }
  static Index ofLanes(mlir::Value lanes) {
    Index index;
    index.lanes = lanes;
    return index;
  }

  bool isPart() const { return !divisor.is(1) || !modulus.is(0); }
  /// The same for all lanes.
  bool isUniform() const { return !lanes && stride == 0; }
  bool isConstant() const {
    return !base && !lanes && stride == 0 && !isPart();
  }
  bool isZero() const { return isConstant() && constant == 0; }
  bool sameSource(const Index &other) const {
    return !lanes && !other.lanes && base == other.base &&
           constant == other.constant && stride == other.stride;
  }
  friend bool operator==(const Index &a, const Index &b) {
    if (a.lanes || b.lanes)
      return a.lanes == b.lanes;
    return a.sameSource(b) && a.divisor == b.divisor && a.modulus == b.modulus;
  }
};

using Coordinates = llvm::SmallVector<Index, 2>;

inline bool isUniform(llvm::ArrayRef<Index> coordinates) {
  return llvm::all_of(coordinates,
                      [](const Index &i) { return i.isUniform(); });
}

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_KERNELINDEX_H

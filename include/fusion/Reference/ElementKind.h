//===- ElementKind.h - Element types and rounding ---------------*- C++ -*-===//
//
// The eight element types of the dialect as the evaluator sees them, and the
// only places where a value is rounded, wrapped, or turned into bytes.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_REFERENCE_ELEMENTKIND_H
#define FUSION_REFERENCE_ELEMENTKIND_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace fusion::reference {

enum class ElementKind : uint8_t { F64, F32, F16, BF16, I1, I8, I32, I64 };

/// f64, f32, f16 or bf16: the evaluator keeps such elements as double.
bool isFloat(ElementKind kind);

/// Bytes of one element outside the evaluator; i1 takes one byte.
unsigned getByteSize(ElementKind kind);

/// Bits of an integer type: 1, 8, 32 or 64. Only for integers.
unsigned getBitWidth(ElementKind kind);

/// "f32", "i1", ...
llvm::StringRef getName(ElementKind kind);

/// The kind of a builtin scalar type, or nullopt if the dialect has no such
/// element.
std::optional<ElementKind> getElementKind(mlir::Type type);

/// Significant binary digits of a float type, the hidden one included.
unsigned getPrecision(ElementKind kind);

/// `value` rounded to nearest, ties to even, to a float type: subnormals kept,
/// too large becomes infinity. A NaN stays a NaN.
double roundToKind(double value, ElementKind kind);

/// The same from an integer, with one rounding only (i64 through f64 to bf16
/// would round twice).
double roundToKind(int64_t value, ElementKind kind);

/// `value` modulo 2^width, read as two's complement; i1 gives 0 or 1.
int64_t wrapToKind(int64_t value, ElementKind kind);

/// Bits of a value that is already rounded to `kind`, in the low bytes. i1 is
/// 0 or 1. A NaN keeps the upper bits of its payload and is quiet.
uint64_t encodeFloat(double value, ElementKind kind);
uint64_t encodeInteger(int64_t value, ElementKind kind);

/// The value that bits stand for. Bits above the type's size must be zero.
double decodeFloat(uint64_t bits, ElementKind kind);
int64_t decodeInteger(uint64_t bits, ElementKind kind);

} // namespace fusion::reference

#endif // FUSION_REFERENCE_ELEMENTKIND_H

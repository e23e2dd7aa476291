//===- Weights.h - New weights in place of old ones -------------*- C++ -*-===//
//
// A rewrite that computes weights at compile time adds new constants or
// parameters and leaves the old ones alone, which may have other readers; what
// nothing reads any more goes away.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_WEIGHTS_H
#define FUSION_IR_WEIGHTS_H

#include "fusion/IR/Parameters.h"
#include "mlir/IR/SymbolTable.h"

namespace fusion {

/// Adds new weights to a module, in the form that old ones have.
class WeightsBuilder {
public:
  WeightsBuilder(mlir::ModuleOp module, ConstantReader &reader)
      : symbols(module), reader(reader) {}

  /// A value with the elements of `data`, named after the constant or parameter
  /// behind `old`, and `suffix`: a constant or a `const` parameter, as `old`
  /// is.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value old, llvm::StringRef suffix,
                    const TensorData &data);

private:
  mlir::SymbolTable symbols;
  ConstantReader &reader;
};

/// Erases `op` if nothing reads it, then what only it read. `onErase` is told
/// of each before it goes.
void eraseDead(mlir::Operation *op,
               llvm::function_ref<void(mlir::Operation *)> onErase = nullptr);

/// Erases `const` parameters that nothing reads. Linear in the module.
void eraseUnusedParameters(mlir::ModuleOp module);

} // namespace fusion

#endif // FUSION_IR_WEIGHTS_H

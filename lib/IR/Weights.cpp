//===- Weights.cpp - New weights in place of old ones ---------------------===//
//
// See Weights.h.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/Weights.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;

Value WeightsBuilder::build(OpBuilder &builder, Location loc, Value old,
                            StringRef suffix, const TensorData &data) {
  while (auto reshape = old.getDefiningOp<ReshapeOp>())
    old = reshape.getInput();
  ParameterOp parameter = reader.getParameter(old);
  if (!parameter) {
    std::string name = "weights";
    if (auto constant = old.getDefiningOp<ConstantOp>())
      if (auto resource =
              dyn_cast<DenseResourceElementsAttr>(constant.getValue()))
        name = resource.getRawHandle().getKey().str();
    return ConstantOp::create(builder, loc, data.getType(),
                              data.getAttr((name + suffix).str()));
  }
  std::string name = (parameter.getSymName() + suffix).str();
  OpBuilder atModule(parameter);
  auto added = ParameterOp::create(atModule, parameter.getLoc(), name,
                                   ParameterKind::Const, data.getType(),
                                   /*file=*/StringAttr(), /*key=*/StringAttr(),
                                   /*sha256=*/StringAttr(), data.getAttr(name));
  added->remove();
  symbols.insert(added, parameter->getIterator());
  reader.add(added);
  return GetParameterOp::create(builder, loc, data.getType(),
                                FlatSymbolRefAttr::get(added.getSymNameAttr()));
}

void fusion::eraseDead(Operation *op,
                       llvm::function_ref<void(Operation *)> onErase) {
  SmallVector<Operation *> worklist;
  if (isOpTriviallyDead(op))
    worklist.push_back(op);
  while (!worklist.empty()) {
    Operation *next = worklist.pop_back_val();
    llvm::SmallSetVector<Operation *, 4> operands;
    for (Value operand : next->getOperands())
      if (Operation *def = operand.getDefiningOp())
        operands.insert(def);
    if (onErase)
      onErase(next);
    next->erase();
    // An op dies with its last reader, so it is listed once.
    for (Operation *def : operands)
      if (isOpTriviallyDead(def))
        worklist.push_back(def);
  }
}

void fusion::eraseUnusedParameters(ModuleOp module) {
  llvm::DenseSet<StringAttr> used;
  module.walk([&](Operation *op) {
    // Any attribute may name a symbol: a program op, a user's own op.
    op->getAttrDictionary().walk(
        [&](SymbolRefAttr ref) { used.insert(ref.getRootReference()); });
  });
  for (auto parameter :
       llvm::make_early_inc_range(module.getOps<ParameterOp>()))
    if (parameter.getKind() == ParameterKind::Const &&
        !used.contains(parameter.getSymNameAttr()))
      parameter.erase();
}

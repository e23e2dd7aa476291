//===- EraseBf16.cpp - bf16 as the 16-bit integer it is stored as ---------===//
//
// Once the conversions are integer arithmetic, a kernel only moves bf16 values.
// x86 has no such register type: LLVM would hold a scalar as f32 and call a
// conversion function, which no module has. So every bf16 becomes an i16 of the
// same bits.
//
//===----------------------------------------------------------------------===//
#include "EraseBf16.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

/// `type` with i16 in place of bf16.
static Type withoutBf16(Type type) {
  if (type.isBF16())
    return IntegerType::get(type.getContext(), 16);
  if (auto vector = dyn_cast<VectorType>(type))
    if (vector.getElementType().isBF16())
      return vector.clone(IntegerType::get(type.getContext(), 16));
  return type;
}

/// `attr` with i16 in place of bf16: types, and the bits of numbers.
static Attribute withoutBf16(Attribute attr) {
  if (auto type = dyn_cast<TypeAttr>(attr))
    return TypeAttr::get(withoutBf16(type.getValue()));
  if (auto number = dyn_cast<FloatAttr>(attr);
      number && number.getType().isBF16())
    return IntegerAttr::get(withoutBf16(number.getType()),
                            number.getValue().bitcastToAPInt());
  if (auto dense = dyn_cast<DenseElementsAttr>(attr);
      dense && dense.getElementType().isBF16())
    return dense.bitcast(IntegerType::get(attr.getContext(), 16));
  return attr;
}

void fusion::codegen::eraseBf16(LLVM::LLVMFuncOp function) {
  SmallVector<LLVM::BitcastOp> bitcasts;
  function.walk([&](Operation *op) {
    for (OpResult result : op->getResults())
      result.setType(withoutBf16(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(withoutBf16(argument.getType()));
    if (isa<LLVM::GEPOp, LLVM::AllocaOp, LLVM::ConstantOp>(op))
      for (NamedAttribute attr : llvm::to_vector(op->getAttrDictionary()))
        if (Attribute changed = withoutBf16(attr.getValue());
            changed != attr.getValue())
          op->setAttr(attr.getName(), changed);
    if (auto bitcast = dyn_cast<LLVM::BitcastOp>(op))
      bitcasts.push_back(bitcast);
  });
  for (LLVM::BitcastOp bitcast : bitcasts)
    if (bitcast.getArg().getType() == bitcast.getType()) {
      bitcast.replaceAllUsesWith(bitcast.getArg());
      bitcast.erase();
    }
}

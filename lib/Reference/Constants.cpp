//===- Constants.cpp - constant, get_parameter ----------------------------===//
//
// Where a tensor's elements come from the module: an attribute, a resource
// blob, or a file beside it.
//
//===----------------------------------------------------------------------===//

#include "Parameters.h"

#include "mlir/IR/DialectResourceBlobManager.h"

using namespace fusion;
using namespace fusion::reference;

llvm::Expected<Tensor>
fusion::reference::readElements(mlir::Operation *op, mlir::ElementsAttr value,
                                const OpContext &context) {
  mlir::ShapedType type = value.getShapedType();
  std::optional<ElementKind> kind = getElementKind(type.getElementType());
  if (!kind)
    return failAt(op, FailureKind::Program,
                  "the attribute's elements are not of the dialect");
  if (auto resource = llvm::dyn_cast<mlir::DenseResourceElementsAttr>(value)) {
    mlir::AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob)
      return failAt(op, FailureKind::Program,
                    "the resource '" + resource.getRawHandle().getKey() +
                        "' is not in the module");
    llvm::Expected<Tensor> tensor = Tensor::fromBytes(
        *kind, type.getShape(), blob->getData(), context.memory);
    if (tensor)
      return tensor;
    FailureKind failure;
    std::string message = takeMessage(tensor.takeError(), failure);
    if (failure == FailureKind::Usage)
      failure = FailureKind::Program;
    return failAt(op, failure, message);
  }
  auto dense = llvm::dyn_cast<mlir::DenseElementsAttr>(value);
  if (!dense)
    return failAt(op, FailureKind::Program,
                  "the attribute is neither dense nor a resource");
  if (*kind != ElementKind::I1 && !dense.isSplat())
    return Tensor::fromBytes(*kind, type.getShape(), dense.getRawData(),
                             context.memory);

  llvm::Expected<Tensor> tensor = context.allocate(*kind, type.getShape());
  if (!tensor)
    return tensor;
  if (*kind == ElementKind::I1) {
    int64_t i = 0;
    for (bool element : dense.getValues<bool>())
      tensor->setInt(i++, element);
    return tensor;
  }
  llvm::Expected<Tensor> one = Tensor::fromBytes(*kind, {}, dense.getRawData());
  if (!one)
    return one;
  for (int64_t i = 0; i < tensor->getNumElements(); ++i)
    tensor->setFrom(i, *one, 0);
  return tensor;
}

llvm::Expected<Tensor> ParameterStore::load(ParameterOp parameter,
                                            const OpContext &context) {
  if (mlir::ElementsAttr value = parameter.getValueAttr())
    return readElements(parameter, value, context);
  auto type = llvm::cast<mlir::RankedTensorType>(parameter.getType());
  std::optional<ElementKind> kind = getElementKind(type.getElementType());
  if (!kind || !parameter.getFile() || !parameter.getKey())
    return failAt(parameter, FailureKind::Program,
                  "it names no file and key, and has no value");
  if (directory.empty())
    return failAt(
        parameter, FailureKind::Usage,
        "its bytes are in a file, and the module's folder is unknown");

  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<SafeTensorsFile> &file = files[parameter.getFile()->str()];
  if (!file) {
    auto opened = SafeTensorsFile::open(directory, *parameter.getFile());
    if (!opened)
      return opened.takeError();
    file = std::move(*opened);
  }
  return file->read(*parameter.getKey(), *kind, type.getShape(),
                    parameter.getSha256().value_or(""), context.memory);
}

static llvm::Expected<Tensor> evaluateConstant(ConstantOp op, Tensors,
                                               const OpContext &context) {
  return readElements(op, op.getValue(), context);
}

static llvm::Expected<Tensor> evaluateGetParameter(GetParameterOp op, Tensors,
                                                   const OpContext &context) {
  mlir::Operation *symbol =
      context.symbols ? context.symbols->lookup(op.getParameter()) : nullptr;
  auto parameter = llvm::dyn_cast_or_null<ParameterOp>(symbol);
  if (!parameter || !context.parameters)
    return failAt(op, FailureKind::Program,
                  "the module has no parameter @" + op.getParameter());
  return context.parameters->load(parameter, context);
}

void fusion::reference::addConstantRules(RuleTable &rules) {
  rules.add(evaluateConstant);
  rules.add(evaluateGetParameter);
}

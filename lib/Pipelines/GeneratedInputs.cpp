//===- GeneratedInputs.cpp - Data to evaluate a function on ---------------===//
//
// The numbers are the same on every machine.
//
//===----------------------------------------------------------------------===//
#include "GeneratedInputs.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/IR/BatchExtent.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/Reference/Compare.h"
#include "fusion/Reference/Failure.h"

#include "llvm/Support/xxhash.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using reference::Tensor;

namespace {

/// Numbers that are the same on every machine (splitmix64).
class Generator {
public:
  explicit Generator(uint64_t seed) : state(seed) {}

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// Uniform in [low, high].
  int64_t nextInteger(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % (high - low + 1));
  }
  /// Normally distributed.
  double nextNormal() {
    double u = (next() >> 11) * 0x1p-53, v = (next() >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
  }

private:
  uint64_t state;
};

} // namespace

/// Whether all ops give integers for integers.
static bool isClosedUnderIntegers(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (isa<AddOp, SubOp, MulOp>(op) || getOpFamily(&op) == OpFamily::Source)
      continue;
    llvm::Expected<reference::AccuracyClass> found =
        reference::getAccuracyClass(&op);
    if (!found) {
      llvm::consumeError(found.takeError());
      return false;
    }
    if (*found != reference::AccuracyClass::Exact &&
        *found != reference::AccuracyClass::Contraction)
      return false;
  }
  return true;
}

static llvm::Expected<Tensor> makeTensor(Type elementType,
                                         reference::Shape shape, bool integers,
                                         Generator &generator) {
  reference::ElementKind kind = *reference::getElementKind(elementType);
  llvm::Expected<Tensor> tensor = Tensor::create(kind, std::move(shape));
  if (!tensor)
    return tensor;
  for (int64_t i = 0; i < tensor->getNumElements(); ++i)
    if (tensor->isFloat())
      tensor->setFloat(i, integers ? generator.nextInteger(-3, 3)
                                   : generator.nextNormal());
    else
      tensor->setInt(i, generator.nextInteger(0, 3));
  return tensor;
}

static llvm::Expected<Tensor> makeInput(RankedTensorType type, int64_t batch,
                                        bool integers, Generator &generator) {
  reference::Shape shape;
  for (int64_t size : type.getShape())
    shape.push_back(ShapedType::isDynamic(size) ? batch : size);
  return makeTensor(type.getElementType(), std::move(shape), integers,
                    generator);
}

llvm::Expected<std::vector<Tensor>>
fusion::makeStandIns(KernelCallOp call, ArrayRef<Tensor> operands,
                     int64_t batch) {
  uint64_t seed = llvm::xxh3_64bits(call.getEntry());
  for (const Tensor &operand : operands)
    seed = seed * 31 + llvm::xxh3_64bits(operand.toBytes());
  Generator generator(seed);
  std::vector<Tensor> results;
  for (Value output : call.getOutputs()) {
    reference::Shape shape;
    auto type = cast<RankedTensorType>(output.getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      shape.push_back(type.isDynamicDim(dim)
                          ? getBatchExtent(output, dim)->at(batch)
                          : type.getDimSize(dim));
    llvm::Expected<Tensor> tensor = makeTensor(
        type.getElementType(), std::move(shape), /*integers=*/false, generator);
    if (!tensor)
      return tensor.takeError();
    results.push_back(std::move(*tensor));
  }
  return results;
}

std::set<int64_t> fusion::getBatches(func::FuncOp function) {
  bool isDynamic = llvm::any_of(function.getArgumentTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && !tensor.hasStaticShape();
  });
  if (!isDynamic)
    return {1};
  auto bounds =
      function->getAttrOfType<DenseI64ArrayAttr>(FusionDialect::kBatchAttr);
  int64_t least = bounds ? bounds[0] : 1, most = bounds ? bounds[1] : 2;
  return {least, std::clamp<int64_t>(2, least, most), most};
}

LogicalResult fusion::reportUnchecked(func::FuncOp function,
                                      llvm::Error error) {
  reference::FailureKind kind;
  std::string message = reference::takeMessage(std::move(error), kind);
  return emitError(function, kind == reference::FailureKind::Resources
                                 ? ErrorKind::Resources
                                 : ErrorKind::Program)
         << "@" << function.getName() << " can't be checked: " << message;
}

FailureOr<std::vector<Tensor>>
fusion::generateInputs(func::FuncOp function, int64_t batch, uint64_t seed) {
  bool integers = isClosedUnderIntegers(function.getBody().front());
  Generator generator(seed + batch);
  std::vector<Tensor> inputs;
  for (Type type : function.getArgumentTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !reference::getElementKind(tensor.getElementType()))
      return function.emitError("an argument is no tensor that the evaluator "
                                "knows: the function can't be checked");
    llvm::Expected<Tensor> input =
        makeInput(tensor, batch, integers, generator);
    if (!input)
      return reportUnchecked(function, input.takeError());
    inputs.push_back(std::move(*input));
  }
  return inputs;
}

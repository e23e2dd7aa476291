//===- FusionDialect.cpp - The dialect's registration and versioning ------===//
//
// Registers ops, types and attributes, and states the bytecode version: a file
// from a newer dialect is refused, an older one is read.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/ShardingNames.h"

#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;

#include "fusion/IR/FusionDialect.cpp.inc"
#include "fusion/IR/FusionEnums.cpp.inc"
#include "fusion/IR/FusionInterfaces.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fusion/IR/FusionTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fusion/IR/FusionAttributes.cpp.inc"

namespace {

struct FusionVersion final : DialectVersion {
  explicit FusionVersion(uint64_t value) : value(value) {}
  uint64_t value;
};

struct FusionBytecode final : BytecodeDialectInterface {
  explicit FusionBytecode(Dialect *dialect)
      : BytecodeDialectInterface(dialect) {}

  void writeVersion(DialectBytecodeWriter &writer) const final {
    writer.writeVarInt(FusionDialect::kBytecodeVersion);
  }

  std::unique_ptr<DialectVersion>
  readVersion(DialectBytecodeReader &reader) const final {
    uint64_t value;
    if (failed(reader.readVarInt(value)))
      return nullptr;
    if (value > FusionDialect::kBytecodeVersion) {
      reader.emitError() << "bytecode of the fusion dialect has version "
                         << value << "; this build reads up to "
                         << FusionDialect::kBytecodeVersion;
      return nullptr;
    }
    return std::make_unique<FusionVersion>(value);
  }
};

} // namespace

void FusionDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "fusion/IR/FusionOps.cpp.inc"
      >();
  registerTypes();
  registerAttributes();
  addInterface<FusionBytecode>();
}

void FusionDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "fusion/IR/FusionTypes.cpp.inc"
      >();
}

void FusionDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fusion/IR/FusionAttributes.cpp.inc"
      >();
}

LogicalResult FusionDialect::verifyOperationAttribute(Operation *op,
                                                      NamedAttribute attr) {
  if (attr.getName() != kBatchAttr)
    return success();
  if (!isa<FunctionOpInterface>(op))
    return op->emitError() << "'" << kBatchAttr << "' belongs on a function";
  auto bounds = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
  if (!bounds || bounds.size() != 2 || bounds[0] < 1 || bounds[1] < bounds[0])
    return op->emitError()
           << "'" << kBatchAttr
           << "' must be array<i64: min, max> with 1 <= min <= max";
  return success();
}

/// `[["dp"], []]`: a list of mesh axes for each dimension, none of them twice.
/// The axes are looked up where the program is partitioned.
static LogicalResult verifySharding(Operation *op, Type type, Attribute value) {
  auto error = [&] {
    return op->emitError() << "'" << kShardingAttr << "' must ";
  };
  auto lists = dyn_cast<ArrayAttr>(value);
  if (!lists)
    return error() << "be a list of lists of axes, one for each dimension";
  llvm::SmallDenseSet<StringRef> seen;
  for (Attribute list : lists) {
    auto axes = dyn_cast<ArrayAttr>(list);
    if (!axes)
      return error() << "be a list of lists of axes, one for each dimension";
    for (Attribute axis : axes) {
      auto name = dyn_cast<StringAttr>(axis);
      if (!name)
        return error() << "name axes by strings";
      if (!seen.insert(name.getValue()).second)
        return error() << "name the axis " << axis << " once";
    }
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() != int64_t(lists.size()))
    return error() << "have one list for each dimension of " << type;
  return success();
}

LogicalResult FusionDialect::verifyRegionArgAttribute(Operation *op,
                                                      unsigned region,
                                                      unsigned argument,
                                                      NamedAttribute attr) {
  if (attr.getName() == kShardingAttr) {
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (!function)
      return op->emitError()
             << "'" << kShardingAttr << "' belongs on a function's argument";
    return verifySharding(op, function.getArgumentTypes()[argument],
                          attr.getValue());
  }
  if (attr.getName() == kNameAttr && !isa<StringAttr>(attr.getValue()))
    return op->emitError() << "'" << kNameAttr << "' must be a string";
  if (attr.getName() == kDonatedAttr && !isa<IntegerAttr>(attr.getValue()))
    return op->emitError() << "'" << kDonatedAttr
                           << "' must be the index of a result";
  return success();
}

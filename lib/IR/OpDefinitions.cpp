//===- OpDefinitions.cpp - What TableGen writes for the ops ---------------===//
//
// The generated definitions, and the custom pieces of their assembly formats.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// custom<SameTypes>: several operands of one type, written once
//===----------------------------------------------------------------------===//

template <typename... Types>
static ParseResult parseSameTypes(OpAsmParser &parser, Type &first,
                                  Types &...others) {
  if (parser.parseType(first))
    return failure();
  ((others = first), ...);
  return success();
}

template <typename... Types>
static void printSameTypes(OpAsmPrinter &printer, Operation *, Type first,
                           Types...) {
  printer << first;
}

//===----------------------------------------------------------------------===//
// custom<MatchingTypes>: results that have the operands' types
//===----------------------------------------------------------------------===//

static ParseResult parseMatchingTypes(OpAsmParser &parser,
                                      SmallVectorImpl<Type> &inputs,
                                      SmallVectorImpl<Type> &outputs) {
  if (parser.parseTypeList(inputs))
    return failure();
  outputs.assign(inputs.begin(), inputs.end());
  return success();
}

static void printMatchingTypes(OpAsmPrinter &printer, Operation *,
                               TypeRange inputs, TypeRange) {
  llvm::interleaveComma(inputs, printer);
}

//===----------------------------------------------------------------------===//
// custom<RowNormTypes>: the input's type, then `, T` for scale and bias if
// there
//===----------------------------------------------------------------------===//

using OptionalOperand = std::optional<OpAsmParser::UnresolvedOperand>;

static ParseResult parseRowNormTypes(OpAsmParser &parser,
                                     const OptionalOperand &scale,
                                     const OptionalOperand &bias,
                                     Type &inputType, Type &scaleType,
                                     Type &biasType) {
  if (parser.parseType(inputType))
    return failure();
  for (auto [operand, type] :
       {std::pair(&scale, &scaleType), std::pair(&bias, &biasType)})
    if (operand->has_value() &&
        (parser.parseComma() || parser.parseType(*type)))
      return failure();
  return success();
}

static void printRowNormTypes(OpAsmPrinter &printer, Operation *, Value, Value,
                              Type inputType, Type scaleType, Type biasType) {
  printer << inputType;
  for (Type type : {scaleType, biasType})
    if (type)
      printer << ", " << type;
}

//===----------------------------------------------------------------------===//
// custom<MeshAxes>: `dp = 4, tp = 2`
//===----------------------------------------------------------------------===//

static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &names,
                                 DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> nameList;
  SmallVector<int64_t> sizeList;
  if (parser.parseCommaSeparatedList([&]() -> ParseResult {
        std::string name;
        int64_t size;
        if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
            parser.parseInteger(size))
          return failure();
        nameList.push_back(parser.getBuilder().getStringAttr(name));
        sizeList.push_back(size);
        return success();
      }))
    return failure();
  names = parser.getBuilder().getArrayAttr(nameList);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(sizeList);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, Operation *, ArrayAttr names,
                          DenseI64ArrayAttr sizes) {
  llvm::interleaveComma(
      llvm::zip(names.getAsValueRange<StringAttr>(), sizes.asArrayRef()),
      printer, [&](auto axis) {
        printer.printKeywordOrString(std::get<0>(axis));
        printer << " = " << std::get<1>(axis);
      });
}

//===----------------------------------------------------------------------===//
// custom<MeshGroup>: `@m[dp, tp]`
//===----------------------------------------------------------------------===//

static ParseResult parseMeshGroup(OpAsmParser &parser, FlatSymbolRefAttr &mesh,
                                  ArrayAttr &axes) {
  SmallVector<Attribute> names;
  if (parser.parseAttribute(mesh) ||
      parser.parseCommaSeparatedList(
          OpAsmParser::Delimiter::Square, [&]() -> ParseResult {
            std::string name;
            if (parser.parseKeywordOrString(&name))
              return failure();
            names.push_back(parser.getBuilder().getStringAttr(name));
            return success();
          }))
    return failure();
  axes = parser.getBuilder().getArrayAttr(names);
  return success();
}

static void printMeshGroup(OpAsmPrinter &printer, Operation *,
                           FlatSymbolRefAttr mesh, ArrayAttr axes) {
  printer << mesh << '[';
  llvm::interleaveComma(
      axes.getAsValueRange<StringAttr>(), printer,
      [&](StringRef name) { printer.printKeywordOrString(name); });
  printer << ']';
}

//===----------------------------------------------------------------------===//
// custom<FutureValues>: the future's type gives the values' types
//===----------------------------------------------------------------------===//

static ParseResult parseFutureValues(OpAsmParser &parser, Type &future,
                                     SmallVectorImpl<Type> &values) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(future))
    return failure();
  auto type = dyn_cast<FutureType>(future);
  if (!type)
    return parser.emitError(loc, "expected a !fusion.future type");
  llvm::append_range(values, type.getTypes());
  return success();
}

static void printFutureValues(OpAsmPrinter &printer, Operation *, Type future,
                              TypeRange) {
  printer << future;
}

#define GET_OP_CLASSES
#include "fusion/IR/FusionOps.cpp.inc"

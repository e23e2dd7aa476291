//===- StructureVerifiers.cpp - Parameters, groups, futures, kernels ------===//
//
// Verifiers, symbol checks and the custom syntax of the structure ops.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

LogicalResult ParameterOp::verify() {
  if (getFile().has_value() == getValue().has_value())
    return emitOpError("needs exactly one of a file and a value");
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape() || !hasSupportedElement(type) ||
      !hasSupportedSize(type))
    return emitOpError(
        "needs a static ranked tensor type of the dialect's elements");
  if (std::optional<ElementsAttr> value = getValue())
    if (value->getType() != type)
      return emitOpError("the value's type differs from the parameter's");
  if (std::optional<StringRef> file = getFile()) {
    if (!getKey() || getKey()->empty())
      return emitOpError("a file needs a key");
    if (file->empty() || llvm::sys::path::is_absolute(*file) ||
        llvm::any_of(llvm::make_range(llvm::sys::path::begin(*file),
                                      llvm::sys::path::end(*file)),
                     [](StringRef part) { return part == ".."; }))
      return emitOpError("the file must be a relative path without '..'");
  }
  return success();
}

LogicalResult GetParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter =
      symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter)
    return emitOpError("names no parameter: ") << getParameterAttr();
  if (parameter.getType() != getType())
    return emitOpError("has another type than the parameter: ")
           << parameter.getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

YieldOp GroupOp::getYield() {
  return cast<YieldOp>(getBodyBlock()->getTerminator());
}

ParseResult GroupOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef keyword;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<GroupKind> kind = symbolizeGroupKind(keyword);
  if (!kind)
    return parser.emitError(loc, "unknown kind of group: ") << keyword;
  result.getOrAddProperties<Properties>().kind =
      GroupKindAttr::get(parser.getContext(), *kind);

  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> types;
  if (parser.parseCommaSeparatedList(
          OpAsmParser::Delimiter::Paren,
          [&]() -> ParseResult {
            OpAsmParser::Argument &argument = arguments.emplace_back();
            if (parser.parseArgument(argument) || parser.parseEqual() ||
                parser.parseOperand(operands.emplace_back()) ||
                parser.parseColonType(types.emplace_back()))
              return failure();
            argument.type = types.back();
            return success();
          }) ||
      parser.resolveOperands(operands, types, loc, result.operands) ||
      parser.parseOptionalArrowTypeList(result.types))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("kernel"))) {
    SymbolRefAttr kernel;
    if (parser.parseAttribute(kernel))
      return failure();
    result.getOrAddProperties<Properties>().kernel = kernel;
  }
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), result.location);
  return success();
}

void GroupOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyGroupKind(getKind()) << " (";
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()),
                        printer, [&](auto pair) {
                          printer.printRegionArgument(std::get<0>(pair), {},
                                                      /*omitType=*/true);
                          printer << " = " << std::get<1>(pair) << " : "
                                  << std::get<1>(pair).getType();
                        });
  printer << ')';
  printer.printOptionalArrowTypeList(getResultTypes());
  if (SymbolRefAttr kernel = getKernelAttr())
    printer << " kernel " << kernel;
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"kind", "kernel"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult GroupOp::verify() {
  Block &block = getBody().front();
  if (!llvm::equal(block.getArgumentTypes(), getInputs().getTypes()))
    return emitOpError("the block arguments' types are not the operands'");
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || !llvm::equal(yield.getOperandTypes(), getResultTypes()))
    return emitOpError("the yielded types are not the results'");
  if (llvm::hasSingleElement(block))
    return emitOpError("must not be empty");
  bool horizontal = getKind() == GroupKind::Horizontal;
  for (Operation &op : block.without_terminator()) {
    if (horizontal && !isa<GroupOp>(op))
      return emitOpError("of kind horizontal contains only groups")
                 .attachNote(op.getLoc())
             << "this op is not a group";
    if (!horizontal && isa<GroupOp>(op))
      return emitOpError("of kind ")
                 .append(stringifyGroupKind(getKind()), " contains no groups")
                 .attachNote(op.getLoc())
             << "this op is a group";
    if (auto member = dyn_cast<GroupOp>(op);
        member && member.getKind() == GroupKind::Horizontal)
      return emitOpError("nests horizontal groups");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Asynchronous regions
//===----------------------------------------------------------------------===//

ParseResult AsyncOp::parse(OpAsmParser &parser, OperationState &result) {
  int64_t stream;
  SmallVector<Type> types;
  if (parser.parseKeyword("stream") || parser.parseEqual() ||
      parser.parseInteger(stream) || parser.parseOptionalArrowTypeList(types))
    return failure();
  result.getOrAddProperties<Properties>().stream =
      parser.getBuilder().getI64IntegerAttr(stream);
  result.addTypes(FutureType::get(parser.getContext(), types));
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  Region *body = result.addRegion();
  if (parser.parseRegion(*body))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), result.location);
  return success();
}

void AsyncOp::print(OpAsmPrinter &printer) {
  printer << " stream = " << getStream();
  printer.printOptionalArrowTypeList(getFuture().getType().getTypes());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"stream"});
  printer << ' ';
  printer.printRegion(getBody());
}

LogicalResult AsyncOp::verify() {
  if (int64_t(getStream()) < 0)
    return emitOpError("the stream must not be negative");
  auto yield = dyn_cast<YieldOp>(getBody().front().getTerminator());
  if (!yield ||
      !llvm::equal(yield.getOperandTypes(), getFuture().getType().getTypes()))
    return emitOpError("the yielded types are not the future's");
  return success();
}

LogicalResult AwaitOp::verify() {
  if (!llvm::equal(getResultTypes(), getFuture().getType().getTypes()))
    return emitOpError("the results' types are not the future's");
  return success();
}

//===----------------------------------------------------------------------===//
// User kernels
//===----------------------------------------------------------------------===//

LogicalResult KernelCallOp::verify() {
  if (getLanguage() != "ptx" && getLanguage() != "cuda" && getLanguage() != "c")
    return emitOpError("the language must be ptx, cuda or c, but is ")
           << getLanguage();
  if (getEntry().empty())
    return emitOpError("the entry must not be empty");
  if (int64_t(getFlops()) < 0 || int64_t(getBytes()) < 0)
    return emitOpError("costs must not be negative");
  return success();
}

void KernelCallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!getSideEffects())
    return;
  effects.emplace_back(MemoryEffects::Read::get(),
                       CommunicationResource::get());
  effects.emplace_back(MemoryEffects::Write::get(),
                       CommunicationResource::get());
}

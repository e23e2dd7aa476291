//===- ProgramVerifiers.cpp - Programs and their parts --------------------===//
//
// Structural checks of the Program level. Races and lifetimes are the business
// of the schedule verifier, which works on the module's plain structs.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

/// Checks a range against the segments of `program`.
static LogicalResult checkRange(Operation *op, RangeAttr range,
                                const llvm::StringMap<SegmentOp> &segments) {
  auto it = segments.find(range.getSegment().getValue());
  if (it == segments.end())
    return op->emitOpError("names no segment: ") << range.getSegment();
  SegmentOp segment = it->second;
  int64_t size = segment.getSize();
  if (range.getOffset() < 0 || range.getSize() < 0 ||
      range.getOffset() > size || range.getSize() > size - range.getOffset()) {
    InFlightDiagnostic diag = op->emitOpError("the range ")
                              << range << " leaves its segment of " << size
                              << " bytes";
    diag.attachNote(segment.getLoc()) << "the segment";
    return diag;
  }
  return success();
}

static LogicalResult checkAccesses(Operation *op,
                                   std::optional<ArrayAttr> accesses,
                                   const llvm::StringMap<SegmentOp> &segments) {
  if (!accesses)
    return success();
  for (auto access : accesses->getAsRange<AccessAttr>())
    if (failed(checkRange(op, access.getRange(), segments)))
      return failure();
  return success();
}

LogicalResult ProgramOp::verify() {
  if (getBatch().size() != 2 || getBatch()[0] < 1 ||
      getBatch()[1] < getBatch()[0])
    return emitOpError("'batch' must be [min, max] with 1 <= min <= max");
  if (int64_t(getStreams()) < 1 || int64_t(getEvents()) < 0 ||
      int64_t(getPeak()) < 0)
    return emitOpError("needs a stream; events and peak must not be negative");
  llvm::StringMap<SegmentOp> segments;
  for (auto segment : getBody().front().getOps<SegmentOp>())
    segments[segment.getSymName()] = segment;

  llvm::SmallDenseSet<int64_t> recorded;
  auto checkStream = [&](Operation *op, int64_t stream) -> LogicalResult {
    if (stream < 0 || stream >= int64_t(getStreams()))
      return op->emitOpError("the program has no stream ") << stream;
    return success();
  };
  auto checkEvent = [&](Operation *op, int64_t event) -> LogicalResult {
    if (event < 0 || event >= int64_t(getEvents()))
      return op->emitOpError("the program has no event ") << event;
    return success();
  };
  for (Operation &op : getBody().front()) {
    LogicalResult ok =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case([&](LaunchOp launch) {
              return success(succeeded(checkStream(&op, launch.getStream())) &&
                             succeeded(checkAccesses(&op, launch.getOperands(),
                                                     segments)));
            })
            .Case([&](CallOp call) {
              return success(
                  succeeded(checkStream(&op, call.getStream())) &&
                  succeeded(checkAccesses(&op, call.getOperands(), segments)) &&
                  succeeded(
                      checkAccesses(&op, call.getTailOperands(), segments)));
            })
            .Case([&](RunCollectiveOp collective) {
              return success(
                  succeeded(checkStream(&op, collective.getStream())) &&
                  succeeded(
                      checkAccesses(&op, collective.getOperands(), segments)));
            })
            .Case([&](CopyOp copy) {
              return success(
                  succeeded(checkStream(&op, copy.getStream())) &&
                  succeeded(checkRange(&op, copy.getSource(), segments)) &&
                  succeeded(checkRange(&op, copy.getTarget(), segments)));
            })
            .Case([&](ContentOp content) {
              return checkRange(&op, content.getRange(), segments);
            })
            .Case([&](PortOp port) -> LogicalResult {
              if (!segments.count(port.getSegment()))
                return op.emitOpError("names no segment: ")
                       << port.getSegmentAttr();
              return success();
            })
            .Case([&](RecordOp record) {
              recorded.insert(record.getEvent());
              return success(succeeded(checkStream(&op, record.getStream())) &&
                             succeeded(checkEvent(&op, record.getEvent())));
            })
            .Case([&](WaitOp wait) -> LogicalResult {
              if (failed(checkStream(&op, wait.getStream())) ||
                  failed(checkEvent(&op, wait.getEvent())))
                return failure();
              if (!recorded.count(wait.getEvent()))
                return op.emitOpError("waits for event ")
                       << wait.getEvent()
                       << ", which no earlier command records";
              return success();
            })
            .Case([&](SegmentOp) { return success(); })
            .Default([&](Operation *other) -> LogicalResult {
              return other->emitOpError("does not belong in a program");
            });
    if (failed(ok))
      return failure();
  }
  return success();
}

LogicalResult SegmentOp::verify() {
  if (int64_t(getSize()) < 0)
    return emitOpError("the size must not be negative");
  if (int64_t(getAlign()) < 1 || !llvm::isPowerOf2_64(getAlign()))
    return emitOpError("the alignment must be a power of two");
  return success();
}

LogicalResult ContentOp::verify() {
  if (getParameter().has_value() == getValue().has_value())
    return emitOpError("needs exactly one of a parameter and a value");
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape() || !hasSupportedElement(type) ||
      !hasSupportedSize(type))
    return emitOpError(
        "needs a static ranked tensor type of the dialect's elements");
  int64_t width = type.getElementType().isInteger(1)
                      ? 1
                      : type.getElementTypeBitWidth() / 8;
  if (type.getNumElements() * width != getRange().getSize())
    return emitOpError("the range has another size than the tensor");
  return success();
}

LogicalResult PortOp::verify() {
  if (getDirection() != SegmentKind::Input &&
      getDirection() != SegmentKind::Output)
    return emitOpError("the direction must be input or output");
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !hasSupportedElement(type) || !hasSupportedSize(type))
    return emitOpError("needs a ranked tensor type of the dialect's elements");
  if (!getShape() && !type.hasStaticShape())
    return emitOpError("needs 'shape' for its batch dimension");
  if (std::optional<ArrayAttr> shape = getShape())
    if (int64_t(shape->size()) != type.getRank() ||
        !llvm::all_of(*shape,
                      [](Attribute extent) { return isa<ExtentAttr>(extent); }))
      return emitOpError("'shape' must have one extent for each of the ")
             << type.getRank() << " dimensions";
  if (getDonatedTo() &&
      (getDirection() != SegmentKind::Input || int64_t(*getDonatedTo()) < 0))
    return emitOpError("only an input is donated, to the index of an output");
  return success();
}

LogicalResult CopyOp::verify() {
  if (getSource().getSize() != getTarget().getSize())
    return emitOpError("source and target differ in size");
  return success();
}

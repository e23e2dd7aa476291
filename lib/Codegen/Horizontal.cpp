//===- Horizontal.cpp - One kernel that runs the kernels of many ----------===//
//
// A member's kernel is a function that is there already. The horizontal kernel
// walks a constant table of members: where a member's units begin among all
// units, and which of its operands come first. Members of one kernel cost a row
// of the table, not code. Nothing is padded: the units are exactly the
// members'.
//
// A unit of one member may be much more work than a unit of another. Each
// counts by weight: a member's unit u is the `weight` units from `weight * u`
// on, of which the first computes it and the others are empty. Ranges of equal
// length are then about equal work.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Units of a launch, at most: the runtime refuses 2^48, and the batch is a
/// factor yet.
static constexpr int64_t kMaxUnits = int64_t(1) << 46;

/// A row of the table.
namespace {
enum Column { Kernel, FirstOperand, Scale, Base, Weight, NumColumns };
} // namespace

/// The work of a unit of each member in terms of the smallest.
static SmallVector<int64_t> computeWeights(ArrayRef<HorizontalMember> members,
                                           int64_t &grain) {
  grain = 1;
  for (const HorizontalMember &member : members)
    grain = std::max(grain, member.grain);
  return llvm::map_to_vector(members, [&](const HorizontalMember &member) {
    return std::max<int64_t>(1, (grain + member.grain / 2) / member.grain);
  });
}

/// The weighted sum of all units, or nullopt if it gets too large.
static std::optional<Extent> sumUnits(ArrayRef<HorizontalMember> members,
                                      ArrayRef<int64_t> weights) {
  Extent total;
  for (auto [member, weight] : llvm::zip(members, weights)) {
    std::optional<Extent> units = multiply(member.units, Extent{0, weight});
    if (!units || llvm::AddOverflow(total.scale, units->scale, total.scale) ||
        llvm::AddOverflow(total.base, units->base, total.base) ||
        total.scale > kMaxUnits || std::abs(total.base) > kMaxUnits)
      return std::nullopt;
  }
  return total;
}

namespace {

class HorizontalBuilder {
public:
  HorizontalBuilder(ModuleOp kernels, Location loc)
      : b(OpBuilder::atBlockEnd(kernels.getBody())), loc(loc) {}

  func::FuncOp build(StringRef name, ArrayRef<HorizontalMember> members,
                     ArrayRef<int64_t> weights);

private:
  LLVM::GlobalOp buildTable(StringRef name, ArrayRef<HorizontalMember> members,
                            ArrayRef<int64_t> weights);
  void buildMember(Value index, Value &position);
  void buildCalls(Value kernel, ArrayRef<Value> operands);
  Value load(Value row, Column column);
  Value i64(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  template <typename OpTy, typename... Args> Value op(Args &&...args) {
    return OpTy::create(b, loc, std::forward<Args>(args)...).getResult();
  }

  OpBuilder b;
  Location loc;
  /// The distinct kernels, numbered.
  llvm::MapVector<Attribute, int64_t> numberOf;
  bool isWeighted = false;
  Value table, buffers, batch, begin, end;
};

} // namespace

LLVM::GlobalOp HorizontalBuilder::buildTable(StringRef name,
                                             ArrayRef<HorizontalMember> members,
                                             ArrayRef<int64_t> weights) {
  SmallVector<int64_t> rows;
  for (auto [member, weight] : llvm::zip(members, weights)) {
    int64_t number =
        numberOf.insert({member.kernel, numberOf.size()}).first->second;
    rows.append({number, member.firstOperand, member.units.scale,
                 member.units.base, weight});
    isWeighted |= weight != 1;
  }
  int64_t size = rows.size();
  return LLVM::GlobalOp::create(
      b, loc, LLVM::LLVMArrayType::get(b.getI64Type(), size),
      /*isConstant=*/true, LLVM::Linkage::Internal, (name + "_members").str(),
      DenseElementsAttr::get(RankedTensorType::get({size}, b.getI64Type()),
                             ArrayRef<int64_t>(rows)));
}

Value HorizontalBuilder::load(Value row, Column column) {
  Value at = op<arith::AddIOp>(row, i64(column));
  Value slot = LLVM::GEPOp::create(b, loc, table.getType(), b.getI64Type(),
                                   table, ValueRange{at});
  return LLVM::LoadOp::create(b, loc, b.getI64Type(), slot);
}

/// Calls the kernel of that number.
void HorizontalBuilder::buildCalls(Value kernel, ArrayRef<Value> operands) {
  auto call = [&](Attribute callee) {
    func::CallOp::create(b, loc, cast<FlatSymbolRefAttr>(callee), TypeRange(),
                         operands);
  };
  if (numberOf.size() == 1)
    return call(numberOf.front().first);
  auto cases = llvm::to_vector(llvm::seq<int64_t>(0, numberOf.size() - 1));
  Value index = op<arith::IndexCastOp>(b.getIndexType(), kernel);
  auto choice = scf::IndexSwitchOp::create(b, loc, TypeRange(), index, cases,
                                           cases.size());
  OpBuilder::InsertionGuard guard(b);
  auto fill = [&](Region &region, Attribute callee) {
    b.createBlock(&region);
    call(callee);
    scf::YieldOp::create(b, loc);
  };
  for (auto [region, entry] : llvm::zip(choice.getCaseRegions(), numberOf))
    fill(region, entry.first);
  fill(choice.getDefaultRegion(), numberOf.back().first);
}

/// Runs the part of a member that lies in [begin, end); its units start at
/// `position`, which moves on to the next member's.
void HorizontalBuilder::buildMember(Value index, Value &position) {
  using Predicate = arith::CmpIPredicate;
  Value row = op<arith::MulIOp>(index, i64(NumColumns));
  Value units = op<arith::AddIOp>(op<arith::MulIOp>(load(row, Scale), batch),
                                  load(row, Base));
  Value weight = isWeighted ? load(row, Weight) : Value();
  Value length = isWeighted ? op<arith::MulIOp>(units, weight) : units;
  Value next = op<arith::AddIOp>(position, length);
  Value from = op<arith::MaxSIOp>(begin, position);
  Value to = op<arith::MinSIOp>(end, next);
  auto ifOverlaps = scf::IfOp::create(
      b, loc, op<arith::CmpIOp>(Predicate::slt, from, to), /*withElse=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOverlaps.thenBlock());
    from = op<arith::SubIOp>(from, position);
    to = op<arith::SubIOp>(to, position);
    if (isWeighted) {
      auto roundUp = [&](Value at) {
        Value last = op<arith::SubIOp>(weight, i64(1));
        return op<arith::DivUIOp>(op<arith::AddIOp>(at, last), weight);
      };
      from = roundUp(from);
      to = roundUp(to);
    }
    Value first =
        LLVM::GEPOp::create(b, loc, buffers.getType(), buffers.getType(),
                            buffers, ValueRange{load(row, FirstOperand)});
    buildCalls(numberOf.size() > 1 ? load(row, Kernel) : Value(),
               {first, batch, from, to});
  }
  position = next;
}

func::FuncOp HorizontalBuilder::build(StringRef name,
                                      ArrayRef<HorizontalMember> members,
                                      ArrayRef<int64_t> weights) {
  LLVM::GlobalOp global = buildTable(name, members, weights);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64Type = b.getI64Type();
  auto function = func::FuncOp::create(
      b, loc, name,
      b.getFunctionType({pointer, i64Type, i64Type, i64Type}, {}));
  Block *entry = function.addEntryBlock();
  buffers = entry->getArgument(0);
  batch = entry->getArgument(1);
  begin = entry->getArgument(2);
  end = entry->getArgument(3);
  b.setInsertionPointToEnd(entry);
  table = LLVM::AddressOfOp::create(b, loc, global);
  auto loop = scf::ForOp::create(b, loc, i64(0), i64(members.size()), i64(1),
                                 ValueRange{i64(0)});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    Value position = loop.getRegionIterArg(0);
    buildMember(loop.getInductionVar(), position);
    scf::YieldOp::create(b, loc, position);
  }
  func::ReturnOp::create(b, loc);
  return function;
}

LogicalResult codegen::emitHorizontalKernel(ModuleOp kernels, StringRef name,
                                            Location loc,
                                            ArrayRef<HorizontalMember> members,
                                            const Twine &description) {
  int64_t grain;
  SmallVector<int64_t> weights = computeWeights(members, grain);
  std::optional<Extent> units = sumUnits(members, weights);
  if (!units) {
    weights.assign(members.size(), 1);
    units = sumUnits(members, weights);
    if (!units)
      return failure();
  }
  func::FuncOp function =
      HorizontalBuilder(kernels, loc).build(name, members, weights);
  MLIRContext *context = kernels.getContext();
  Builder b(context);
  function->setAttr("fusion.units",
                    ExtentAttr::get(context, units->scale, units->base));
  function->setAttr("fusion.grain", b.getI64IntegerAttr(grain));
  function->setAttr("fusion.description", b.getStringAttr(description));
  return success();
}

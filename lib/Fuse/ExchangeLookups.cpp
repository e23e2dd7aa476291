//===- ExchangeLookups.cpp - Rows sent that are looked up, not the table --===//
//
// A table of words that ranks hold parts of has a row for each word, of which a
// batch names few. Gathered, it is sent whole, and it is the first thing that a
// step needs: nothing hides it. So ranks gather what each of them looks up,
// every rank looks all of it up in the rows that it holds, and sends each rank
// what that one asked for. Of what a rank receives for a row, one copy from
// each rank, it takes the owner's.
//
// Indices are clamped to the whole table first, as a lookup clamps them: what
// lies outside finds the table's first or last row, and no padding.
//
//===----------------------------------------------------------------------===//
#include "CommEstimate.h"
#include "DecidingPass.h"
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#define DEBUG_TYPE "fusion-exchange-lookups"

namespace fusion {
#define GEN_PASS_DEF_EXCHANGELOOKUPS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

/// A gathered table, and who reads rows of it.
struct GatheredTable {
  AllGatherOp gather;
  int64_t ranks = 0;
  int64_t rows = 0; ///< of the table, without what fills the last parts
  SmallVector<GatherOp> lookups;
  SmallVector<SliceOp> views; ///< that leave out what fills the last parts
  bool hasOtherReader = false;
  double gatheredUs = 0, exchangedUs = 0;
};

struct ExchangeLookups
    : DecidingPass<fusion::impl::ExchangeLookupsBase<ExchangeLookups>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override;

private:
  void price(GatheredTable &table) const;
};

/// Writes the lookups of one table anew.
class LookupRewriter {
public:
  LookupRewriter(const GatheredTable &table, GatherOp lookup)
      : table(table), lookup(lookup), builder(lookup), loc(lookup.getLoc()) {}

  void run();

private:
  template <typename Op, typename... Operands>
  Value create(Operands &&...operands) {
    return Op::create(builder, loc, std::forward<Operands>(operands)...);
  }
  Value createSplat(int64_t number, RankedTensorType type);
  Value clampToTable(Value indices);
  Value countFromOwn(Value indices);
  Value findRows(Value indices);
  Value createCollective(StringRef name, Value operand, int64_t rows,
                         ArrayRef<StringRef> dims);

  const GatheredTable &table;
  GatherOp lookup;
  OpBuilder builder;
  Location loc;
};

} // namespace

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Bytes of so many elements of `value`'s type.
static double getBytes(Value value, int64_t elements) {
  return static_cast<double>(elements) *
         llvm::divideCeil(getType(value).getElementTypeBitWidth(), 8);
}

/// The rows of a table that `gather`'s parts are held of: one part.
static int64_t getOwnRows(AllGatherOp gather) {
  return getType(gather.getInputs()[0]).getDimSize(0);
}

/// Whether `slice` leaves out nothing but last rows.
static bool takesFirstRows(SliceOp slice) {
  RankedTensorType type = getType(slice.getInput());
  return llvm::all_of(slice.getStarts(), [](int64_t at) { return at == 0; }) &&
         llvm::all_of(slice.getStrides(), [](int64_t by) { return by == 1; }) &&
         slice.getLimits().drop_front() == type.getShape().drop_front();
}

/// Collects who reads `value`, the table or a view of its first rows.
static void findReaders(GatheredTable &table, Value value) {
  for (Operation *user : value.getUsers()) {
    auto lookup = dyn_cast<GatherOp>(user);
    if (lookup && lookup.getInput() == value && lookup.getIndices() != value &&
        lookup.getAxis() == 0)
      table.lookups.push_back(lookup);
    else
      table.hasOtherReader = true;
  }
}

/// The table that `gather` puts together, with its readers.
static GatheredTable findTable(AllGatherOp gather) {
  GatheredTable table;
  table.gather = gather;
  Value whole = gather.getOutputs()[0];
  table.rows = getType(whole).getRank() ? getType(whole).getDimSize(0) : 0;
  for (Operation *user : whole.getUsers())
    if (auto slice = dyn_cast<SliceOp>(user); slice && takesFirstRows(slice))
      table.views.push_back(slice);
  if (table.views.empty()) {
    findReaders(table, whole);
    return table;
  }
  // All views are of the same rows, and nothing else reads what fills parts.
  table.rows = getType(table.views[0]).getDimSize(0);
  table.hasOtherReader = !llvm::all_of(whole.getUsers(), [&](Operation *user) {
    return llvm::is_contained(table.views, user) &&
           getType(user->getResult(0)).getDimSize(0) == table.rows;
  });
  for (SliceOp view : table.views)
    findReaders(table, view.getResult());
  return table;
}

/// Whether rows can be exchanged in place of the table.
static bool hasForm(const GatheredTable &table) {
  AllGatherOp gather = table.gather;
  if (table.hasOtherReader || gather.getDim() != 0 ||
      gather.getAxes().size() != 1 ||
      !getType(gather.getOutputs()[0]).hasStaticShape() ||
      getOwnRows(gather) == 0 || table.rows == 0)
    return false;
  return llvm::all_of(table.lookups, [&](GatherOp lookup) {
    RankedTensorType indices = getType(lookup.getIndices());
    if (lookup->getBlock() != gather->getBlock() || !indices.hasStaticShape() ||
        getType(lookup).getNumElements() == 0)
      return false;
    // Rows of the table, and those that the ranks look up, are counted in the
    // indices' type.
    int64_t most = std::max(getOwnRows(gather), indices.getNumElements());
    return indices.getElementType().isInteger(64) ||
           table.ranks * most < std::numeric_limits<int32_t>::max();
  });
}

/// Beside what is sent, rows are read and written for all ranks.
void ExchangeLookups::price(GatheredTable &table) const {
  CommModel comm(model->getDevice());
  CommGroup group =
      getCommGroup(cast<CommunicationOpInterface>(table.gather.getOperation()));
  Value whole = table.gather.getOutputs()[0];
  table.gatheredUs =
      comm.predict(CommOp::AllGather,
                   getBytes(whole, getType(whole).getNumElements()), group)
          .us;
  for (GatherOp lookup : table.lookups) {
    Value indices = lookup.getIndices();
    double rowBytes =
        getBytes(lookup, table.ranks * getType(lookup).getNumElements());
    table.exchangedUs +=
        comm.predict(CommOp::AllGather,
                     getBytes(indices,
                              table.ranks * getType(indices).getNumElements()),
                     group)
            .us +
        comm.predict(CommOp::AllToAll, rowBytes, group).us;
    KernelWork work;
    work.memoryBytes = 2 * rowBytes;
    work.blocks = static_cast<double>(
        llvm::divideCeil(table.ranks * getType(lookup).getNumElements(),
                         model->getDevice().blockElements));
    table.exchangedUs += model->getMicroseconds(work);
  }
}

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

Value LookupRewriter::createSplat(int64_t number, RankedTensorType type) {
  return create<ConstantOp>(
      type, DenseElementsAttr::get(
                type, builder.getIntegerAttr(type.getElementType(), number)));
}

Value LookupRewriter::clampToTable(Value indices) {
  RankedTensorType type = getType(indices);
  return create<ClampOp>(type, indices, createSplat(0, type),
                         createSplat(table.rows - 1, type));
}

/// `indices` counted from this rank's first row.
Value LookupRewriter::countFromOwn(Value indices) {
  RankedTensorType type = getType(indices);
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  AllGatherOp gather = table.gather;
  Value first =
      create<AxisIndexOp>(scalar, gather.getMeshAttr(), gather.getAxesAttr());
  first = create<MulOp>(scalar, first, createSplat(getOwnRows(gather), scalar));
  if (!type.getElementType().isInteger(64))
    first = create<CastOp>(scalar.clone(type.getElementType()), first);
  first = create<BroadcastOp>(type, first, builder.getDenseI64ArrayAttr({}));
  return create<SubOp>(type, indices, first);
}

/// What this rank's rows have for `indices`; what is cast for the gather alone
/// is looked up before.
Value LookupRewriter::findRows(Value indices) {
  Value own = table.gather->getOperand(0);
  auto narrowed = own.getDefiningOp<CastOp>();
  if (narrowed && !narrowed->hasOneUse())
    narrowed = {};
  Value rows = narrowed ? narrowed.getInput() : own;
  SmallVector<int64_t> shape(getType(rows).getShape());
  shape[0] = getType(indices).getDimSize(0);
  Value found = create<GatherOp>(getType(rows).clone(shape), rows, indices,
                                 builder.getI64IntegerAttr(0),
                                 builder.getI64IntegerAttr(0));
  if (narrowed)
    found = create<CastOp>(getType(own).clone(shape), found);
  return found;
}

/// One of `operand` among the table's ranks, whose result has so many rows.
Value LookupRewriter::createCollective(StringRef name, Value operand,
                                       int64_t rows, ArrayRef<StringRef> dims) {
  SmallVector<int64_t> shape(getType(operand).getShape());
  shape[0] = rows;
  OperationState state(loc, name, {operand}, {getType(operand).clone(shape)});
  for (StringRef dim : dims)
    state.addAttribute(dim, builder.getI64IntegerAttr(0));
  for (StringRef kept : {"mesh", "axes"})
    state.addAttribute(kept, table.gather->getAttr(kept));
  return builder.create(state)->getResult(0);
}

void LookupRewriter::run() {
  Value indices = lookup.getIndices();
  int64_t number = getType(indices).getNumElements();
  RankedTensorType type = getType(indices).clone({number});
  if (getType(indices) != type)
    indices = create<ReshapeOp>(type, indices);
  Value all = createCollective(AllGatherOp::getOperationName(), indices,
                               table.ranks * number, {"dim"});
  Value found = findRows(countFromOwn(clampToTable(all)));
  Value received =
      createCollective(AllToAllOp::getOperationName(), found,
                       table.ranks * number, {"split_dim", "concat_dim"});
  // Row i from rank r is at r * number + i.
  Value owner = create<DivOp>(type, clampToTable(indices),
                              createSplat(getOwnRows(table.gather), type));
  Value at = create<MulOp>(type, owner, createSplat(number, type));
  at = create<AddOp>(type, at,
                     create<IotaOp>(type, builder.getI64IntegerAttr(0),
                                    builder.getI64IntegerAttr(1)));
  SmallVector<int64_t> shape(getType(received).getShape());
  shape[0] = number;
  Value taken = create<GatherOp>(getType(received).clone(shape), received, at,
                                 builder.getI64IntegerAttr(0),
                                 builder.getI64IntegerAttr(0));
  if (taken.getType() != lookup.getType())
    taken = create<ReshapeOp>(lookup.getType(), taken);
  lookup.getResult().replaceAllUsesWith(taken);
  lookup.erase();
}

static void rewrite(GatheredTable &table) {
  Value own = table.gather.getInputs()[0];
  for (GatherOp lookup : table.lookups)
    LookupRewriter(table, lookup).run();
  for (SliceOp view : table.views)
    view.erase();
  table.gather.erase();
  if (Operation *source = own.getDefiningOp();
      isa_and_present<CastOp>(source) && source->use_empty())
    source->erase();
}

LogicalResult ExchangeLookups::decide(FunctionOpInterface function,
                                      Block &block) {
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::ExchangeLookups);
  declareRewrite(function, info.id, info.text);
  for (AllGatherOp op : llvm::to_vector(block.getOps<AllGatherOp>())) {
    if (op.getInputs().size() != 1)
      continue;
    GatheredTable table = findTable(op);
    table.ranks =
        getCommGroup(cast<CommunicationOpInterface>(op.getOperation())).size;
    if (table.lookups.empty() || table.ranks < 2)
      continue;
    std::optional<FusionRule> refusal;
    if (!hasForm(table)) {
      refusal = FusionRule::LookupForm;
    } else {
      price(table);
      if (table.exchangedUs >= table.gatheredUs)
        refusal = FusionRule::LookupProfit;
    }
    tellSentInPlace(op, function.getName(), FusionRule::ExchangeLookups,
                    refusal, table.exchangedUs, table.gatheredUs);
    if (!refusal)
      rewrite(table);
  }
  return success();
}

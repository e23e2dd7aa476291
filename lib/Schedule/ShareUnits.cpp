//===- ShareUnits.cpp - Multiprocessors for NCCL beside products ----------===//
//
// One walk in list order over the compute stream: a region with a collective of
// NCCL is open from where it starts to its await, and what a library computes
// meanwhile leaves as many multiprocessors as the widest open one needs.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/PricedPass.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/IR/Remarks.h"

namespace fusion {
#define GEN_PASS_DEF_SHAREUNITS
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// What a collective on a link with `units` may take; 0: it has no such link,
/// or copy engines carry it.
static int64_t getUnits(Operation &op, const CommModel &comms) {
  auto communication = dyn_cast<CommunicationOpInterface>(op);
  if (!communication || getTransport(&op) != Transport::Nccl)
    return 0;
  CommGroup group = getCommGroup(communication);
  return group.size < 2 ? 0 : comms.getUnits(group);
}

/// Whether a library multiplies matrices for `group`, at once or in a batch.
static bool isProduct(GroupOp group) {
  auto call = group->getAttrOfType<DictionaryAttr>("fusion.call");
  auto op = call ? call.getAs<StringAttr>("op") : StringAttr();
  return op && op.getValue() == "matmul";
}

namespace {

struct ShareUnits final : PricedPass<fusion::impl::ShareUnitsBase<ShareUnits>> {
  using PricedPass::PricedPass;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(function);
    const DeviceModel &gpu = model->getDevice();
    if (!main || !llvm::hasSingleElement(main.getBody()) || !gpu.isGpu)
      return markAllAnalysesPreserved();
    CommModel comms(gpu);
    Builder builder(&getContext());
    llvm::SmallDenseMap<Value, int64_t> open; // future -> multiprocessors
    int64_t products = 0, widest = 0;
    auto mark = [&](Operation &op) {
      int64_t units = getUnits(op, comms);
      if (units > 0)
        op.setAttr(kUnitsAttr, builder.getI64IntegerAttr(units));
      widest = std::max(widest, units);
      return units;
    };
    for (Operation &op : main.getBody().front()) {
      if (auto async = dyn_cast<AsyncOp>(op)) {
        int64_t units = 0;
        for (Operation &inner : async.getBody().front()) {
          units = std::max(units, mark(inner));
          // What a region awaits may run until that region is awaited.
          if (auto await = dyn_cast<AwaitOp>(inner)) {
            units = std::max(units, open.lookup(await.getFuture()));
            open.erase(await.getFuture());
          }
        }
        if (units > 0)
          open[async.getFuture()] = units;
      } else if (auto await = dyn_cast<AwaitOp>(op)) {
        open.erase(await.getFuture());
      } else if (auto group = dyn_cast<GroupOp>(op);
                 group && !open.empty() && isProduct(group)) {
        int64_t most = 0;
        for (const auto &entry : open)
          most = std::max(most, entry.second);
        if (most >= gpu.units)
          continue;
        NamedAttrList call(group->getAttrOfType<DictionaryAttr>("fusion.call"));
        call.set(kCallUnits, builder.getI64IntegerAttr(gpu.units - most));
        group->setAttr("fusion.call", call.getDictionary(&getContext()));
        ++products;
      } else {
        mark(op);
      }
    }
    if (widest > 0)
      remark::passed(main.getLoc(), remark::RemarkOpts::name("share-units")
                                        .category("fusion")
                                        .function(main.getSymName()))
          << remark::add("products leave multiprocessors to NCCL beside them")
          << remark::metric("Products", products)
          << remark::metric("Multiprocessors", widest);
  }
};

} // namespace

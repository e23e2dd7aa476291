//===- PrintCosts.cpp - Writes predicted times as JSON --------------------===//
//
// What the cost model says of each kernel of a module whose groups are formed,
// and of what: a tool that holds the model against measured times needs no
// model of its own. Any device file will do, not only the one that the groups
// were formed for.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/PricedPass.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/ErrorKind.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

namespace fusion {
#define GEN_PASS_DEF_PRINTCOSTS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

struct Priced {
  std::string kind;
  KernelWork work;
  double us;
};

struct PrintCosts : PricedPass<fusion::impl::PrintCostsBase<PrintCosts>> {
  using PricedPass::PricedPass;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::json::OStream out(os, /*IndentSize=*/1);
    bool isGood = true;
    out.object([&] {
      out.attribute("device", model->getDevice().name);
      out.attributeArray("functions", [&] {
        for (auto function : getOperation().getOps<func::FuncOp>())
          if (!function.isExternal())
            isGood &= succeeded(write(function, out));
      });
    });
    os << '\n';
    if (!isGood)
      return signalPassFailure();
    if (llvm::Error error =
            llvm::writeToOutput(file, [&](llvm::raw_ostream &output) {
              output << text;
              return llvm::Error::success();
            })) {
      emitError(getOperation(), ErrorKind::Resources)
          << "cannot write the costs '" << file
          << "': " << llvm::toString(std::move(error));
      signalPassFailure();
    }
  }

private:
  LogicalResult write(func::FuncOp function, llvm::json::OStream &out) const;
};

} // namespace

/// The kernels of a graph in order.
static std::vector<Priced> price(Block &block, const FusionLegality &legality,
                                 const CostModel &model) {
  std::vector<Priced> result;
  for (Operation &op : block.without_terminator()) {
    KernelWork work;
    std::string kind;
    if (auto group = dyn_cast<GroupOp>(op)) {
      work = computeKernelWork(group, legality, model.getDevice());
      kind = stringifyGroupKind(group.getKind()).str();
    } else if (OpFamily family = getOpFamily(&op);
               family == OpFamily::Source || family == OpFamily::View ||
               family == OpFamily::Outside) {
      continue;
    } else {
      work = computeKernelWork(
          {&op}, [](Operation *) { return true; }, legality, model.getDevice());
      kind = op.getName().stripDialect().str();
    }
    result.push_back({std::move(kind), work, model.getMicroseconds(work)});
  }
  return result;
}

/// A plugin's model may give what has no place in JSON.
static llvm::json::Value getFinite(double us) {
  return std::isfinite(us) ? llvm::json::Value(us) : nullptr;
}

LogicalResult PrintCosts::write(func::FuncOp function,
                                llvm::json::OStream &out) const {
  FailureOr<FusionLegality> legality =
      FusionLegality::create(function, GroupLimits());
  if (failed(legality))
    return failure();
  std::vector<Priced> kernels =
      price(function.getFunctionBody().front(), *legality, *model);
  double us = model->getDevice().runUs;
  for (const Priced &kernel : kernels)
    us += kernel.us;
  out.object([&] {
    out.attribute("name", function.getName());
    out.attribute("us", getFinite(us));
    out.attributeArray("kernels", [&] {
      for (const Priced &kernel : kernels)
        out.object([&] {
          const KernelWork &work = kernel.work;
          out.attribute("kind", kernel.kind);
          out.attribute("class", getKernelClassName(work.kernel));
          out.attribute("us", getFinite(kernel.us));
          out.attribute("memory_bytes", work.memoryBytes);
          out.attribute("cached_bytes", work.cachedBytes);
          out.attribute("reread_bytes", work.rereadBytes);
          out.attribute("spilled_bytes", work.spilledBytes);
          out.attribute("blocks", work.blocks);
          out.attributeObject("flops", [&] {
            for (auto [i, amount] : llvm::enumerate(work.flops))
              if (amount != 0)
                out.attribute(getArithmeticName(static_cast<Arithmetic>(i)),
                              amount);
          });
        });
    });
  });
  return success();
}

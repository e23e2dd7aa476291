//===- CudaFallback.cpp - Kernels for what a library lacks ----------------===//
//
// A call of a library has a kernel beside it, for machines that lack the
// library or whose library lacks the call. It is made of the same group, by the
// emitter of independent elements: right wherever there is a GPU, and slow.
//
//===----------------------------------------------------------------------===//
#include "../Emitters.h"
#include "LowerCudaKernels.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

DictionaryAttr codegen::withFallback(DictionaryAttr call, func::FuncOp kernel) {
  NamedAttrList entries(call);
  entries.set("fallback", kernel.getSymNameAttr());
  entries.set("fallbackUnits", kernel->getAttr("fusion.units"));
  entries.set("fallbackGrain", kernel->getAttr("fusion.grain"));
  return entries.getDictionary(call.getContext());
}

DictionaryAttr codegen::withoutFallback(DictionaryAttr call) {
  if (!call)
    return call;
  NamedAttrList entries(call);
  for (StringRef name : {"fallback", "fallbackUnits", "fallbackGrain"})
    entries.erase(name);
  return entries.getDictionary(call.getContext());
}

/// Adds the blocks of `kernel` at the largest batch, not fewer than it has;
/// false where they are more than a launch takes. Any number fits if the batch
/// is open: then the module knows no largest one.
static bool addBlocks(func::FuncOp kernel, int64_t &blocks) {
  auto units = kernel->getAttrOfType<ExtentAttr>("fusion.units");
  uint64_t grain = kernel->getAttrOfType<IntegerAttr>("fusion.grain").getInt();
  auto most =
      kernel->getParentOp()->getAttrOfType<IntegerAttr>(codegen::kMaxBatchAttr);
  int64_t grown = 0;
  return !llvm::MulOverflow(
             int64_t(llvm::divideCeil(uint64_t(units.getScale()), grain)),
             most ? most.getInt() : 0, grown) &&
         !llvm::AddOverflow(blocks, grown, blocks) &&
         !llvm::AddOverflow(
             blocks,
             int64_t(llvm::divideCeil(uint64_t(units.getBase()), grain)),
             blocks) &&
         blocks <= kMostBlocks;
}

/// A kernel on the operands of the call of `group`, those from `target` on
/// written, that computes `stores`; null, with the reason, where no emitter
/// takes it.
static func::FuncOp emitPart(ModuleOp kernels, StringRef name, GroupOp group,
                             const LibraryPlan &plan,
                             ArrayRef<int64_t> operands, unsigned target,
                             ArrayRef<std::pair<Value, unsigned>> stores,
                             const BatchExtents &extents, bool isFast,
                             const Twine &description, std::string &reason) {
  SmallVector<std::pair<unsigned, unsigned>> inPlace;
  KernelBuilder k(kernels, name, operands.size(), group.getLoc(), extents,
                  Machine::Cuda);
  k.isFast = isFast;
  if (plan.inPlace) {
    auto [output, input] = *plan.inPlace;
    inPlace.push_back({output, input});
    k.allowInPlace(target, llvm::find(operands, input) - operands.begin());
  }
  k.sealAliases();
  describeOperands(k, group, operands, stores, inPlace);
  BodyEvaluator evaluator(k, group.getBodyBlock());
  for (unsigned i = 0; i < target; ++i)
    evaluator.bindOperand(group.getBodyBlock()->getArgument(operands[i]), i);
  SetVector<Operation *> ops;
  BackwardSliceOptions options;
  options.inclusive = true;
  (void)getBackwardSlice(stores.front().first, &ops, options);
  KernelTask task{k, evaluator, group, llvm::to_vector(stores),
                  llvm::to_vector(ops)};
  std::optional<KernelShape> shape = isa<AttentionGradOp>(plan.root)
                                         ? emitCudaAttentionGrad(task, reason)
                                         : emitCudaLoop(task, reason);
  if (!shape) {
    k.function.erase();
    return nullptr;
  }
  k.finish(shape->units, shape->grain, shape->threads, description);
  return k.function;
}

/// A product and the gradient of a bias: other elements, so two parts of one
/// launch, the second of which computes again what it sums.
static func::FuncOp emitParts(ModuleOp kernels, StringRef name, GroupOp group,
                              ArrayRef<func::FuncOp> parts,
                              const Twine &description, std::string &reason) {
  SmallVector<HorizontalMember> members;
  for (func::FuncOp part : parts) {
    auto units = part->getAttrOfType<ExtentAttr>("fusion.units");
    members.push_back(
        {FlatSymbolRefAttr::get(part.getSymNameAttr()), /*firstOperand=*/0,
         Extent{units.getScale(), units.getBase()},
         part->getAttrOfType<IntegerAttr>("fusion.grain").getInt(),
         part->getAttrOfType<IntegerAttr>("fusion.threads").getInt()});
  }
  if (succeeded(emitCudaHorizontalKernel(kernels, name, group.getLoc(), members,
                                         description)))
    return kernels.lookupSymbol<func::FuncOp>(name);
  reason = "it needs more blocks than a launch has";
  return nullptr;
}

func::FuncOp codegen::emitCudaFallback(ModuleOp kernels, StringRef name,
                                       GroupOp group, const LibraryPlan &plan,
                                       const BatchExtents &extents, bool isFast,
                                       const Twine &description) {
  auto call = cast<DictionaryAttr>(plan.call);
  ArrayRef<int64_t> operands =
      call.getAs<DenseI64ArrayAttr>("operands").asArrayRef();
  SmallVector<Value> written{plan.chained};
  llvm::append_range(written, plan.root->getResults().drop_front());
  if (plan.sum)
    written.push_back(plan.sum);
  unsigned target = operands.size() - written.size();
  SmallVector<std::pair<Value, unsigned>> stores;
  for (auto [i, value] : llvm::enumerate(written))
    stores.push_back({value, target + unsigned(i)});
  std::string reason;
  auto emit = [&](const Twine &part,
                  ArrayRef<std::pair<Value, unsigned>> stores) {
    return emitPart(kernels, (name + part).str(), group, plan, operands, target,
                    stores, extents, isFast, description, reason);
  };
  func::FuncOp kernel;
  SmallVector<func::FuncOp> parts;
  if (plan.sum) {
    for (const std::pair<Value, unsigned> &store : stores)
      if (func::FuncOp made =
              emit(store.first == plan.sum ? ".sum" : ".result", store))
        parts.push_back(made);
    if (parts.size() == stores.size())
      kernel = emitParts(kernels, name, group, parts, description, reason);
  } else {
    kernel = emit("", stores);
  }
  if (int64_t blocks = 0; kernel && !addBlocks(kernel, blocks)) {
    reason = "it needs more blocks than a launch has";
    kernel.erase();
    kernel = nullptr;
  }
  auto remarkOptions =
      remark::RemarkOpts::name("emit-fallback").category("fusion");
  if (!kernel) {
    for (func::FuncOp part : parts)
      part.erase();
    remark::missed(group.getLoc(), remarkOptions) << remark::reason(
        "no kernel stands in for the library's call: {0}", reason);
    return nullptr;
  }
  remark::passed(group.getLoc(), remarkOptions) << remark::reason(
      "kernel {0} runs where the library lacks the call", name.str());
  return kernel;
}

func::FuncOp codegen::emitCudaFallbacks(ModuleOp kernels, StringRef name,
                                        GroupOp launch,
                                        ArrayRef<func::FuncOp> members,
                                        const Twine &description) {
  SmallVector<HorizontalMember> parts;
  int64_t firstOperand = 0, blocks = 0;
  for (func::FuncOp member : members) {
    if (!addBlocks(member, blocks))
      return nullptr;
    auto number = [&](StringRef key) {
      return member->getAttrOfType<IntegerAttr>(key).getInt();
    };
    auto units = member->getAttrOfType<ExtentAttr>("fusion.units");
    parts.push_back({FlatSymbolRefAttr::get(member.getSymNameAttr()),
                     firstOperand, Extent{units.getScale(), units.getBase()},
                     number("fusion.grain"), number("fusion.threads")});
    firstOperand += number("fusion.operands");
  }
  if (firstOperand > kMostOperands)
    return nullptr;
  if (failed(emitCudaHorizontalKernel(kernels, name, launch.getLoc(), parts,
                                      description)))
    return nullptr;
  return kernels.lookupSymbol<func::FuncOp>(name);
}

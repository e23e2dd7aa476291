//===- CudaProbe.cpp - Registers and spills of a group on a GPU -----------===//
//
// See CudaProbe.h. A group is compiled in a context of its own: the passes that
// ask run side by side, and what happens here must not be told as part of the
// compilation.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/CudaProbe.h"

#include "fusion/Analysis/KernelResources.h"
#include "fusion/Codegen/Passes.h"
#include "fusion/IR/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace fusion;

/// Percent of the registers a thread can have from which on an estimate is not
/// trusted: it is good to a fifth on reference kernels, and no group was seen
/// to take twice of what it said.
static constexpr int64_t kNearLimit = 50;

/// A module that holds nothing but `group`.
static std::string printAlone(GroupOp group, StringRef fp) {
  OpBuilder builder(group.getContext());
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  (*module)->setAttr(kTargetAttr, builder.getStringAttr("cuda"));
  (*module)->setAttr(kFpAttr, builder.getStringAttr(fp));
  builder.setInsertionPointToStart(module->getBody());
  auto function = func::FuncOp::create(
      builder, loc, "main",
      builder.getFunctionType(group.getInputs().getTypes(),
                              group.getOutputs().getTypes()));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  IRMapping mapping;
  // An input that is read twice stays one value.
  for (auto [input, argument] :
       llvm::zip(group.getInputs(), block->getArguments()))
    if (!mapping.contains(input))
      mapping.map(input, argument);
  Operation *copy = builder.clone(*group, mapping);
  func::ReturnOp::create(builder, loc, copy->getResults());
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os, OpPrintingFlags().useLocalScope().printGenericOpForm());
  return text;
}

namespace {

class CudaProbe : public KernelProbe {
public:
  CudaProbe(const DeviceCodeOptions &options, StringRef fp)
      : options(options), fp(fp.str()) {
    DialectRegistry registry;
    registry.insert<FusionDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  bool isNeeded(const KernelResources &estimate,
                const DeviceModel &device) const override {
    return 100 * estimate.registersPerThread >
           kNearLimit * getRegisterCap(estimate, device);
  }

protected:
  std::optional<ProbeResult> compile(GroupOp group) override;

private:
  DeviceCodeOptions options;
  std::string fp;
  MLIRContext context{MLIRContext::Threading::DISABLED};
};

} // namespace

std::optional<ProbeResult> CudaProbe::compile(GroupOp group) {
  // What can't be compiled alone is told where the module is compiled.
  ScopedDiagnosticHandler silent(&context,
                                 [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(printAlone(group, fp), &context);
  if (!module)
    return std::nullopt;
  PassManager manager(&context);
  CodegenOptions codegen;
  codegen.target = "cuda";
  codegen.fp = fp;
  buildCodegenPipeline(manager, codegen);
  if (failed(manager.run(*module)))
    return std::nullopt;
  auto kernels = module->lookupSymbol<ModuleOp>("kernels");
  if (!kernels)
    return std::nullopt;
  llvm::Expected<DeviceCode> code = compileDeviceCode(kernels, options);
  if (!code) {
    llvm::consumeError(code.takeError());
    return std::nullopt;
  }
  if (code->usage.size() != 1)
    return std::nullopt;
  const KernelUsage &usage = code->usage.begin()->second;
  ProbeResult result;
  result.registersPerThread = usage.registers;
  result.spillBytes = usage.spillBytes;
  result.sharedBytes = usage.sharedBytes;
  result.binaryBytes = code->cubin.size();
  return result;
}

std::unique_ptr<KernelProbe>
fusion::createCudaProbe(const DeviceCodeOptions &options, StringRef fp) {
  if (options.ptxas.empty())
    return nullptr;
  return std::make_unique<CudaProbe>(options, fp);
}

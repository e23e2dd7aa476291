//===- CodegenPipeline.cpp - The codegen phase ----------------------------===//
//
// Which passes make the phase, in which order.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/NativeCode.h"
#include "fusion/Codegen/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fusion;

void fusion::buildCodegenPipeline(OpPassManager &manager,
                                  const CodegenOptions &options) {
  LayOutWeightsOptions weights;
  weights.parameterFolder = options.parameterFolder;
  manager.addPass(createLayOutWeights(weights));
  EmitKernelsOptions emit;
  emit.target = options.target;
  emit.fp = options.fp;
  manager.addPass(createEmitKernels(emit));
  LowerKernelsOptions lower;
  lower.target = options.target;
  llvm::Expected<CpuTarget> target = resolveCpu(options.cpu);
  if (target)
    lower.features = llvm::join(target->features, ",");
  else
    llvm::consumeError(target.takeError()); // reported where code is made
  manager.addPass(createLowerKernels(lower));
}

namespace {
struct PhaseOptions : PassPipelineOptions<PhaseOptions> {
  Option<std::string> cpu{*this, "cpu",
                          llvm::cl::desc("processor by LLVM's name, or native"),
                          llvm::cl::init("native")};
  Option<std::string> target{*this, "target", llvm::cl::desc("cpu or cuda"),
                             llvm::cl::init("cpu")};
  Option<std::string> fp{*this, "fp", llvm::cl::desc("strict or fast"),
                         llvm::cl::init("strict")};
};
} // namespace

void fusion::registerCodegenPipelines() {
  PassPipelineRegistration<PhaseOptions>(
      "fusion-codegen", "The codegen phase: every group becomes a kernel",
      [](OpPassManager &manager, const PhaseOptions &options) {
        buildCodegenPipeline(
            manager, CodegenOptions{options.cpu, options.target, options.fp});
      });
}

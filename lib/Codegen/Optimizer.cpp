//===- Optimizer.cpp - LLVM's passes over kernels -------------------------===//
//
// The default pipeline but for VectorCombine. Where that makes a vector op
// scalar and an equal scalar is there already, it gives that one the vector
// op's flags (LLVM 22, scalarizeOpOrCmp): an `lshr` that was not exact becomes
// so, and later passes drop the mask that clears the bits it was to shift out.
//
//===----------------------------------------------------------------------===//
#include "Optimizer.h"

#include "llvm/IR/PassInstrumentation.h"

using namespace llvm;

void fusion::codegen::optimizeModule(
    Module &module, TargetMachine &machine, const PipelineTuningOptions &tuning,
    function_ref<void(FunctionAnalysisManager &)> add) {
  PassInstrumentationCallbacks callbacks;
  callbacks.registerShouldRunOptionalPassCallback(
      [](StringRef pass, Any) { return pass != "VectorCombinePass"; });
  PassBuilder builder(&machine, tuning, std::nullopt, &callbacks);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  if (add)
    add(functions);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3)
      .run(module, modules);
}

//===- CodegenPipeline.cpp - The codegen phase ----------------------------===//
//
// Which passes make the phase, in which order.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/NativeCode.h"
#include "fusion/Codegen/Passes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fusion;

void fusion::buildCodegenPipeline(OpPassManager &manager,
                                  const CodegenOptions &options) {
  manager.addPass(createEmitKernels());
  LowerKernelsOptions lower;
  llvm::Expected<CpuTarget> target = resolveCpu(options.cpu);
  if (target)
    lower.features = llvm::join(target->features, ",");
  else
    llvm::consumeError(target.takeError()); // reported where code is made
  manager.addPass(createLowerKernels(lower));
}

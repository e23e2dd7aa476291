//===- LimitTrial.cpp - What a module needs without a limit ---------------===//
//
// The passes that heed a limit estimate what a choice takes; only the planned
// arena is the truth. So a copy of the module, in a context of its own where
// nobody listens, goes through the phases as if there were no limit.
//
//===----------------------------------------------------------------------===//
#include "LimitTrial.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace fusion;

std::optional<uint64_t>
fusion::findUnlimitedBytes(ModuleOp module, const CompileOptions &options) {
  CompileOptions tried = options;
  tried.memoryLimit = 0;
  tried.startAt = Phase::Fuse;
  tried.stopAfter = Phase::Schedule;
  tried.simulatedDevice.clear();
  tried.emitPlan.clear();
  tried.why.clear();
  tried.dumpDirectory.clear();
  tried.planDigest = tried.verifyFusion = false;
  tried.afterPhase = nullptr;
  llvm::erase_if(tried.runBefore, [](const auto &entry) {
    return entry.first < Phase::Fuse || entry.first > Phase::Schedule;
  });

  MLIRContext &outer = *module.getContext();
  MLIRContext context(outer.getDialectRegistry(),
                      MLIRContext::Threading::DISABLED);
  if (outer.isMultithreadingEnabled())
    context.setThreadPool(outer.getThreadPool());
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  std::string text;
  llvm::raw_string_ostream stream(text);
  // Names of ops are locations, and plans speak of them.
  module.print(stream, OpPrintingFlags().enableDebugInfo());
  OwningOpRef<ModuleOp> copy = parseSourceString<ModuleOp>(text, &context);
  if (!copy)
    return std::nullopt;
  text = std::string(); // with large constants, twice their bytes
  CompileStatus status = runPhases(*copy, tried);
  // A crash is reported where it happens again.
  if (status != CompileStatus::Ok && !tried.reproducer.empty())
    llvm::sys::fs::remove(tried.reproducer);
  if (status != CompileStatus::Ok)
    return std::nullopt;
  for (auto program : copy->getOps<ProgramOp>())
    return program.getPeak();
  return std::nullopt;
}

//===- VerifySchedule.cpp - The runtime's proof, at compile time ----------===//
//
// One proof, not two: the program is translated to the runtime's plain structs
// and checked by the code that checks a module when it is loaded.
//
//===----------------------------------------------------------------------===//
#include "fusion/Schedule/Passes.h"

#include "fusion/Analysis/RuntimeProgram.h"
#include "fusion/IR/FusionDialect.h"

#include "ModuleData.h"
#include "VerifySchedule.h"

#include "mlir/IR/BuiltinOps.h"

namespace fusion {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

struct VerifySchedule final : fusion::impl::VerifyScheduleBase<VerifySchedule> {
  using Base::Base;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>()) {
      llvm::StringMap<uint32_t> kernels;
      program.walk([&](Operation *op) {
        forEachKernel(op, [&](StringRef name) {
          kernels.try_emplace(name, kernels.size());
        });
      });
      FailureOr<rt::Program> plain = buildRuntimeProgram(program, kernels);
      if (failed(plain))
        return signalPassFailure();
      rt::Status status = rt::verifySchedule(*plain);
      if (!status.ok()) {
        program.emitError(status.message());
        return signalPassFailure();
      }
    }
    markAllAnalysesPreserved();
  }
};

} // namespace

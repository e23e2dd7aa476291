//===- PassCheck.cpp - A user's passes, checked by evaluation -------------===//
//
// See PassCheck.h. The module is copied before a pass; what the pass did not
// change is not evaluated. Other roundings are told from other values by their
// size alone: a pass may replace a division by a product, but not an operand by
// another.
//
//===----------------------------------------------------------------------===//
#include "PassCheck.h"

#include "GeneratedInputs.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/IR/Parameters.h"
#include "fusion/Pipelines/PassWatch.h"
#include "fusion/Reference/Compare.h"
#include "fusion/Reference/Evaluator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using reference::Tensor;

static constexpr uint64_t kSeed = 1;

/// Four times what docs/tolerances.md gives a formula of several roundings, of
/// the largest element.
static reference::Criterion getCriterion(const Tensor &want) {
  double relative = 0, absolute = 0;
  switch (want.getKind()) {
  case reference::ElementKind::F64:
    relative = 1e-10, absolute = 1e-12;
    break;
  case reference::ElementKind::F32:
    relative = 5.2e-6, absolute = 1e-5;
    break;
  case reference::ElementKind::F16:
    relative = 4e-3, absolute = 1e-5;
    break;
  case reference::ElementKind::BF16:
    relative = 1.6e-2, absolute = 1e-5;
    break;
  default:
    return reference::Criterion::makeBits();
  }
  double largest = 0;
  for (int64_t i = 0; i < want.getNumElements(); ++i)
    if (double value = std::abs(want.getFloat(i)); std::isfinite(value))
      largest = std::max(largest, value);
  return reference::Criterion::makeRelative(
      0, 4 * (absolute + relative * largest));
}

namespace {

class PassCheck : public PassInstrumentation {
public:
  PassCheck(StringRef parameterFolder, std::optional<llvm::StringSet<>> names)
      : parameterFolder(parameterFolder), names(std::move(names)) {}

  void runBeforePass(Pass *pass, Operation *op) override {
    if (isChecked(pass))
      before.push_back(getModule(op).clone());
  }
  void runAfterPassFailed(Pass *pass, Operation *) override {
    if (isChecked(pass))
      before.pop_back();
  }
  void runAfterPass(Pass *pass, Operation *op) override {
    if (!isChecked(pass))
      return;
    OwningOpRef<ModuleOp> copy = std::move(before.back());
    before.pop_back();
    ModuleOp module = getModule(op);
    if (OperationEquivalence::isEquivalentTo(
            *copy, module, OperationEquivalence::IgnoreLocations))
      return;
    for (auto function : copy->getOps<func::FuncOp>())
      if (function.isPublic() && !function.isExternal())
        compare(function, module, *pass);
  }

private:
  bool isChecked(Pass *pass) const {
    StringRef name = pass->getArgument();
    return !name.empty() && (!names || names->contains(name));
  }
  static ModuleOp getModule(Operation *op) {
    while (Operation *parent = op->getParentOp())
      op = parent;
    return cast<ModuleOp>(op);
  }
  void compare(func::FuncOp before, ModuleOp module, const Pass &pass);
  /// False after an error.
  bool compareBatch(func::FuncOp before, func::FuncOp now, int64_t batch,
                    const Pass &pass);

  std::string parameterFolder;
  std::optional<llvm::StringSet<>> names;
  /// Copies of the module before the passes that run, outermost first.
  SmallVector<OwningOpRef<ModuleOp>, 1> before;
  /// Passes whose roundings were told.
  llvm::StringSet<> warned;
};

} // namespace

void PassCheck::compare(func::FuncOp before, ModuleOp module,
                        const Pass &pass) {
  auto now = module.lookupSymbol<func::FuncOp>(before.getSymName());
  if (!now || now.getFunctionType() != before.getFunctionType()) {
    emitError(now ? now.getOperation() : module.getOperation(),
              ErrorKind::Check)
        << describePass(pass) << " removed @" << before.getSymName()
        << " or changed its type: what it computes can't be compared";
    return;
  }
  if (OperationEquivalence::isEquivalentTo(
          before, now, OperationEquivalence::IgnoreLocations))
    return;
  for (int64_t batch : getBatches(before))
    if (!compareBatch(before, now, batch, pass))
      return;
}

bool PassCheck::compareBatch(func::FuncOp before, func::FuncOp now,
                             int64_t batch, const Pass &pass) {
  FailureOr<std::vector<Tensor>> inputs = generateInputs(before, batch, kSeed);
  if (failed(inputs))
    return false;
  reference::Options options;
  options.moduleDirectory =
      getParameterFolder(now->getParentOfType<ModuleOp>(), parameterFolder);
  options.onKernelCall = [=](Operation *op, ArrayRef<Tensor> operands) {
    return makeStandIns(cast<KernelCallOp>(op), operands, batch);
  };
  auto want = reference::evaluate(before, *inputs, options);
  if (!want) {
    (void)reportUnchecked(now, want.takeError());
    return false;
  }
  auto got = reference::evaluate(now, *inputs, options);
  if (!got) {
    reference::FailureKind kind;
    emitError(now, ErrorKind::Check)
        << describePass(pass) << " left a graph that can't be evaluated: "
        << reference::takeMessage(got.takeError(), kind);
    return false;
  }
  for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(*got, *want))) {
    auto [mine, theirs] = pair;
    reference::Comparison bits =
        reference::compare(mine, theirs, reference::Criterion::makeBits());
    if (bits.passed)
      continue;
    std::string where = llvm::formatv("result {0} of @{1}, batch {2}: ", i,
                                      now.getSymName(), batch);
    reference::Comparison near =
        reference::compare(mine, theirs, getCriterion(theirs));
    if (!near.passed) {
      emitError(now, ErrorKind::Check)
          << describePass(pass) << " changed values: " << where << near.message;
      return false;
    }
    if (warned.insert(describePass(pass)).second)
      now.emitWarning() << describePass(pass) << " changed roundings: " << where
                        << bits.message;
  }
  return true;
}

std::unique_ptr<PassInstrumentation>
fusion::createPassCheck(StringRef parameterFolder,
                        std::optional<llvm::StringSet<>> names) {
  return std::make_unique<PassCheck>(parameterFolder, std::move(names));
}

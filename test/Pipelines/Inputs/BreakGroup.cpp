//===- BreakGroup.cpp - Wrong passes, to be found -------------------------===//
//
// Make one op of a graph wrong: what --verify-fusion must find. One breaks the
// graph itself, the other what a pass logged as the new expression of a value,
// as if the pass had replaced it by that. A plugin; it knows no class of the
// dialect.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/RewriteLog.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {
/// The options of both passes, and what they do.
template <typename Derived, typename Target>
struct BreakPass : PassWrapper<Derived, OperationPass<Target>> {
  using Base = PassWrapper<Derived, OperationPass<Target>>;
  template <typename T> using Option = typename Pass::Option<T>;

  BreakPass() = default;
  BreakPass(const BreakPass &other) : Base(other) {}

  /// Breaks the n-th op named `from` whose parent has the name `parent`, and
  /// returns it, if there is one.
  Operation *breakOp(Operation *root) {
    SmallVector<Operation *> found;
    root->walk([&](Operation *op) {
      if (op->getName().getStringRef() == from &&
          op->getParentOp()->getName().getStringRef() == parent)
        found.push_back(op);
    });
    if (found.size() <= number)
      return nullptr;
    Operation *op = found[number];
    if (swap && op->getNumOperands() > 1) {
      Value first = op->getOperand(0);
      op->setOperand(0, op->getOperand(1));
      op->setOperand(1, first);
    }
    if (!attribute.empty())
      op->setAttr(attribute, parseAttribute(value, op->getContext()));
    return op;
  }

  Option<std::string> from{*this, "from", llvm::cl::desc("name to break")};
  Option<std::string> parent{*this, "parent",
                             llvm::cl::desc("name of the op around it"),
                             llvm::cl::init("fusion.group")};
  Option<unsigned> number{*this, "number", llvm::cl::desc("which, from 0"),
                          llvm::cl::init(0)};
  Option<std::string> attribute{*this, "attribute",
                                llvm::cl::desc("attribute to change")};
  Option<std::string> value{*this, "value", llvm::cl::desc("its new value")};
  Option<bool> swap{*this, "swap",
                    llvm::cl::desc("let two operands change places"),
                    llvm::cl::init(false)};
};

struct BreakGroup : BreakPass<BreakGroup, func::FuncOp> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BreakGroup)

  StringRef getArgument() const override { return "test-break-group"; }
  StringRef getDescription() const override { return "Make an op wrong"; }
  void runOnOperation() override {
    Operation *op = breakOp(getOperation());
    if (!op || to.empty())
      return;
    OperationState state(op->getLoc(), to, op->getOperands(),
                         op->getResultTypes());
    OpBuilder builder(op);
    op->replaceAllUsesWith(builder.create(state));
    op->erase();
  }

  BreakGroup() = default;
  BreakGroup(const BreakGroup &other) : BreakPass(other) {}

  Option<std::string> to{*this, "to",
                         llvm::cl::desc("name of the op to put there")};
};

struct BreakRewrite : BreakPass<BreakRewrite, ModuleOp> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BreakRewrite)

  StringRef getArgument() const override { return "test-break-rewrite"; }
  StringRef getDescription() const override {
    return "Make an op of a logged rewrite wrong";
  }
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (auto log = getCachedAnalysis<fusion::RewriteLog>())
      breakOp(log->get().getModule());
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK
    __attribute__((visibility("default"))) PassPluginLibraryInfo
    mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "BreakGroup", LLVM_VERSION_STRING, [] {
            PassRegistration<BreakGroup>();
            PassRegistration<BreakRewrite>();
          }};
}

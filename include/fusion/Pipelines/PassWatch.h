//===- PassWatch.h - Which pass runs, and which one failed ------*- C++ -*-===//
//
// MLIR says that a pipeline failed, not where. The watch knows the pass that
// failed first, or was running when the process was saved from a crash, and the
// plugin that it is from.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PIPELINES_PASSWATCH_H
#define FUSION_PIPELINES_PASSWATCH_H

#include <memory>
#include <string>

namespace mlir {
class Pass;
class PassManager;
} // namespace mlir

namespace fusion {

/// "the pass 'x' of the plugin 'a.so'", or "the pass 'x'".
std::string describePass(const mlir::Pass &pass);

/// What is known of the passes that ran so far. Thread safe.
class PassWatch {
public:
  PassWatch();
  ~PassWatch();

  /// Watches what `manager` runs from now on. The watch may end before it.
  void watch(mlir::PassManager &manager);

  /// The pass that failed first, as describePass says it; empty if none did.
  std::string getFailed() const;

  /// The pass that was running and never ended, which is after a crash.
  std::string getRunning() const;

private:
  struct State;
  std::shared_ptr<State> state;
};

} // namespace fusion

#endif // FUSION_PIPELINES_PASSWATCH_H

//===- PassWatch.cpp - Which pass runs, and which one failed --------------===//
//
// See PassWatch.h. Passes nest (one that runs on a module may start others) and
// run on several threads, so each thread has a stack of them. MLIR's own passes
// that only carry others have no name and are left out.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/PassWatch.h"

#include "fusion/Pipelines/Plugins.h"
#include "fusion/Pipelines/ToolProcess.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SmallVector.h"

#include <mutex>
#include <thread>

using namespace mlir;
using namespace fusion;

std::string fusion::describePass(const Pass &pass) {
  std::string plugin = getPluginOf(pass);
  std::string text = ("the pass '" + pass.getArgument() + "'").str();
  return plugin.empty() ? text : text + " of the plugin '" + plugin + "'";
}

struct PassWatch::State {
  /// The passes of one thread, outermost first.
  struct Thread {
    std::thread::id id;
    SmallVector<std::string, 2> passes;
  };

  std::mutex mutex;
  /// In the order in which they started.
  SmallVector<Thread, 4> threads;
  std::string failed;

  SmallVectorImpl<std::string> &getPasses() {
    std::thread::id id = std::this_thread::get_id();
    for (Thread &thread : threads)
      if (thread.id == id)
        return thread.passes;
    return threads.emplace_back(Thread{id, {}}).passes;
  }

  void begin(std::string pass) {
    std::lock_guard<std::mutex> lock(mutex);
    setActivity(pass + " ran");
    getPasses().push_back(std::move(pass));
  }

  void end(bool isFailure) {
    std::lock_guard<std::mutex> lock(mutex);
    SmallVectorImpl<std::string> &passes = getPasses();
    if (isFailure && failed.empty())
      failed = passes.back();
    passes.pop_back();
    setActivity(passes.empty() ? "" : passes.back() + " ran");
  }
};

namespace {

template <typename StateT> class Watcher : public PassInstrumentation {
public:
  explicit Watcher(std::shared_ptr<StateT> state) : state(std::move(state)) {}

  void runBeforePass(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty())
      state->begin(describePass(*pass));
  }
  void runAfterPass(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty())
      state->end(/*isFailure=*/false);
  }
  void runAfterPassFailed(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty())
      state->end(/*isFailure=*/true);
  }

private:
  std::shared_ptr<StateT> state;
};

} // namespace

PassWatch::PassWatch() : state(std::make_shared<State>()) {}
PassWatch::~PassWatch() = default;

void PassWatch::watch(PassManager &manager) {
  manager.addInstrumentation(std::make_unique<Watcher<State>>(state));
}

std::string PassWatch::getFailed() const {
  std::lock_guard<std::mutex> lock(state->mutex);
  return state->failed;
}

std::string PassWatch::getRunning() const {
  std::lock_guard<std::mutex> lock(state->mutex);
  for (const State::Thread &thread : state->threads)
    if (!thread.passes.empty())
      return thread.passes.back();
  return "";
}

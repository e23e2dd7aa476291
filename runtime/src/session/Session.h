//===- Session.h - A loaded module, ready to run ----------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_SESSION_SESSION_H
#define FUSION_RUNTIME_SESSION_SESSION_H

#include "Executor.h"
#include "ModuleFile.h"

namespace fusion::rt {

/// A module on a backend: checks what the caller passes, then executes. One
/// thread at a time may use a session; several sessions may run side by side.
class Session {
public:
  /// `module` has been accepted by the caller's trust rule if the backend is
  /// one that runs native code.
  static Expected<std::unique_ptr<Session>>
  create(std::shared_ptr<LoadedModule> module, const SessionOptions &options);

  /// Runs the program at `batch`. `inputs[i]` and `outputs[i]` point to dense
  /// tensors in port order, as large as their shapes at `batch`. Buffers may
  /// not overlap, except that a donated input may be the very buffer of its
  /// output. Errors: `Usage` for wrong arguments, `Resources`, `Internal`.
  Status run(int64_t batch, const void *const *inputs, void *const *outputs,
             Observer *observer = nullptr);

  /// A run that goes on from the last one, at its batch: donated inputs are
  /// what that one left. On a GPU it stays there: outputs that take the place
  /// of an input are not written (see `Executor::address`). `Usage` if there
  /// was no such run.
  Status step(int64_t batch, const void *const *inputs, void *const *outputs);

  Status prepare(int64_t batch);

  /// As `run`, on the caller's CUDA stream, and returns at once: all buffers
  /// are the device's, aligned to 16 bytes. `Usage` on other backends.
  Status enqueue(int64_t batch, const void *const *inputs, void *const *outputs,
                 void *stream);

  /// See `Executor::measure`.
  Status measure(int64_t batch, int64_t count, Timings &timings);

  /// "cpu", "cuda" or "null".
  const std::string &backendName() const { return name; }
  /// That of this session's rank: no range of it has a turn.
  const Module &module() const { return view().module; }
  const LoadedModule &file() const { return *loaded; }
  const Executor &executor() const { return *backend; }
  uint64_t stagingBytes() const;

private:
  Session() = default;
  Status checkBatch(int64_t batch) const;
  Status checkOverlap(int64_t batch, const void *const *inputs,
                      void *const *outputs);
  Expected<void *> staging(uint32_t segment);

  const ModuleView &view() const { return placed ? *placed : loaded->view; }
  Status place(const SessionOptions &options);

  std::shared_ptr<LoadedModule> loaded;
  /// Of a program with turns: a copy for this session's rank.
  std::unique_ptr<ModuleView> placed;
  std::string name;
  std::unique_ptr<Executor> backend;
  uint64_t memoryLimit = 0;
  std::vector<void *> bases; ///< by segment
  /// Aligned stand-ins for buffers that are less aligned than their segment
  /// asks; made when first needed.
  std::vector<std::unique_ptr<void, void (*)(void *)>> stagingBuffers;
  struct Span {
    const char *begin, *end;
    bool isOutput;
    size_t port;
  };
  std::vector<Span> spans;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_SESSION_SESSION_H

//===- NullExecutor.cpp - The backend that only counts --------------------===//
//
// Walks a program exactly as a real backend does and counts what it would have
// entered. No native code is loaded, so it is safe on untrusted modules.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Executor.h"

#include <cstring>

using namespace fusion::rt;

namespace {

class NullExecutor final : public Executor {
public:
  explicit NullExecutor(const Program &program)
      : program(program), perRun(countCommands(program)) {}

  Status prepare(int64_t) override { return {}; }

  Status run(int64_t batch, void *const *bases, Observer *observer) override {
    for (size_t i = 0; observer && i < program.commands.size(); ++i) {
      observer->before(i);
      observer->after(i);
    }
    for (const Port &port : program.outputs)
      std::memset(bases[port.segment], 0,
                  *byteCount(port.tensor.shape, port.tensor.dtype, batch));
    ++runs;
    return {};
  }

  const void *address(const ByteRange &) const override { return nullptr; }
  MemoryUse memory() const override { return {}; }

  Counters counters() const override {
    Counters total = perRun;
    for (uint64_t *value :
         {&total.launches, &total.tails, &total.calls, &total.copies,
          &total.records, &total.waits, &total.collectives, &total.bytesRead,
          &total.bytesWritten})
      *value *= runs;
    total.runs = runs;
    return total;
  }

private:
  const Program &program;
  Counters perRun;
  uint64_t runs = 0;
};

} // namespace

Expected<std::unique_ptr<Executor>>
fusion::rt::makeNullExecutor(const ModuleView &module,
                             const SessionOptions &options) {
  FUSION_RT_TRY(checkMemoryLimit(module.module.program,
                                 module.module.program.peakBytes,
                                 options.memoryLimit));
  return std::unique_ptr<Executor>(
      std::make_unique<NullExecutor>(module.module.program));
}

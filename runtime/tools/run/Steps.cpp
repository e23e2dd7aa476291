//===- Steps.cpp - Runs that go on from each other ------------------------===//
//
// As training does: what a step updates is the next one's argument, and stays
// on the device; data of its own for each step goes there, and little comes
// back.
//
//===----------------------------------------------------------------------===//
#include "Steps.h"
#include "Interrupt.h"
#include "Text.h"
#include "Watchdog.h"

#include <cstring>

using namespace fusion::rt;

/// Adds what a step gave to what those before it gave.
static void append(Tensor &all, const void *data, size_t size) {
  auto *bytes = static_cast<const uint8_t *>(data);
  all.bytes.insert(all.bytes.end(), bytes, bytes + size);
}

Status fusion::rt::runSteps(Session &session, const RunInputs &inputs,
                            const std::vector<const void *> &inputPointers,
                            const std::vector<void *> &outputPointers,
                            int64_t steps, double seconds,
                            std::vector<Tensor> &outputs) {
  const Program &program = session.module().program;
  std::vector<bool> isState(program.outputs.size());
  for (const Port &port : program.inputs)
    if (port.donatedTo >= 0)
      isState[size_t(port.donatedTo)] = true;
  std::vector<size_t> sizes;
  for (const Tensor &tensor : outputs)
    sizes.push_back(tensor.bytes.size());
  try {
    for (int64_t step = 1; step < steps; ++step) {
      for (size_t i = 0; i < inputs.later.size(); ++i) {
        if (inputs.later[i].empty())
          continue;
        const Tensor &next = inputs.later[i][size_t(step - 1)];
        if (!next.bytes.empty())
          std::memcpy(const_cast<void *>(inputPointers[i]), next.bytes.data(),
                      next.bytes.size());
      }
      {
        Watchdog watchdog(seconds);
        FUSION_RT_TRY(session.step(inputs.batch, inputPointers.data(),
                                   outputPointers.data()));
      }
      for (size_t i = 0; i < outputs.size(); ++i)
        if (!isState[i])
          append(outputs[i], outputPointers[i], sizes[i]);
      if (interruptSignal())
        return Status(Code::Internal, "interrupted");
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor &tensor = outputs[i];
      if (!isState[i]) {
        tensor.shape.insert(tensor.shape.begin(), steps);
        continue;
      }
      const void *data = session.backendName() == "cuda"
                             ? session.executor().address(
                                   {program.outputs[i].segment, 0, sizes[i]})
                             : outputPointers[i];
      if (!data && sizes[i] != 0)
        return Status(Code::PeerFailed,
                      "output '" + escape(program.outputs[i].tensor.name) +
                          "' can't be read back");
      if (sizes[i] != 0)
        std::memcpy(tensor.bytes.data(), data, sizes[i]);
    }
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory for what " +
                                       std::to_string(steps) + " steps give");
  }
  return {};
}

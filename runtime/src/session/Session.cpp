//===- Session.cpp - A loaded module, ready to run ------------------------===//
//
// The border between a caller's buffers and a program's segments: batch and
// overlap checks, donation, and stand-ins for badly aligned buffers.
//
//===----------------------------------------------------------------------===//
#include "Session.h"
#include "Checked.h"
#include "Communicator.h"
#include "DeviceCommunicator.h"
#include "Text.h"
#include "Turns.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <tuple>

using namespace fusion::rt;

Expected<std::unique_ptr<Session>>
Session::create(std::shared_ptr<LoadedModule> module,
                const SessionOptions &options) {
  try {
    const std::string &target = module->view.module.target;
    bool isForCuda = target.compare(0, 5, "cuda:") == 0;
    std::string name = !options.backend.empty() ? options.backend
                       : isForCuda              ? "cuda"
                                                : "cpu";
    if ((name == "cpu" && target != "cpu") || (name == "cuda" && !isForCuda))
      return Status(
          Code::Rejected,
          "module is for target '" + escape(target) + "', the backend is " +
              name + "; compile it with " +
              (name == "cpu" ? "--target=cpu" : "--target=cuda:sm_90"));
    if (options.threads < 0 || options.threads > 4096)
      return Status(Code::Usage, "threads must be between 0 (all) and 4096");
    std::unique_ptr<Session> session(new Session);
    session->loaded = std::move(module);
    session->memoryLimit = options.memoryLimit;
    FUSION_RT_TRY(session->place(options));
    const ModuleView &view = session->view();
    auto backend =
        name == "cpu"    ? makeCpuExecutor(view, options)
        : name == "cuda" ? makeCudaExecutor(view, options)
        : name == "null"
            ? makeNullExecutor(view, options)
            : Status(Code::Usage, "unknown backend '" + escape(name) +
                                      "'; use cpu, cuda or null");
    if (!backend)
      return backend.status();
    session->name = std::move(name);
    session->backend = std::move(*backend);
    const Program &program = view.module.program;
    session->bases.assign(program.segments.size(), nullptr);
    for (size_t i = 0; i < program.segments.size(); ++i)
      session->stagingBuffers.emplace_back(nullptr, std::free);
    session->spans.reserve(program.inputs.size() + program.outputs.size());
    return session;
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while creating a session");
  } catch (const std::system_error &error) {
    return Status(Code::Resources, std::string("can't start a thread: ") +
                                       error.what() +
                                       "; raise the process's limits");
  } catch (const std::exception &error) {
    return Status(Code::Internal,
                  std::string("while creating a session: ") + error.what());
  }
}

/// Without others the rank is the first.
Status Session::place(const SessionOptions &options) {
  if (loaded->view.module.program.turns.empty())
    return {};
  uint32_t rank = options.communicator ? options.communicator->rank()
                  : options.deviceCommunicator
                      ? options.deviceCommunicator->rank()
                      : 0;
  placed = std::make_unique<ModuleView>(loaded->view);
  return placeRanges(placed->module.program, rank)
             ? Status()
             : Status(Code::Internal, "a range leaves its segment on rank " +
                                          std::to_string(rank));
}

Status Session::checkBatch(int64_t batch) const {
  const Program &program = module().program;
  if (batch >= program.minBatch && batch <= program.maxBatch)
    return {};
  return Status(Code::Usage, "batch " + std::to_string(batch) +
                                 " is outside the module's range " +
                                 std::to_string(program.minBatch) + ".." +
                                 std::to_string(program.maxBatch));
}

Status Session::prepare(int64_t batch) {
  FUSION_RT_TRY(checkBatch(batch));
  try {
    return backend->prepare(batch);
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while preparing batch " +
                                       std::to_string(batch));
  } catch (const std::exception &error) {
    return Status(Code::Internal, error.what());
  }
}

Status Session::checkOverlap(int64_t batch, const void *const *inputs,
                             void *const *outputs) {
  const Program &program = module().program;
  spans.clear();
  auto add = [&](const std::vector<Port> &ports, size_t i, const void *data,
                 bool isOutput) {
    uint64_t size =
        *byteCount(ports[i].tensor.shape, ports[i].tensor.dtype, batch);
    if (size == 0)
      return Status();
    if (!data)
      return Status(Code::Usage,
                    std::string(isOutput ? "output '" : "input '") +
                        escape(ports[i].tensor.name) + "': no buffer");
    auto *begin = static_cast<const char *>(data);
    spans.push_back({begin, begin + size, isOutput, i});
    return Status();
  };
  for (size_t i = 0; i < program.inputs.size(); ++i)
    FUSION_RT_TRY(add(program.inputs, i, inputs[i], false));
  for (size_t i = 0; i < program.outputs.size(); ++i)
    FUSION_RT_TRY(add(program.outputs, i, outputs[i], true));
  std::sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) {
    return std::tie(a.begin, a.isOutput) < std::tie(b.begin, b.isOutput);
  });
  // Inputs may share bytes with each other; the furthest end seen so far of
  // either kind decides.
  const Span *lastInput = nullptr, *lastOutput = nullptr;
  for (const Span &span : spans) {
    for (const Span *other : {lastInput, lastOutput}) {
      if (!other || other->end <= span.begin ||
          (!span.isOutput && !other->isOutput))
        continue;
      const Span *input = span.isOutput ? other : &span;
      const Span *output = span.isOutput ? &span : other;
      if (!input->isOutput && output->isOutput &&
          input->begin == output->begin &&
          program.inputs[input->port].donatedTo == int32_t(output->port))
        continue;
      const Port &port = program.outputs[output->port];
      return Status(Code::Usage, "output '" + escape(port.tensor.name) +
                                     "': its buffer overlaps another one");
    }
    const Span *&last = span.isOutput ? lastOutput : lastInput;
    if (!last || span.end > last->end)
      last = &span;
  }
  return {};
}

uint64_t Session::stagingBytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < stagingBuffers.size(); ++i)
    if (stagingBuffers[i])
      bytes += module().program.segments[i].size;
  return bytes;
}

Expected<void *> Session::staging(uint32_t segment) {
  if (stagingBuffers[segment])
    return stagingBuffers[segment].get();
  const Program &program = module().program;
  uint64_t size = program.segments[segment].size;
  FUSION_RT_TRY(checkMemoryLimit(
      program, backend->memory().total() + stagingBytes() + size, memoryLimit));
  void *memory = std::aligned_alloc(4096, (size + 4095) & ~uint64_t(4095));
  if (!memory)
    return Status(Code::Resources,
                  "out of memory for an aligned buffer of " + bytesText(size));
  stagingBuffers[segment].reset(memory);
  return memory;
}

Status Session::run(int64_t batch, const void *const *inputs,
                    void *const *outputs, Observer *observer) {
  const Program &program = module().program;
  FUSION_RT_TRY(checkBatch(batch));
  FUSION_RT_TRY(loaded->checkUnchanged());
  FUSION_RT_TRY(checkOverlap(batch, inputs, outputs));
  try {
    if (backend->bindsBuffers())
      return backend->runBound(batch, inputs, outputs, observer);
    auto bytes = [&](const Port &port) {
      return size_t(*byteCount(port.tensor.shape, port.tensor.dtype, batch));
    };
    auto place = [&](const Port &port, void *data) -> Status {
      uintptr_t mask = program.segments[port.segment].alignment - 1;
      bases[port.segment] = data;
      if ((reinterpret_cast<uintptr_t>(data) & mask) == 0)
        return {};
      auto aligned = staging(port.segment);
      if (!aligned)
        return aligned.status();
      bases[port.segment] = *aligned;
      return {};
    };
    for (size_t i = 0; i < program.outputs.size(); ++i)
      FUSION_RT_TRY(place(program.outputs[i], outputs[i]));
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      const Port &port = program.inputs[i];
      if (port.donatedTo >= 0) {
        // Both segments are the output's bytes, which start as the input's.
        void *target = bases[program.outputs[port.donatedTo].segment];
        if (target != inputs[i] && bytes(port) != 0)
          std::memcpy(target, inputs[i], bytes(port));
        bases[port.segment] = target;
        continue;
      }
      FUSION_RT_TRY(place(port, const_cast<void *>(inputs[i])));
      if (bases[port.segment] != inputs[i] && bytes(port) != 0)
        std::memcpy(bases[port.segment], inputs[i], bytes(port));
    }
    FUSION_RT_TRY(backend->run(batch, bases.data(), observer));
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const Port &port = program.outputs[i];
      if (bases[port.segment] != outputs[i] && bytes(port) != 0)
        std::memcpy(outputs[i], bases[port.segment], bytes(port));
    }
    return {};
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory during a run");
  } catch (const std::exception &error) {
    return Status(Code::Internal, std::string("during a run: ") + error.what());
  }
}

Status Session::step(int64_t batch, const void *const *inputs,
                     void *const *outputs) {
  const Program &program = module().program;
  std::vector<const void *> own(inputs, inputs + program.inputs.size());
  for (size_t i = 0; i < own.size(); ++i)
    if (int32_t result = program.inputs[i].donatedTo; result >= 0)
      own[i] = outputs[result];
  if (!backend->bindsBuffers())
    return run(batch, own.data(), outputs);
  FUSION_RT_TRY(checkBatch(batch));
  FUSION_RT_TRY(loaded->checkUnchanged());
  FUSION_RT_TRY(checkOverlap(batch, own.data(), outputs));
  try {
    return backend->stepBound(batch, own.data(), outputs);
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory during a step");
  } catch (const std::exception &error) {
    return Status(Code::Internal,
                  std::string("during a step: ") + error.what());
  }
}

Status Session::enqueue(int64_t batch, const void *const *inputs,
                        void *const *outputs, void *stream) {
  FUSION_RT_TRY(checkBatch(batch));
  FUSION_RT_TRY(loaded->checkUnchanged());
  FUSION_RT_TRY(checkOverlap(batch, inputs, outputs));
  try {
    return backend->enqueue(batch, inputs, outputs, stream);
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory during a run");
  } catch (const std::exception &error) {
    return Status(Code::Internal, std::string("during a run: ") + error.what());
  }
}

Status Session::measure(int64_t batch, int64_t count, Timings &timings) {
  try {
    return backend->measure(batch, count, timings);
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory during a measurement");
  }
}

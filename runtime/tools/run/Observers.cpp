//===- Observers.cpp - Profiles and NaN checks ----------------------------===//
//
// Both look at one run command by command; neither changes what is computed.
//
//===----------------------------------------------------------------------===//
#include "Observers.h"
#include "Checked.h"
#include "CommandText.h"
#include "Communicator.h"
#include "FloatBits.h"
#include "Inspect.h"
#include "Text.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <unistd.h>

using namespace fusion::rt;

double fusion::rt::nowMicroseconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) * 1e6 + double(time.tv_nsec) * 1e-3;
}

//===----------------------------------------------------------------------===//
// TraceObserver
//===----------------------------------------------------------------------===//

void TraceObserver::before(size_t command) {
  started[program.commands[command].stream] = nowMicroseconds();
}

void TraceObserver::after(size_t command) {
  double now = nowMicroseconds();
  double start = started[program.commands[command].stream];
  std::lock_guard<std::mutex> lock(mutex);
  events.push_back({command, start, now - start});
}

std::string TraceObserver::text(double origin) const {
  static const char *const kinds[] = {"launch",     "call",   "copy",
                                      "collective", "record", "wait"};
  std::string text;
  for (const Event &event : events) {
    const Command &command = program.commands[event.command];
    char buffer[200];
    std::snprintf(buffer, sizeof(buffer),
                  "\"cat\": \"%s\", \"ph\": \"X\", \"pid\": %u, \"tid\": %u, "
                  "\"ts\": %.3f, \"dur\": %.3f, \"args\": {\"command\": %zu}}",
                  kinds[uint8_t(command.kind)], rank, command.stream,
                  event.start - origin, event.duration, event.command);
    std::string name = escape(command.name);
    if (name.empty()) // a viewer shows nothing else
      name = command.kind == CommandKind::Collective
                 ? collectiveName(command.collective.op)
                 : kinds[uint8_t(command.kind)];
    text += std::string(&event == &events.front() ? "" : ",\n") +
            "{\"name\": \"" + name + "\", " + buffer;
  }
  return text;
}

Status TraceObserver::append(int file, double origin) const {
  std::string events = text(origin);
  size_t done = 0;
  while (done < events.size()) {
    ssize_t count = ::write(file, &events[done], events.size() - done);
    if (count < 0 && errno != EINTR)
      return Status(Code::Resources, std::string("can't keep the profile: ") +
                                         std::strerror(errno));
    done += count > 0 ? size_t(count) : 0;
  }
  return {};
}

Status TraceObserver::write(const std::string &path) const {
  double origin = 0;
  for (const Event &event : events)
    origin = origin == 0 ? event.start : std::min(origin, event.start);
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n" +
                     this->text(origin) + "\n]}\n";
  return writeFileAtomically(path, text.data(), text.size());
}

//===----------------------------------------------------------------------===//
// NanObserver
//===----------------------------------------------------------------------===//

uint64_t NanObserver::sizeAtBatch(const ByteRange &range) const {
  for (const auto *ports : {&program.inputs, &program.outputs})
    for (const Port &port : *ports)
      if (port.segment == range.segment) {
        uint64_t size = *byteCount(port.tensor.shape, port.tensor.dtype, batch);
        return std::min(range.size,
                        size > range.offset ? size - range.offset : 0);
      }
  if (program.segments[range.segment].kind == SegmentKind::Const)
    return range.size;
  return range.size / uint64_t(program.maxBatch) * uint64_t(batch);
}

bool NanObserver::rangeHasNan(const ByteRange &range, DType dtype) const {
  auto *data = static_cast<const uint8_t *>(session.executor().address(range));
  if (!data || !isFloat(dtype))
    return false;
  size_t element = elementSize(dtype);
  uint64_t size = sizeAtBatch(range);
  for (uint64_t at = 0; at + element <= size; at += element)
    if (isNanAt(data + at, dtype))
      return true;
  return false;
}

bool NanObserver::commandHasNan(const Command &command, bool written) const {
  auto anyOf = [&](const std::vector<Operand> &operands, const DType *dtype) {
    for (const Operand &operand : operands)
      if ((written ? operand.writes : operand.reads) &&
          rangeHasNan(operand.range, dtype ? *dtype : operand.dtype))
        return true;
    return false;
  };
  if (command.kind == CommandKind::Launch)
    return anyOf(command.launch.operands, nullptr);
  if (command.kind != CommandKind::Call)
    return false;
  // What a tail reads beside the call's result existed before the call.
  return anyOf(command.operands, &command.call.dtype) ||
         (command.hasTail && anyOf(command.launch.operands, nullptr));
}

void NanObserver::before(size_t index) {
  if (found.ok())
    inputHadNan = commandHasNan(program.commands[index], false);
}

/// What a command does, for a person: "loop: add log", "conv".
static std::string describe(const Module &module, const Command &command) {
  if (command.kind == CommandKind::Launch || command.hasTail)
    return module.kernels[command.launch.kernel].description;
  return libraryOpName(command.call.op);
}

void NanObserver::after(size_t index) {
  const Command &command = program.commands[index];
  if (!found.ok() || inputHadNan || !commandHasNan(command, true))
    return;
  found = Status(Code::CheckFailed,
                 commandText(program, index) + " (" +
                     escape(describe(session.module(), command)) +
                     ") made a NaN from inputs that have none",
                 command.name);
}

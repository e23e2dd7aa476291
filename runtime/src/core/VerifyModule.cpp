//===- VerifyModule.cpp - Whether a module means something ----------------===//
//
// Everything about a module but the order of its commands, which
// `verifySchedule` proves at the end: after this, indices are inside their
// vectors, sizes don't wrap and every range is inside its segment.
//
//===----------------------------------------------------------------------===//
#include "VerifyModule.h"
#include "Checked.h"
#include "Limits.h"
#include "Text.h"
#include "VerifySchedule.h"

#include <algorithm>
#include <new>
#include <string_view>

using namespace fusion::rt;

static Status bad(const std::string &what, const std::string &op = {}) {
  return Status(Code::BadProgram,
                op.empty() ? what : "command '" + escape(op) + "': " + what,
                op);
}

static Status verifyName(const std::string &name, const char *what) {
  if (name.size() > limits::kNameBytes || !isUtf8(name))
    return bad(std::string(what) + " name is not UTF-8 of at most 4096 bytes");
  return {};
}

/// A shape must be countable at both ends of the batch range; being affine, it
/// then is in between.
static Status verifyTensor(const TensorDesc &tensor, const Program &program,
                           const char *what) {
  FUSION_RT_TRY(verifyName(tensor.name, what));
  if (uint8_t(tensor.dtype) > uint8_t(DType::I64))
    return bad(std::string(what) + " '" + escape(tensor.name) +
               "': unknown element type");
  for (Affine dim : tensor.shape)
    if (dim.scale < 0)
      return bad(std::string(what) + " '" + escape(tensor.name) +
                 "': a dimension shrinks as the batch grows");
  if (tensor.shape.size() > limits::kRank ||
      !byteCount(tensor.shape, tensor.dtype, program.minBatch) ||
      !byteCount(tensor.shape, tensor.dtype, program.maxBatch))
    return bad(std::string(what) + " '" + escape(tensor.name) + "': shape " +
               shapeText(tensor.shape) + " is negative or too large");
  return {};
}

namespace {

class ModuleVerifier {
public:
  ModuleVerifier(const Module &module, uint64_t constantsSize)
      : module(module), program(module.program), constantsSize(constantsSize) {}

  Status verify() {
    FUSION_RT_TRY(verifyHead());
    FUSION_RT_TRY(verifyMesh(program.mesh));
    FUSION_RT_TRY(verifySegments());
    FUSION_RT_TRY(verifyPorts());
    FUSION_RT_TRY(verifyNativeCode());
    for (const Command &command : program.commands)
      FUSION_RT_TRY(verifyCommand(command));
    return verifySchedule(program);
  }

private:
  Status verifyHead();
  Status verifySegments();
  Status verifyPorts();
  Status verifyNativeCode();
  Status verifyDeviceCode();
  Status verifyFallback(const Command &command);
  Status verifyCommand(const Command &command);
  Status verifyLaunch(const KernelLaunch &launch, const std::string &name);
  Status verifyTail(const Command &command);

  const Module &module;
  const Program &program;
  uint64_t constantsSize;
  bool isCuda = false;
};

} // namespace

Status ModuleVerifier::verifyHead() {
  if (program.minBatch < 1 || program.maxBatch < program.minBatch ||
      program.maxBatch > limits::kBatch)
    return bad("batch range " + std::to_string(program.minBatch) + ".." +
               std::to_string(program.maxBatch) + " is not inside 1..2^32");
  if (program.streams < 1 || program.streams > limits::kStreams)
    return bad(std::to_string(program.streams) +
               " streams; a program has 1 to 256");
  if (program.events > limits::kEvents)
    return bad("more than 1000000 events");
  if (program.commands.size() > limits::kCommands)
    return bad("more than 10000000 commands");
  uint64_t tensors = uint64_t(program.inputs.size()) + program.outputs.size() +
                     module.parameters.size() + program.segments.size();
  if (tensors > limits::kTensors)
    return bad("more than 1000000 inputs, outputs, parameters and segments");
  for (const std::string &feature : module.cpuFeatures)
    FUSION_RT_TRY(verifyName(feature, "CPU feature"));
  for (const auto &line : module.provenance) {
    FUSION_RT_TRY(verifyName(line.first, "provenance"));
    if (!isUtf8(line.second))
      return bad("provenance '" + escape(line.first) + "' is not UTF-8");
  }
  FUSION_RT_TRY(verifyName(module.target, "target"));
  FUSION_RT_TRY(verifyName(module.cpu, "CPU"));
  FUSION_RT_TRY(verifyName(module.buildId, "build"));
  return verifyName(program.name, "program");
}

Status ModuleVerifier::verifySegments() {
  bool seenConst = false;
  uint64_t peak = 0;
  for (const Segment &segment : program.segments) {
    if (segment.alignment == 0 || segment.alignment > limits::kAlignment ||
        (segment.alignment & (segment.alignment - 1)))
      return bad("segment alignment " + std::to_string(segment.alignment) +
                 " is not a power of two up to 4096");
    if (segment.size > limits::kElements * 8)
      return bad("segment of " + bytesText(segment.size) + " exceeds 2^51");
    if (segment.kind == SegmentKind::Const) {
      if (seenConst || segment.size != constantsSize)
        return bad("the one constant segment must be as large as the "
                   "constants (" +
                   bytesText(constantsSize) + ")");
      if (segment.alignment > 64)
        return bad("constants are aligned to 64 bytes in the file, not more");
      seenConst = true;
    }
    if (segment.kind == SegmentKind::Private ||
        segment.kind == SegmentKind::Peer ||
        segment.kind == SegmentKind::Pinned) {
      auto sum = checkedAdd(peak, segment.size);
      if (!sum)
        return bad("sum of segment sizes wraps 64 bits");
      peak = *sum;
    }
  }
  if (constantsSize != 0 && !seenConst)
    return bad("there are constants but no constant segment");
  if (peak != program.peakBytes)
    return bad("declared peak of " + bytesText(program.peakBytes) +
               " is not the recomputed " + bytesText(peak));
  for (const auto &[tensor, range] : module.parameters) {
    FUSION_RT_TRY(verifyTensor(tensor, program, "parameter"));
    if (range.segment >= program.segments.size() ||
        program.segments[range.segment].kind != SegmentKind::Const ||
        !rangeFits(range.offset, range.size, constantsSize))
      return bad("parameter '" + escape(tensor.name) +
                 "' is outside the constants");
    if (byteCount(tensor.shape, tensor.dtype, program.maxBatch) != range.size)
      return bad("parameter '" + escape(tensor.name) +
                 "': its range is not as large as its shape");
  }
  return {};
}

Status ModuleVerifier::verifyPorts() {
  std::vector<bool> bound(program.segments.size());
  auto verifyPort = [&](const Port &port, SegmentKind kind, const char *what) {
    FUSION_RT_TRY(verifyTensor(port.tensor, program, what));
    FUSION_RT_TRY(verifySharding(program.mesh, port, program.maxBatch));
    std::string name =
        std::string(what) + " '" + escape(port.tensor.name) + "': ";
    if (port.tensor.name.empty())
      return bad(std::string(what) + " without a name");
    if (port.segment >= program.segments.size() ||
        program.segments[port.segment].kind != kind || bound[port.segment])
      return bad(name + "must have an " + what + " segment of its own");
    bound[port.segment] = true;
    if (byteCount(port.tensor.shape, port.tensor.dtype, program.maxBatch) !=
        program.segments[port.segment].size)
      return bad(name + "its segment is not as large as its shape");
    return Status();
  };
  for (const Port &port : program.inputs)
    FUSION_RT_TRY(verifyPort(port, SegmentKind::Input, "input"));
  for (const Port &port : program.outputs)
    FUSION_RT_TRY(verifyPort(port, SegmentKind::Output, "output"));
  for (size_t i = 0; i < program.segments.size(); ++i) {
    SegmentKind kind = program.segments[i].kind;
    if ((kind == SegmentKind::Input || kind == SegmentKind::Output) &&
        !bound[i])
      return bad("segment " + std::to_string(i) +
                 " is an input or output without a port");
  }

  auto unique = [&](const std::vector<Port> &ports, const char *what) {
    std::vector<std::string_view> names;
    for (const Port &port : ports)
      names.push_back(port.tensor.name);
    std::sort(names.begin(), names.end());
    auto twice = std::adjacent_find(names.begin(), names.end());
    return twice == names.end() ? Status()
                                : bad(std::string(what) + " '" +
                                      escape(*twice) + "' appears twice");
  };
  FUSION_RT_TRY(unique(program.inputs, "input"));
  FUSION_RT_TRY(unique(program.outputs, "output"));

  std::vector<bool> taken(program.outputs.size());
  for (const Port &port : program.inputs) {
    if (port.donatedTo == -1)
      continue;
    if (port.donatedTo < 0 || size_t(port.donatedTo) >= taken.size() ||
        taken[port.donatedTo])
      return bad("input '" + escape(port.tensor.name) +
                 "' is donated to no output of its own");
    taken[port.donatedTo] = true;
    const Port &output = program.outputs[port.donatedTo];
    for (int64_t batch : {program.minBatch, program.maxBatch})
      if (byteCount(port.tensor.shape, port.tensor.dtype, batch) !=
          byteCount(output.tensor.shape, output.tensor.dtype, batch))
        return bad("input '" + escape(port.tensor.name) +
                   "' and the output it is donated to differ in size");
  }
  return {};
}

/// "cuda:sm_" and a number.
static bool isCudaTarget(const std::string &target) {
  const std::string prefix = "cuda:sm_";
  return target.size() > prefix.size() && target.size() < 16 &&
         target.compare(0, prefix.size(), prefix) == 0 &&
         std::all_of(
             target.begin() + prefix.size(), target.end(),
             [](char c) { return c >= '0' && c <= '9'; });
}

Status ModuleVerifier::verifyDeviceCode() {
  if (!module.nativeCode.empty() || !module.imports.empty())
    return bad("native code in a module for a GPU");
  if (module.kernels.empty() != module.ptx.empty() ||
      (module.kernels.empty() && !module.deviceCode.empty()))
    return bad("device code without kernels, or kernels without PTX");
  if (!module.ptx.empty() &&
      (module.ptx.back() == 0 ||
       std::find(module.ptx.begin(), module.ptx.end(), 0) != module.ptx.end()))
    return bad("PTX holds a zero byte");
  for (const Kernel &kernel : module.kernels)
    if (kernel.threads < 32 || kernel.threads > 1024 || kernel.threads % 32)
      return bad("kernel '" + escape(kernel.symbol) + "' has " +
                 std::to_string(kernel.threads) +
                 " threads; a block has 32 to 1024, in whole warps");
  return {};
}

Status ModuleVerifier::verifyNativeCode() {
  isCuda = isCudaTarget(module.target);
  if (!isCuda && module.target.compare(0, 4, "cuda") == 0)
    return bad("target '" + escape(module.target) +
               "' is not cuda:sm_ and a number");
  if (isCuda) {
    FUSION_RT_TRY(verifyDeviceCode());
  } else {
    if (module.kernels.empty() != module.nativeCode.empty())
      return bad("native code without kernels, or kernels without native code");
    if (!module.deviceCode.empty() || !module.ptx.empty())
      return bad("device code in a module for target '" +
                 escape(module.target) + "'");
    for (const Kernel &kernel : module.kernels)
      if (kernel.threads || kernel.registers || kernel.spillBytes ||
          kernel.sharedBytes || kernel.waits)
        return bad("kernel '" + escape(kernel.symbol) +
                   "' is for a GPU, the module is not");
  }
  for (const Kernel &kernel : module.kernels) {
    FUSION_RT_TRY(verifyName(kernel.symbol, "kernel"));
    if (!isUtf8(kernel.description))
      return bad("description of kernel '" + escape(kernel.symbol) +
                 "' is not UTF-8");
    if (kernel.symbol.empty() || kernel.symbol.find('\0') != std::string::npos)
      return bad("kernel symbol is empty or holds a zero byte");
  }
  for (const Import &import : module.imports) {
    FUSION_RT_TRY(verifyName(import.name, "import"));
    FUSION_RT_TRY(verifyName(import.signature, "import signature"));
  }
  return {};
}

Status ModuleVerifier::verifyLaunch(const KernelLaunch &launch,
                                    const std::string &name) {
  if (launch.kernel >= module.kernels.size())
    return bad("kernel " + std::to_string(launch.kernel) + " of " +
                   std::to_string(module.kernels.size()) + " does not exist",
               name);
  if (launch.operands.size() > limits::kOperands)
    return bad("more than 65536 operands", name);
  if (launch.grain < 1)
    return bad("grain must be at least 1", name);
  for (int64_t batch : {program.minBatch, program.maxBatch}) {
    auto units = evaluate(launch.units, batch);
    if (!units || uint64_t(*units) > limits::kElements)
      return bad("units are negative or exceed 2^48", name);
    if (isCuda && *units > 0 &&
        (*units - 1) / launch.grain + 1 > limits::kCudaBlocks)
      return bad("more than 2^31 - 1 blocks, the limit of a grid; compile for "
                 "a smaller batch",
                 name);
  }
  if (isCuda && launch.operands.size() > limits::kCudaOperands)
    return bad("more than 4000 operands of a GPU kernel", name);
  return {};
}

/// The tail's rules: units are a multiple of the output's leading dimension at
/// every batch.
Status ModuleVerifier::verifyTail(const Command &command) {
  if (command.call.numResults() != 1)
    return bad("a tail behind a call with several results", command.name);
  FUSION_RT_TRY(verifyLaunch(command.launch, command.name));
  // Runs whole, after all members.
  if (command.call.members > 1)
    return {};
  Affine rows = command.call.outputShape.front();
  Affine units = command.launch.units;
  // units = k * rows for one integer k as polynomials in the batch.
  int64_t k = 0;
  if (rows.scale != 0)
    k = units.scale / rows.scale;
  else if (rows.base != 0)
    k = units.base / rows.base;
  if (checkedMul(k, rows.scale) != units.scale ||
      checkedMul(k, rows.base) != units.base || k < 0)
    return bad("units of the tail are not a multiple of the output's leading "
               "dimension",
               command.name);
  return {};
}

/// The fallback's rules: a kernel of a GPU on the call's operands.
Status ModuleVerifier::verifyFallback(const Command &command) {
  if (!isCuda)
    return bad("a call of the CPU with a fallback", command.name);
  if (!command.fallback.operands.empty())
    return bad("a fallback with operands of its own", command.name);
  KernelLaunch launch = command.fallback;
  launch.operands = command.operands;
  return verifyLaunch(launch, command.name);
}

Status ModuleVerifier::verifyCommand(const Command &command) {
  FUSION_RT_TRY(verifyName(command.name, "command"));
  switch (command.kind) {
  case CommandKind::Launch:
    return verifyLaunch(command.launch, command.name);
  case CommandKind::Call:
    FUSION_RT_TRY(verifyLibraryCall(command.call, command.operands,
                                    command.name, program.minBatch,
                                    program.maxBatch));
    if (!isCuda && command.call.isAttention())
      return bad("attention in a call of the CPU", command.name);
    if (!isCuda && (command.call.activation != Activation::None ||
                    command.call.computeTf32 || command.call.weightsLast ||
                    command.call.keepsOrder || command.call.hasGradient() ||
                    command.call.units))
      return bad("an activation, tf32, laid out weights, a gradient or a "
                 "number of multiprocessors in a call of the CPU",
                 command.name);
    if (command.hasFallback)
      FUSION_RT_TRY(verifyFallback(command));
    return command.hasTail ? verifyTail(command) : Status();
  case CommandKind::Copy:
    if (command.source.size != command.target.size)
      return bad("copies between ranges of different sizes", command.name);
    for (int64_t batch : {program.minBatch, program.maxBatch}) {
      auto size = evaluate(command.copySize, batch);
      if (!size || uint64_t(*size) > command.source.size)
        return bad("copies more bytes than its ranges have", command.name);
    }
    return {};
  case CommandKind::Collective:
    return verifyCollective(command, program.mesh, program.minBatch,
                            program.maxBatch);
  case CommandKind::Record:
  case CommandKind::Wait:
    return {};
  }
  return bad("unknown kind", command.name);
}

Status fusion::rt::verifyModule(const Module &module, uint64_t constantsSize) {
  try {
    return ModuleVerifier(module, constantsSize).verify();
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while verifying a module");
  }
}

//===- Inspect.cpp - --inspect: what a module holds -----------------------===//
//
// Reads structs only: native code is never mapped, every name is escaped.
//
//===----------------------------------------------------------------------===//
#include "Inspect.h"
#include "Checked.h"
#include "Communicator.h"
#include "Executor.h"
#include "Mesh.h"
#include "Text.h"

#include <cstdio>

using namespace fusion::rt;

static std::string tensorText(const TensorDesc &tensor) {
  return "'" + escape(tensor.name) + "' " + dtypeName(tensor.dtype) + " " +
         shapeText(tensor.shape);
}

static std::string affineText(Affine size) {
  return size.scale == 0
             ? std::to_string(size.base)
             : shapeText({size}).substr(1, shapeText({size}).size() - 2);
}

static std::string rangeText(const ByteRange &range) {
  return "s" + std::to_string(range.segment) + "[" +
         std::to_string(range.offset) + "+" + std::to_string(range.size) +
         (range.turn ? " turn " + std::to_string(range.turn - 1) : "") + "]";
}

static std::string operandsText(const std::vector<Operand> &operands) {
  std::string text;
  for (const Operand &operand : operands)
    text += std::string(text.empty() ? "" : " ") +
            (operand.reads ? operand.writes ? "rw " : "r " : "w ") +
            rangeText(operand.range);
  return text;
}

static void printLaunch(const Module &module, const KernelLaunch &launch) {
  std::printf("%s units=%s grain=%lld %s",
              escape(module.kernels[launch.kernel].symbol).c_str(),
              affineText(launch.units).c_str(), (long long)launch.grain,
              operandsText(launch.operands).c_str());
}

const char *fusion::rt::libraryOpName(LibraryOp op) {
  static const char *const names[] = {"conv",      "conv_transpose",
                                      "matmul",    "avg_pool",
                                      "attention", "attention_grad"};
  return names[uint8_t(op)];
}

static const char *activationText(Activation activation) {
  static const char *const names[] = {"", " +relu", " +gelu_tanh", " +gelu_erf",
                                      " x gelu_tanh'"};
  return names[uint8_t(activation)];
}

static const char *biasGradientText(BiasGradient gradient) {
  static const char *const names[] = {"", " +sum of lhs", " +sum of rhs",
                                      " +sum of result"};
  return names[uint8_t(gradient)];
}

/// "dp, tp".
static std::string axesText(const Mesh &mesh,
                            const std::vector<uint32_t> &axes) {
  std::string text;
  for (uint32_t axis : axes)
    text += (text.empty() ? "" : ", ") + escape(mesh.axes[axis].first);
  return text;
}

/// " cut [dp] [] of [5, 4]".
static std::string shardingText(const Mesh &mesh, const Port &port) {
  std::string text = port.sharding.empty() ? "" : " cut";
  for (const std::vector<uint32_t> &axes : port.sharding)
    text += " [" + axesText(mesh, axes) + "]";
  std::vector<Affine> global;
  for (int64_t size : port.globalShape)
    global.push_back({0, size});
  return global.empty() ? text : text + " of " + shapeText(global);
}

static void printCollective(const Program &program, const Command &command) {
  static const char *const reductions[] = {"sum", "mean", "min", "max", "prod"};
  const CollectiveCall &call = command.collective;
  std::printf("collective '%s': %s", escape(command.name).c_str(),
              collectiveName(call.op));
  bool scatters = call.op == CollectiveOp::ReduceScatter;
  if (scatters || call.op == CollectiveOp::AllReduce)
    std::printf(" %s", reductions[uint8_t(call.reduction)]);
  if (scatters || call.op == CollectiveOp::AllGather)
    std::printf(" dim %lld", (long long)call.dim);
  if (call.op == CollectiveOp::AllToAll)
    std::printf(" split %lld concat %lld", (long long)call.splitDim,
                (long long)call.concatDim);
  if (call.op == CollectiveOp::Broadcast)
    std::printf(" root %lld", (long long)call.root);
  for (size_t i = 0; i < call.sources.size(); ++i)
    std::printf(" %lld->%lld", (long long)call.sources[i],
                (long long)call.targets[i]);
  if (call.bucket >= 0)
    std::printf(" bucket %lld", (long long)call.bucket);
  std::printf(" on [%s]", axesText(program.mesh, call.axes).c_str());
  if (call.transport != CollectiveTransport::Auto)
    std::printf(" over %s", call.transport == CollectiveTransport::Peer
                                ? "peer copies"
                                : "nccl");
  if (call.isDirect)
    std::printf(", read in place");
  if (call.units)
    std::printf(", %u multiprocessors", call.units);
  for (const CollectivePart &part : call.parts)
    std::printf(" %s %s%s", dtypeName(part.dtype),
                shapeText(part.shape).c_str(), part.inPlace ? " in place" : "");
  std::printf(" %s", operandsText(command.operands).c_str());
}

static void printCommand(const Module &module, size_t index) {
  const Command &command = module.program.commands[index];
  std::printf("  %4zu stream %u ", index, command.stream);
  switch (command.kind) {
  case CommandKind::Launch:
    std::printf("launch '%s': ", escape(command.name).c_str());
    printLaunch(module, command.launch);
    break;
  case CommandKind::Call:
    std::printf("call '%s': %s %s%s%s%s%s%s%s%s %s x %s -> %s %s",
                escape(command.name).c_str(), libraryOpName(command.call.op),
                dtypeName(command.call.dtype),
                command.call.weightsLast    ? " nhwc ohwi"
                : command.call.channelsLast ? " nhwc"
                                            : "",
                command.call.hasBias
                    ? command.call.hasAddend ? " +bias +addend" : " +bias"
                : command.call.hasAddend ? " +addend"
                                         : "",
                activationText(command.call.activation),
                biasGradientText(command.call.biasGradient),
                command.call.computeTf32  ? " tf32"
                : command.call.keepsOrder ? " in order"
                                          : "",
                command.call.causal ? " causal" : "",
                command.call.maskShape.empty() ? "" : " +mask",
                shapeText(command.call.inputShape).c_str(),
                shapeText(command.call.weightShape).c_str(),
                shapeText(command.call.outputShape).c_str(),
                operandsText(command.operands).c_str());
    if (command.call.units)
      std::printf("; %u multiprocessors", command.call.units);
    if (command.hasTail) {
      std::printf("; tail ");
      printLaunch(module, command.launch);
    }
    if (command.hasFallback)
      std::printf(
          "; else %s",
          escape(module.kernels[command.fallback.kernel].symbol).c_str());
    break;
  case CommandKind::Copy:
    std::printf("copy '%s': %s -> %s", escape(command.name).c_str(),
                rangeText(command.source).c_str(),
                rangeText(command.target).c_str());
    break;
  case CommandKind::Record:
  case CommandKind::Wait:
    std::printf("%s event %u",
                command.kind == CommandKind::Record ? "record" : "wait",
                command.event);
    break;
  case CommandKind::Collective:
    printCollective(module.program, command);
    break;
  }
  std::printf("\n");
}

void fusion::rt::printModule(const LoadedModule &loaded,
                             const std::string &checked) {
  static const char *const kinds[] = {"private", "peer",  "pinned",
                                      "const",   "input", "output"};
  const ModuleView &view = loaded.view;
  const Module &module = view.module;
  const Program &program = module.program;
  std::printf("module format %u.%u, %s, checked: %s\n", view.major, view.minor,
              bytesText(view.fileSize).c_str(), checked.c_str());
  std::printf("  digest %s\n", toHex(view.digest).c_str());
  std::printf("  target %s, CPU %s, build %s\n", escape(module.target).c_str(),
              escape(module.cpu).c_str(), escape(module.buildId).c_str());
  std::string features;
  for (const std::string &feature : module.cpuFeatures)
    features += " " + escape(feature);
  std::printf("  CPU features:%s\n",
              features.empty() ? " none" : features.c_str());
  for (const SectionInfo &section : view.sections)
    std::printf("  section %-12s offset %llu size %llu sha256 %s\n",
                section.name.c_str(), (unsigned long long)section.offset,
                (unsigned long long)section.size,
                toHex(section.digest).c_str());
  std::printf(
      "program '%s', batch %lld..%lld, %u streams, %u events, peak %s\n",
      escape(program.name).c_str(), (long long)program.minBatch,
      (long long)program.maxBatch, program.streams, program.events,
      bytesText(program.peakBytes).c_str());
  if (!program.mesh.axes.empty()) {
    std::printf("mesh @%s of %u ranks:", escape(program.mesh.name).c_str(),
                rankCount(program.mesh));
    for (const auto &[axis, size] : program.mesh.axes)
      std::printf(" %s = %u", escape(axis).c_str(), size);
    std::printf("\n");
  }
  for (const Port &port : program.inputs) {
    std::printf("  input %s%s", tensorText(port.tensor).c_str(),
                shardingText(program.mesh, port).c_str());
    if (port.donatedTo >= 0)
      std::printf(" donated to '%s'",
                  escape(program.outputs[port.donatedTo].tensor.name).c_str());
    std::printf("\n");
  }
  for (const Port &port : program.outputs)
    std::printf("  output %s%s\n", tensorText(port.tensor).c_str(),
                shardingText(program.mesh, port).c_str());
  for (size_t i = 0; i < program.segments.size(); ++i)
    std::printf("  segment %zu %s %llu bytes, aligned to %u\n", i,
                kinds[uint8_t(program.segments[i].kind)],
                (unsigned long long)program.segments[i].size,
                program.segments[i].alignment);
  for (size_t i = 0; i < program.turns.size(); ++i)
    std::printf("  turn %zu: %llu bytes for each rank on [%s], this one's and "
                "%u more\n",
                i, (unsigned long long)program.turns[i].step,
                axesText(program.mesh, program.turns[i].axes).c_str(),
                program.turns[i].shift);
  Counters counters = countCommands(program);
  std::printf(
      "commands: %llu launches, %llu calls, %llu tails, %llu copies",
      (unsigned long long)counters.launches, (unsigned long long)counters.calls,
      (unsigned long long)counters.tails, (unsigned long long)counters.copies);
  if (counters.collectives)
    std::printf(", %llu collectives", (unsigned long long)counters.collectives);
  std::printf("\n");
  for (size_t i = 0; i < program.commands.size(); ++i)
    printCommand(module, i);
  for (const Kernel &kernel : module.kernels) {
    std::printf("kernel %s: %s\n", escape(kernel.symbol).c_str(),
                escape(kernel.description).c_str());
    if (kernel.threads)
      std::printf("  %u threads, %u registers, %u bytes spilled, %u bytes "
                  "shared\n",
                  kernel.threads, kernel.registers, kernel.spillBytes,
                  kernel.sharedBytes);
  }
  for (const Import &import : module.imports)
    std::printf("import %s %s\n", escape(import.name).c_str(),
                escape(import.signature).c_str());
  for (const auto &[tensor, range] : module.parameters)
    std::printf("parameter %s at %llu\n", tensorText(tensor).c_str(),
                (unsigned long long)range.offset);
  for (const auto &[key, value] : module.provenance)
    std::printf("provenance %s: %s\n", escape(key).c_str(),
                escape(value, 65536).c_str());
}

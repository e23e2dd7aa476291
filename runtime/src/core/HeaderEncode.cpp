//===- HeaderEncode.cpp - Module structs -> FlatBuffer header -------------===//
//
// Builds the header bottom-up in the order of the structs. Nothing depends on
// addresses or hashing order, so equal modules give equal bytes.
//
//===----------------------------------------------------------------------===//
#include "HeaderCodec.h"
#include "Limits.h"
#include "ModuleFile.h"
#include "module_generated.h"

#include <map>

using namespace fusion::rt;
namespace fbs = flatbuffers;

namespace {

class Encoder {
public:
  std::vector<uint8_t> encode(const Module &module);

private:
  using Name = fbs::Offset<fbs::String>;

  /// Equal strings share one copy: thousands of commands carry few names.
  Name text(const std::string &value) {
    auto [it, isNew] = names.try_emplace(value);
    if (isNew)
      it->second = builder.CreateString(value);
    return it->second;
  }

  fbs::Offset<fbs::Vector<const fb::Affine *>>
  shape(const std::vector<Affine> &dims) {
    std::vector<fb::Affine> encoded;
    for (Affine dim : dims)
      encoded.emplace_back(dim.scale, dim.base);
    return builder.CreateVectorOfStructs(encoded);
  }

  static fb::ByteRange range(const ByteRange &value) {
    return fb::ByteRange(value.segment, value.allocation, value.offset,
                         value.size);
  }

  fbs::Offset<fbs::Vector<const fb::Operand *>>
  operands(const std::vector<Operand> &values) {
    std::vector<fb::Operand> encoded;
    for (const Operand &value : values)
      encoded.emplace_back(range(value.range),
                           uint64_t(value.reads) | uint64_t(value.writes) << 1 |
                               uint64_t(value.dtype) << 8 |
                               uint64_t(value.range.turn) << 32);
    return builder.CreateVectorOfStructs(encoded);
  }

  fbs::Offset<fb::TensorDesc> tensor(const TensorDesc &value) {
    auto name = text(value.name);
    auto dims = shape(value.shape);
    return fb::CreateTensorDesc(builder, name, uint8_t(value.dtype), dims);
  }

  fbs::Offset<fbs::Vector<fbs::Offset<fb::Port>>>
  ports(const std::vector<Port> &values) {
    std::vector<fbs::Offset<fb::Port>> encoded;
    for (const Port &value : values) {
      auto desc = tensor(value.tensor);
      // What a program for one rank lacks is not stored.
      fbs::Offset<fbs::Vector<fbs::Offset<fb::AxisList>>> sharding;
      fbs::Offset<fbs::Vector<int64_t>> global;
      if (!value.sharding.empty()) {
        std::vector<fbs::Offset<fb::AxisList>> lists;
        for (const std::vector<uint32_t> &axes : value.sharding)
          lists.push_back(
              fb::CreateAxisList(builder, builder.CreateVector(axes)));
        sharding = builder.CreateVector(lists);
      }
      if (!value.globalShape.empty())
        global = builder.CreateVector(value.globalShape);
      encoded.push_back(fb::CreatePort(builder, desc, value.segment,
                                       value.donatedTo, sharding, global));
    }
    return builder.CreateVector(encoded);
  }

  fbs::Offset<fb::LibraryCall> call(const LibraryCall &value);
  fbs::Offset<fb::CollectiveCall> collective(const CollectiveCall &value);
  fbs::Offset<fb::Mesh> mesh(const Mesh &value);
  fbs::Offset<fb::Launch> launch(const KernelLaunch &value);
  fbs::Offset<fb::Command> command(const Command &value);
  fbs::Offset<fb::Program> program(const Program &value);

  fbs::FlatBufferBuilder builder{1 << 16};
  std::map<std::string, Name> names;
};

} // namespace

fbs::Offset<fb::LibraryCall> Encoder::call(const LibraryCall &value) {
  auto input = shape(value.inputShape);
  auto weight = shape(value.weightShape);
  auto output = shape(value.outputShape);
  // What no other op has is stored for none.
  fbs::Offset<fbs::Vector<const fb::Affine *>> mask;
  if (!value.maskShape.empty())
    mask = shape(value.maskShape);
  auto strides = builder.CreateVector(value.strides);
  auto dilations = builder.CreateVector(value.dilations);
  auto padLow = builder.CreateVector(value.padLow);
  auto padHigh = builder.CreateVector(value.padHigh);
  auto window = builder.CreateVector(value.window);
  fb::LibraryCallBuilder table(builder);
  table.add_op(uint8_t(value.op));
  table.add_dtype(uint8_t(value.dtype));
  table.add_has_bias(value.hasBias);
  table.add_has_addend(value.hasAddend);
  table.add_channels_last(value.channelsLast);
  table.add_input_shape(input);
  table.add_weight_shape(weight);
  table.add_output_shape(output);
  table.add_strides(strides);
  table.add_dilations(dilations);
  table.add_pad_low(padLow);
  table.add_pad_high(padHigh);
  table.add_window(window);
  table.add_groups(value.groups);
  table.add_transpose_lhs(value.transposeLhs);
  table.add_transpose_rhs(value.transposeRhs);
  table.add_count_include_pad(value.countIncludePad);
  table.add_members(value.members);
  table.add_activation(uint8_t(value.activation));
  table.add_compute_tf32(value.computeTf32);
  table.add_weights_last(value.weightsLast);
  table.add_keeps_order(value.keepsOrder);
  if (!mask.IsNull())
    table.add_mask_shape(mask);
  table.add_scale(value.scale);
  table.add_causal(value.causal);
  table.add_bias_gradient(uint8_t(value.biasGradient));
  table.add_units(value.units);
  return table.Finish();
}

fbs::Offset<fb::CollectiveCall>
Encoder::collective(const CollectiveCall &value) {
  auto axes = builder.CreateVector(value.axes);
  std::vector<fbs::Offset<fb::CollectivePart>> parts;
  for (const CollectivePart &part : value.parts)
    parts.push_back(fb::CreateCollectivePart(builder, uint8_t(part.dtype),
                                             part.inPlace, shape(part.shape)));
  auto partList = builder.CreateVector(parts);
  auto sources = builder.CreateVector(value.sources);
  auto targets = builder.CreateVector(value.targets);
  return fb::CreateCollectiveCall(
      builder, uint8_t(value.op), uint8_t(value.reduction), axes, partList,
      value.dim, value.splitDim, value.concatDim, value.root, sources, targets,
      value.bucket, uint8_t(value.transport), value.isDirect, value.units);
}

fbs::Offset<fb::Mesh> Encoder::mesh(const Mesh &value) {
  auto name = text(value.name);
  std::vector<fbs::Offset<fb::MeshAxis>> axes;
  for (const auto &[axis, size] : value.axes)
    axes.push_back(fb::CreateMeshAxis(builder, text(axis), size));
  return fb::CreateMesh(builder, name, builder.CreateVector(axes));
}

fbs::Offset<fb::Launch> Encoder::launch(const KernelLaunch &value) {
  auto list = operands(value.operands);
  fb::Affine units(value.units.scale, value.units.base);
  fb::LaunchBuilder table(builder);
  table.add_kernel(value.kernel);
  table.add_operands(list);
  table.add_units(&units);
  table.add_grain(value.grain);
  return table.Finish();
}

fbs::Offset<fb::Command> Encoder::command(const Command &value) {
  // Only the parts that the command's kind uses are stored.
  auto name = text(value.name);
  bool isCall = value.kind == CommandKind::Call;
  fbs::Offset<fb::LibraryCall> callOffset;
  fbs::Offset<fbs::Vector<const fb::Operand *>> callOperands;
  fbs::Offset<fb::Launch> launchOffset, fallbackOffset;
  fbs::Offset<fb::Copy> copyOffset;
  bool isCollective = value.kind == CommandKind::Collective;
  fbs::Offset<fb::CollectiveCall> collectiveOffset;
  if (isCall)
    callOffset = call(value.call);
  if (isCollective)
    collectiveOffset = collective(value.collective);
  if (isCall || isCollective)
    callOperands = operands(value.operands);
  if (value.kind == CommandKind::Launch || (isCall && value.hasTail))
    launchOffset = launch(value.launch);
  if (isCall && value.hasFallback)
    fallbackOffset = launch(value.fallback);
  if (value.kind == CommandKind::Copy) {
    auto source = range(value.source), target = range(value.target);
    fb::Affine size(value.copySize.scale, value.copySize.base);
    copyOffset = fb::CreateCopy(builder, &source, &target, &size,
                                value.source.turn, value.target.turn);
  }
  fb::CommandBuilder table(builder);
  table.add_kind(uint8_t(value.kind));
  table.add_stream(value.stream);
  table.add_name(name);
  if (!launchOffset.IsNull())
    table.add_launch(launchOffset);
  if (!fallbackOffset.IsNull())
    table.add_fallback(fallbackOffset);
  if (isCall)
    table.add_call(callOffset);
  if (isCollective)
    table.add_collective(collectiveOffset);
  if (isCall || isCollective)
    table.add_operands(callOperands);
  if (!copyOffset.IsNull())
    table.add_copy(copyOffset);
  table.add_event(value.event);
  return table.Finish();
}

fbs::Offset<fb::Program> Encoder::program(const Program &value) {
  auto name = text(value.name);
  auto inputs = ports(value.inputs);
  auto outputs = ports(value.outputs);
  std::vector<fb::Segment> segments;
  for (const Segment &segment : value.segments)
    segments.emplace_back(segment.size, segment.alignment,
                          uint32_t(segment.kind));
  auto segmentList = builder.CreateVectorOfStructs(segments);
  std::vector<fbs::Offset<fb::Command>> commands;
  for (const Command &each : value.commands)
    commands.push_back(command(each));
  auto commandList = builder.CreateVector(commands);
  fbs::Offset<fb::Mesh> meshOffset;
  if (!value.mesh.axes.empty())
    meshOffset = mesh(value.mesh);
  fbs::Offset<fbs::Vector<fbs::Offset<fb::Turn>>> turnList;
  if (!value.turns.empty()) {
    std::vector<fbs::Offset<fb::Turn>> turns;
    for (const Turn &turn : value.turns)
      turns.push_back(fb::CreateTurn(builder, builder.CreateVector(turn.axes),
                                     turn.step, turn.shift));
    turnList = builder.CreateVector(turns);
  }
  return fb::CreateProgram(builder, name, inputs, outputs, segmentList,
                           commandList, value.streams, value.events,
                           value.minBatch, value.maxBatch, value.peakBytes,
                           meshOffset, turnList);
}

std::vector<uint8_t> Encoder::encode(const Module &module) {
  auto target = text(module.target);
  auto cpu = text(module.cpu);
  std::vector<Name> features;
  for (const std::string &feature : module.cpuFeatures)
    features.push_back(text(feature));
  auto featureList = builder.CreateVector(features);
  auto programOffset = program(module.program);
  std::vector<fbs::Offset<fb::Kernel>> kernels;
  for (const Kernel &kernel : module.kernels) {
    auto symbol = text(kernel.symbol);
    auto description = text(kernel.description);
    kernels.push_back(fb::CreateKernel(
        builder, symbol, description, kernel.threads, kernel.registers,
        kernel.spillBytes, kernel.sharedBytes, kernel.waits));
  }
  auto kernelList = builder.CreateVector(kernels);
  std::vector<fbs::Offset<fb::Import>> imports;
  for (const Import &import : module.imports) {
    auto name = text(import.name);
    auto signature = text(import.signature);
    imports.push_back(fb::CreateImport(builder, name, signature));
  }
  auto importList = builder.CreateVector(imports);
  std::vector<fbs::Offset<fb::Parameter>> parameters;
  for (const auto &[desc, where] : module.parameters) {
    auto descOffset = tensor(desc);
    auto encoded = range(where);
    parameters.push_back(fb::CreateParameter(builder, descOffset, &encoded));
  }
  auto parameterList = builder.CreateVector(parameters);
  std::vector<fbs::Offset<fb::KeyValue>> provenance;
  for (const auto &[key, value] : module.provenance) {
    auto keyOffset = text(key);
    auto valueOffset = text(value);
    provenance.push_back(fb::CreateKeyValue(builder, keyOffset, valueOffset));
  }
  auto provenanceList = builder.CreateVector(provenance);
  auto buildOffset = text(module.buildId);
  builder.Finish(fb::CreateModule(builder, target, cpu, featureList,
                                  programOffset, kernelList, importList,
                                  parameterList, provenanceList, buildOffset),
                 fb::ModuleIdentifier());
  return {builder.GetBufferPointer(),
          builder.GetBufferPointer() + builder.GetSize()};
}

/// A bound on the encoded size, before the builder (which can only hold 2 GiB)
/// is asked to make it.
static uint64_t estimateSize(const Module &module) {
  uint64_t bytes = 4096;
  for (const Command &command : module.program.commands)
    bytes +=
        16 + 32 * (command.operands.size() + command.launch.operands.size() +
                   command.collective.parts.size());
  bytes += 40 * (module.program.inputs.size() + module.program.outputs.size() +
                 module.parameters.size() + module.kernels.size());
  for (const auto &[key, value] : module.provenance)
    bytes += key.size() + value.size();
  for (const Kernel &kernel : module.kernels)
    bytes += kernel.description.size();
  return bytes;
}

Expected<std::vector<uint8_t>> fusion::rt::encodeHeader(const Module &module) {
  Status tooLarge(Code::Resources,
                  "module header: larger than 64 MiB, the format's limit; "
                  "split the program");
  if (estimateSize(module) > 2 * limits::kHeaderBytes)
    return tooLarge;
  std::vector<uint8_t> bytes = Encoder().encode(module);
  if (bytes.size() > limits::kHeaderBytes)
    return tooLarge;
  return bytes;
}

Expected<Digest> fusion::rt::scheduleHash(const Program &program) {
  Module module;
  module.program = program;
  auto bytes = encodeHeader(module);
  if (!bytes)
    return bytes.status();
  return sha256(bytes->data(), bytes->size());
}

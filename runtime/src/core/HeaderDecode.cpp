//===- HeaderDecode.cpp - FlatBuffer header -> module structs -------------===//
//
// Parses an untrusted header. FlatBuffers' verifier proves that every offset
// stays inside the buffer; offsets may still be shared, so that a small header
// could unfold into a huge one: a budget of decoded bytes bounds that. Enum
// values, names and counts are checked here, meaning in `verifyModule`.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "HeaderCodec.h"
#include "Limits.h"
#include "Text.h"
#include "module_generated.h"

using namespace fusion::rt;
namespace fbs = flatbuffers;

namespace {

class Decoder {
public:
  explicit Decoder(uint64_t budget) : budget(budget) {}

  /// Fills `module`; false on failure, `error` then says why.
  bool decode(const fb::Module &from, Module &module);

  Status error;

private:
  bool fail(const std::string &what) {
    if (error.ok())
      error = Status(Code::Rejected, "module header: " + what);
    return false;
  }

  bool charge(uint64_t bytes) {
    if (bytes > budget)
      return fail("decodes to more memory than a header of its size may");
    budget -= bytes;
    return true;
  }

  /// The FlatBuffers verifier leaves the alignment of vector elements and
  /// structs to the writer; reading them elsewhere would be undefined.
  bool isAligned(const void *data) {
    return reinterpret_cast<uintptr_t>(data) % 8 == 0
               ? true
               : fail("64-bit values are not aligned");
  }

  /// An empty vector may end anywhere.
  template <typename V> bool isAlignedVector(const V *vector) {
    return vector->size() == 0 || isAligned(vector->Data());
  }

  template <typename T> bool resize(std::vector<T> &list, uint64_t count) {
    if (!charge(count * sizeof(T)))
      return false;
    list.resize(count);
    return true;
  }

  bool text(const fbs::String *from, std::string &to,
            uint64_t limit = limits::kNameBytes) {
    if (!from)
      return true;
    if (from->size() > limit)
      return fail("a name has " + std::to_string(from->size()) +
                  " bytes, more than " + std::to_string(limit));
    if (!charge(from->size()))
      return false;
    to.assign(from->data(), from->size());
    return isUtf8(to) ? true : fail("a name is not valid UTF-8");
  }

  template <typename E>
  bool enumValue(uint64_t from, E last, E &to, const char *what) {
    if (from > uint64_t(last))
      return fail(std::string("unknown ") + what + " " + std::to_string(from));
    to = E(from);
    return true;
  }

  bool shape(const fbs::Vector<const fb::Affine *> *from,
             std::vector<Affine> &to) {
    if (!from)
      return true;
    if (from->size() > limits::kRank)
      return fail("rank " + std::to_string(from->size()) +
                  " exceeds the limit of 16");
    if (!isAlignedVector(from) || !resize(to, from->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < from->size(); ++i)
      to[i] = {from->Get(i)->scale(), from->Get(i)->base()};
    return true;
  }

  bool numbers(const fbs::Vector<int64_t> *from, std::vector<int64_t> &to) {
    if (!from)
      return true;
    if (from->size() > limits::kRank)
      return fail("a list of window attributes is longer than 16");
    if (!isAlignedVector(from) || !resize(to, from->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < from->size(); ++i)
      to[i] = from->Get(i);
    return true;
  }

  static ByteRange range(const fb::ByteRange &from) {
    return {from.segment(), from.offset(), from.size(), from.allocation(), 0};
  }
  bool range(const fb::ByteRange *from, ByteRange &to) {
    if (!isAligned(from))
      return false;
    to = range(*from);
    return true;
  }

  bool affine(const fb::Affine *from, Affine &to) {
    if (from && !isAligned(from))
      return false;
    to = from ? Affine{from->scale(), from->base()} : Affine{};
    return true;
  }

  bool operands(const fbs::Vector<const fb::Operand *> *from,
                std::vector<Operand> &to) {
    if (!from)
      return true;
    if (from->size() > limits::kOperands)
      return fail("a command has more than 65536 operands");
    if (!isAlignedVector(from) || !resize(to, from->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < from->size(); ++i) {
      const fb::Operand *operand = from->Get(i);
      if (operand->flags() & ~uint64_t(0xffffffff00000703))
        return fail("unknown operand flags");
      to[i].dtype = DType(operand->flags() >> 8 & 7);
      to[i].range = range(operand->range());
      to[i].range.turn = uint32_t(operand->flags() >> 32);
      to[i].reads = operand->flags() & 1;
      to[i].writes = operand->flags() & 2;
    }
    return true;
  }

  bool tensor(const fb::TensorDesc *from, TensorDesc &to) {
    return text(from->name(), to.name) &&
           enumValue(from->dtype(), DType::I64, to.dtype, "element type") &&
           shape(from->shape(), to.shape);
  }

  bool axisList(const fbs::Vector<uint32_t> *from, std::vector<uint32_t> &to) {
    if (!from)
      return true;
    if (from->size() > limits::kMeshAxes)
      return fail("a list of mesh axes is longer than 16");
    if (!resize(to, from->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < from->size(); ++i)
      to[i] = from->Get(i);
    return true;
  }

  bool sharding(const fbs::Vector<fbs::Offset<fb::AxisList>> *from,
                std::vector<std::vector<uint32_t>> &to) {
    if (!from)
      return true;
    if (from->size() > limits::kRank)
      return fail("a sharding has more than 16 dimensions");
    if (!resize(to, from->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < from->size(); ++i)
      if (!axisList(from->Get(i)->axes(), to[i]))
        return false;
    return true;
  }

  /// Pairs of a permutation: one a rank.
  bool ranks(const fbs::Vector<int64_t> *from, std::vector<int64_t> &to) {
    if (!from)
      return true;
    if (from->size() > limits::kRanks)
      return fail("a permutation has more than 1024 pairs");
    if (!isAlignedVector(from) || !resize(to, from->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < from->size(); ++i)
      to[i] = from->Get(i);
    return true;
  }

  bool ports(const fbs::Vector<fbs::Offset<fb::Port>> *from,
             std::vector<Port> &to) {
    if (!from)
      return true;
    if (from->size() > limits::kTensors)
      return fail("more than 1000000 inputs or outputs");
    if (!resize(to, from->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < from->size(); ++i) {
      if (!tensor(from->Get(i)->tensor(), to[i].tensor))
        return false;
      to[i].segment = from->Get(i)->segment();
      to[i].donatedTo = from->Get(i)->donated_to();
      if (!sharding(from->Get(i)->sharding(), to[i].sharding) ||
          !numbers(from->Get(i)->global_shape(), to[i].globalShape))
        return false;
    }
    return true;
  }

  bool call(const fb::LibraryCall &from, LibraryCall &to);
  bool collective(const fb::CollectiveCall &from, CollectiveCall &to);
  bool mesh(const fb::Mesh &from, Mesh &to);
  bool launch(const fb::Launch &from, KernelLaunch &to);
  bool command(const fb::Command &from, Command &to);
  bool program(const fb::Program &from, Program &to);

  uint64_t budget;
};

} // namespace

bool Decoder::call(const fb::LibraryCall &from, LibraryCall &to) {
  to.hasBias = from.has_bias();
  to.hasAddend = from.has_addend();
  to.channelsLast = from.channels_last();
  to.groups = from.groups();
  to.transposeLhs = from.transpose_lhs();
  to.transposeRhs = from.transpose_rhs();
  to.countIncludePad = from.count_include_pad();
  to.members = from.members();
  to.computeTf32 = from.compute_tf32();
  to.weightsLast = from.weights_last();
  to.keepsOrder = from.keeps_order();
  to.scale = from.scale();
  to.causal = from.causal();
  to.units = from.units();
  return enumValue(from.op(), LibraryOp::AttentionGrad, to.op,
                   "library call") &&
         enumValue(from.activation(), Activation::GeluTanhGrad, to.activation,
                   "activation") &&
         enumValue(from.bias_gradient(), BiasGradient::Result, to.biasGradient,
                   "bias gradient") &&
         enumValue(from.dtype(), DType::I64, to.dtype, "element type") &&
         shape(from.input_shape(), to.inputShape) &&
         shape(from.weight_shape(), to.weightShape) &&
         shape(from.output_shape(), to.outputShape) &&
         shape(from.mask_shape(), to.maskShape) &&
         numbers(from.strides(), to.strides) &&
         numbers(from.dilations(), to.dilations) &&
         numbers(from.pad_low(), to.padLow) &&
         numbers(from.pad_high(), to.padHigh) &&
         numbers(from.window(), to.window);
}

bool Decoder::collective(const fb::CollectiveCall &from, CollectiveCall &to) {
  to.dim = from.dim();
  to.splitDim = from.split_dim();
  to.concatDim = from.concat_dim();
  to.root = from.root();
  to.bucket = from.bucket();
  to.isDirect = from.direct();
  to.units = from.units();
  if (auto *parts = from.parts()) {
    if (parts->size() > limits::kOperands)
      return fail("a collective has more than 65536 parts");
    if (!resize(to.parts, parts->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < parts->size(); ++i) {
      const fb::CollectivePart &part = *parts->Get(i);
      to.parts[i].inPlace = part.in_place();
      if (!enumValue(part.dtype(), DType::I64, to.parts[i].dtype,
                     "element type") ||
          !shape(part.shape(), to.parts[i].shape))
        return false;
    }
  }
  return enumValue(from.op(), CollectiveOp::Release, to.op, "collective") &&
         enumValue(from.reduction(), Reduction::Prod, to.reduction,
                   "reduction") &&
         enumValue(from.transport(), CollectiveTransport::Peer, to.transport,
                   "transport") &&
         axisList(from.axes(), to.axes) && ranks(from.sources(), to.sources) &&
         ranks(from.targets(), to.targets);
}

bool Decoder::mesh(const fb::Mesh &from, Mesh &to) {
  if (!text(from.name(), to.name))
    return false;
  auto *axes = from.axes();
  if (!axes)
    return true;
  if (axes->size() > limits::kMeshAxes)
    return fail("a mesh has more than 16 axes");
  if (!resize(to.axes, axes->size()))
    return false;
  for (fbs::uoffset_t i = 0; i < axes->size(); ++i) {
    to.axes[i].second = axes->Get(i)->size();
    if (!text(axes->Get(i)->name(), to.axes[i].first))
      return false;
  }
  return true;
}

bool Decoder::launch(const fb::Launch &from, KernelLaunch &to) {
  to.kernel = from.kernel();
  to.grain = from.grain();
  return affine(from.units(), to.units) &&
         operands(from.operands(), to.operands);
}

bool Decoder::command(const fb::Command &from, Command &to) {
  to.stream = from.stream();
  to.event = from.event();
  if (!enumValue(from.kind(), CommandKind::Wait, to.kind, "command") ||
      !text(from.name(), to.name))
    return false;
  bool isCall = to.kind == CommandKind::Call;
  if ((to.kind == CommandKind::Launch && !from.launch()) ||
      (isCall && !from.call()) ||
      (to.kind == CommandKind::Collective && !from.collective()) ||
      (to.kind == CommandKind::Copy &&
       (!from.copy() || !from.copy()->source() || !from.copy()->target() ||
        !from.copy()->size())))
    return fail("a command lacks its description");
  if (from.launch() && (to.kind == CommandKind::Launch || isCall)) {
    to.hasTail = isCall;
    if (!launch(*from.launch(), to.launch))
      return false;
  }
  if (isCall && from.fallback()) {
    to.hasFallback = true;
    if (!launch(*from.fallback(), to.fallback))
      return false;
  }
  if (isCall &&
      (!call(*from.call(), to.call) || !operands(from.operands(), to.operands)))
    return false;
  if (to.kind == CommandKind::Collective)
    return collective(*from.collective(), to.collective) &&
           operands(from.operands(), to.operands);
  if (to.kind == CommandKind::Copy) {
    bool ok = range(from.copy()->source(), to.source) &&
              range(from.copy()->target(), to.target) &&
              affine(from.copy()->size(), to.copySize);
    to.source.turn = from.copy()->source_turn();
    to.target.turn = from.copy()->target_turn();
    return ok;
  }
  return true;
}

bool Decoder::program(const fb::Program &from, Program &to) {
  if (!text(from.name(), to.name) || !ports(from.inputs(), to.inputs) ||
      !ports(from.outputs(), to.outputs))
    return false;
  if (auto *segments = from.segments()) {
    if (segments->size() > limits::kTensors)
      return fail("more than 1000000 segments");
    if (!isAlignedVector(segments) || !resize(to.segments, segments->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < segments->size(); ++i) {
      to.segments[i].size = segments->Get(i)->size();
      to.segments[i].alignment = segments->Get(i)->alignment();
      if (!enumValue(segments->Get(i)->kind(), SegmentKind::Output,
                     to.segments[i].kind, "segment kind"))
        return false;
    }
  }
  if (auto *commands = from.commands()) {
    if (commands->size() > limits::kCommands)
      return fail("more than 10000000 commands");
    if (!resize(to.commands, commands->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < commands->size(); ++i)
      if (!command(*commands->Get(i), to.commands[i]))
        return false;
  }
  if (from.mesh() && !mesh(*from.mesh(), to.mesh))
    return false;
  if (auto *turns = from.turns()) {
    if (turns->size() > limits::kTensors)
      return fail("more than 1000000 turns");
    if (!resize(to.turns, turns->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < turns->size(); ++i) {
      to.turns[i].step = turns->Get(i)->step();
      to.turns[i].shift = turns->Get(i)->shift();
      if (!axisList(turns->Get(i)->axes(), to.turns[i].axes))
        return false;
    }
  }
  to.streams = from.streams();
  to.events = from.events();
  to.minBatch = from.min_batch();
  to.maxBatch = from.max_batch();
  to.peakBytes = from.peak_bytes();
  return true;
}

bool Decoder::decode(const fb::Module &from, Module &module) {
  if (!text(from.target(), module.target) || !text(from.cpu(), module.cpu) ||
      !text(from.build_id(), module.buildId))
    return false;
  auto list = [&](auto *elements, auto &to, auto convert) {
    if (!elements)
      return true;
    if (elements->size() > limits::kTensors)
      return fail("a list has more than 1000000 entries");
    if (!resize(to, elements->size()))
      return false;
    for (fbs::uoffset_t i = 0; i < elements->size(); ++i)
      if (!convert(*elements->Get(i), to[i]))
        return false;
    return true;
  };
  return list(from.cpu_features(), module.cpuFeatures,
              [&](const fbs::String &feature, std::string &to) {
                return text(&feature, to);
              }) &&
         program(*from.program(), module.program) &&
         list(from.kernels(), module.kernels,
              [&](const fb::Kernel &kernel, Kernel &to) {
                to.threads = kernel.threads();
                to.registers = kernel.registers();
                to.spillBytes = kernel.spill_bytes();
                to.sharedBytes = kernel.shared_bytes();
                to.waits = kernel.waits();
                return text(kernel.symbol(), to.symbol) &&
                       text(kernel.description(), to.description,
                            limits::kHeaderBytes);
              }) &&
         list(from.imports(), module.imports,
              [&](const fb::Import &import, Import &to) {
                return text(import.name(), to.name) &&
                       text(import.signature(), to.signature);
              }) &&
         list(from.parameters(), module.parameters,
              [&](const fb::Parameter &parameter, auto &to) {
                if (!parameter.range())
                  return fail("a parameter lacks its byte range");
                if (!range(parameter.range(), to.second))
                  return false;
                return tensor(parameter.tensor(), to.first);
              }) &&
         list(from.provenance(), module.provenance,
              [&](const fb::KeyValue &line, auto &to) {
                return text(line.key(), to.first) &&
                       text(line.value(), to.second, limits::kHeaderBytes);
              });
}

Expected<Module> fusion::rt::decodeHeader(const uint8_t *data, size_t size) {
  // The smallest table takes eight bytes: more tables than that are shared.
  fbs::Verifier verifier(data, size, /*max_depth=*/16,
                         /*max_tables=*/fbs::uoffset_t(size / 8 + 1));
  if (size < 16 || !fb::ModuleBufferHasIdentifier(data) ||
      !fb::VerifyModuleBuffer(verifier))
    return Status(Code::Rejected, "module header: malformed FlatBuffer");
  Decoder decoder((uint64_t(64) << 20) + 32 * uint64_t(size));
  Module module;
  if (!decoder.decode(*fb::GetModule(data), module))
    return decoder.error;
  return module;
}

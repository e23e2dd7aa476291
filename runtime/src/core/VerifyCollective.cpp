//===- VerifyCollective.cpp - Meshes, shardings and collectives -----------===//
//
// A communicator moves the bytes that a collective's shapes give, so every
// operand must be as large as its shape says, on every rank alike. Shapes never
// shrink as the batch grows: sizes at the largest batch bound all others.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Limits.h"
#include "Mesh.h"
#include "Text.h"
#include "VerifyModule.h"

#include <algorithm>
#include <set>

using namespace fusion::rt;

static Status bad(const std::string &what) {
  return Status(Code::BadProgram, what);
}

Status fusion::rt::verifyMesh(const Mesh &mesh) {
  if (mesh.axes.size() > limits::kMeshAxes)
    return bad("a mesh of more than 16 axes");
  std::set<std::string> names;
  uint64_t ranks = 1;
  for (const auto &[name, size] : mesh.axes) {
    if (name.empty() || name.size() > limits::kNameBytes || !isUtf8(name) ||
        !names.insert(name).second)
      return bad("mesh axis '" + escape(name) +
                 "': names are distinct UTF-8 of 1 to 4096 bytes");
    if (size < 1 || size > limits::kRanks || (ranks *= size) > limits::kRanks)
      return bad("mesh '" + escape(mesh.name) +
                 "' has an empty axis or more than 1024 ranks");
  }
  if (mesh.name.size() > limits::kNameBytes || !isUtf8(mesh.name))
    return bad("mesh name is not UTF-8 of at most 4096 bytes");
  return {};
}

/// Whether `axes` are axes of the mesh, none of them twice (nor in `seen`).
static bool areAxes(const Mesh &mesh, const std::vector<uint32_t> &axes,
                    std::set<uint32_t> &seen) {
  return std::all_of(axes.begin(), axes.end(), [&](uint32_t axis) {
    return axis < mesh.axes.size() && seen.insert(axis).second;
  });
}

Status fusion::rt::verifySharding(const Mesh &mesh, const Port &port,
                                  int64_t maxBatch) {
  std::string name = "port '" + escape(port.tensor.name) + "': ";
  size_t rank = port.tensor.shape.size();
  std::set<uint32_t> seen;
  if (!port.sharding.empty() && port.sharding.size() != rank)
    return bad(name + "its sharding has not one list a dimension");
  for (const std::vector<uint32_t> &axes : port.sharding)
    if (!areAxes(mesh, axes, seen))
      return bad(name + "its sharding names an axis twice, or one that the "
                        "mesh lacks");
  if (!port.globalShape.empty() && port.globalShape.size() != rank)
    return bad(name + "its global shape has another rank");
  for (size_t d = 0; d < port.globalShape.size(); ++d) {
    Affine local = port.tensor.shape[d];
    int64_t parts = d < port.sharding.size()
                        ? int64_t(groupSize(mesh, port.sharding[d]))
                        : 1;
    auto padded = checkedMul(local.base, parts);
    if (local.scale != 0 || !padded || port.globalShape[d] < 0 ||
        port.globalShape[d] > *padded)
      return bad(name + "its global shape is larger than all shards, or its "
                        "dimension depends on the batch");
  }
  // The whole tensor must be countable too, for files that hold it.
  uint64_t bytes = elementSize(port.tensor.dtype);
  for (size_t d = 0; d < rank; ++d) {
    int64_t local = evaluate(port.tensor.shape[d], maxBatch).value_or(0);
    auto size = checkedMul(bytes, uint64_t(std::max<int64_t>(
                                      1, globalSize(mesh, port, d, local))));
    if (!size || *size > limits::kElements * 8)
      return bad(name + "the tensor over all ranks is too large");
    bytes = *size;
  }
  return {};
}

namespace {

class CollectiveVerifier {
public:
  CollectiveVerifier(const Command &command, const Mesh &mesh, int64_t minBatch,
                     int64_t maxBatch)
      : command(command), call(command.collective), mesh(mesh),
        minBatch(minBatch), maxBatch(maxBatch) {}

  Status verify();

private:
  Status bad(const std::string &what) {
    return Status(Code::BadProgram,
                  "command '" + escape(command.name) + "': " + what,
                  command.name);
  }
  Status verifyAttributes();
  Status verifyPairs();
  Status verifyDirect();
  Status verifyRelease();
  Status verifyPart(const CollectivePart &part, size_t &operand);
  bool isDim(int64_t dim, const CollectivePart &part) {
    return dim >= 0 && size_t(dim) < part.shape.size();
  }

  const Command &command;
  const CollectiveCall &call;
  const Mesh &mesh;
  int64_t minBatch, maxBatch;
  int64_t group = 1;
};

} // namespace

Status CollectiveVerifier::verifyPairs() {
  if (call.sources.size() != call.targets.size())
    return bad("a permutation with more sources than targets, or fewer");
  std::set<int64_t> from, to;
  for (size_t i = 0; i < call.sources.size(); ++i)
    if (call.sources[i] < 0 || call.sources[i] >= group ||
        call.targets[i] < 0 || call.targets[i] >= group ||
        !from.insert(call.sources[i]).second ||
        !to.insert(call.targets[i]).second)
      return bad("a permutation names a rank twice, or one outside its group "
                 "of " +
                 std::to_string(group));
  return {};
}

Status CollectiveVerifier::verifyAttributes() {
  if (mesh.axes.empty())
    return bad("a collective in a program without a mesh");
  std::set<uint32_t> seen;
  if (call.axes.empty() || !areAxes(mesh, call.axes, seen))
    return bad("a collective on no axis, on one twice, or on one that the mesh "
               "lacks");
  group = groupSize(mesh, call.axes);
  if (call.op == CollectiveOp::Broadcast &&
      (call.root < 0 || call.root >= group))
    return bad("the root " + std::to_string(call.root) +
               " is not in the group of " + std::to_string(group));
  if (call.transport == CollectiveTransport::Peer &&
      (call.op == CollectiveOp::AllReduce ||
       call.op == CollectiveOp::ReduceScatter))
    return bad("a reduction over peer copies, which add nothing");
  if (call.op == CollectiveOp::Permute)
    FUSION_RT_TRY(verifyPairs());
  else if (!call.sources.empty() || !call.targets.empty())
    return bad("sources and targets of what is no permutation");
  return call.isDirect ? verifyDirect() : Status();
}

/// What each rank reads of another is one run of bytes that all can name.
Status CollectiveVerifier::verifyDirect() {
  bool isWhole =
      call.op == CollectiveOp::Permute && call.targets.size() == size_t(group);
  bool isGather = call.op == CollectiveOp::AllGather && call.dim == 0;
  bool isExchange = call.op == CollectiveOp::AllToAll && call.splitDim == 0 &&
                    call.concatDim == 0;
  if (call.transport != CollectiveTransport::Peer)
    return bad("a direct collective that is not over peer copies");
  if (!isWhole && !isGather && !isExchange)
    return bad("a direct collective that is no permutation of all ranks, nor a "
               "gather or exchange along dimension 0");
  for (const CollectivePart &part : call.parts) {
    if (part.inPlace)
      return bad("a direct collective in place");
    for (Affine dim : part.shape)
      if (dim.scale != 0)
        return bad("a direct collective of a size that depends on the batch");
  }
  return {};
}

/// The moves that its operands belong to are the schedule's matter (S9).
Status CollectiveVerifier::verifyRelease() {
  if (!call.parts.empty() || call.isDirect)
    return bad("a release that moves something");
  if (command.operands.empty() || command.operands.size() % 2 != 0)
    return bad("a release of no pairs of operands");
  for (size_t i = 0; i < command.operands.size(); ++i)
    if (!command.operands[i].reads ||
        command.operands[i].writes != (i % 2 == 1))
      return bad("operand " + std::to_string(i) +
                 " is not accessed as its place says");
  return {};
}

Status CollectiveVerifier::verifyPart(const CollectivePart &part,
                                      size_t &operand) {
  bool reduces = call.op == CollectiveOp::AllReduce ||
                 call.op == CollectiveOp::ReduceScatter;
  if (uint8_t(part.dtype) > uint8_t(DType::I64) ||
      (reduces && part.dtype == DType::I1))
    return bad("an element type that it can't combine");
  if (part.inPlace && call.op != CollectiveOp::AllReduce &&
      call.op != CollectiveOp::Broadcast && call.op != CollectiveOp::Permute)
    return bad("a part in place whose result has another shape");
  for (Affine dim : part.shape)
    if (dim.scale < 0)
      return bad("a dimension shrinks as the batch grows");
  bool hasDims = true;
  if (call.op == CollectiveOp::AllGather ||
      call.op == CollectiveOp::ReduceScatter)
    hasDims = isDim(call.dim, part);
  if (call.op == CollectiveOp::AllToAll)
    hasDims = isDim(call.splitDim, part) && isDim(call.concatDim, part);
  if (!hasDims)
    return bad("names a dimension that a part lacks");
  int64_t cut = call.op == CollectiveOp::ReduceScatter ? call.dim
                : call.op == CollectiveOp::AllToAll    ? call.splitDim
                                                       : -1;
  if (cut >= 0 &&
      (part.shape[cut].scale % group || part.shape[cut].base % group))
    return bad("a dimension has no " + std::to_string(group) + " equal parts");
  auto input = byteCount(part.shape, part.dtype, maxBatch);
  if (!input || !byteCount(part.shape, part.dtype, minBatch))
    return bad("shape " + shapeText(part.shape) + " is negative or too large");
  std::optional<uint64_t> output = input;
  if (call.op == CollectiveOp::AllGather)
    output = checkedMul<uint64_t>(*input, uint64_t(group));
  if (call.op == CollectiveOp::ReduceScatter)
    output = *input / uint64_t(group);
  if (!output || *output > limits::kElements * 8)
    return bad("the result of a part is too large");
  for (int i = 0; i < (part.inPlace ? 1 : 2); ++i, ++operand) {
    const Operand &access = command.operands[operand];
    if (access.range.size != (i ? *output : *input))
      return bad("operand " + std::to_string(operand) + " has " +
                 std::to_string(access.range.size) +
                 " bytes, its shape needs " +
                 std::to_string(i ? *output : *input));
    bool reads = i == 0, writes = part.inPlace || i == 1;
    if (access.reads != reads || access.writes != writes)
      return bad("operand " + std::to_string(operand) +
                 " is not accessed as its place says");
  }
  return {};
}

Status CollectiveVerifier::verify() {
  FUSION_RT_TRY(verifyAttributes());
  if (call.units > limits::kUnits)
    return bad("more than 65536 multiprocessors");
  if (call.op == CollectiveOp::AxisIndex) {
    if (!call.parts.empty() || command.operands.size() != 1 ||
        command.operands[0].range.size != 8 || command.operands[0].reads ||
        !command.operands[0].writes)
      return bad("axis_index writes one operand of 8 bytes");
    return {};
  }
  if (call.op == CollectiveOp::Release)
    return verifyRelease();
  if (call.parts.empty() || call.parts.size() > limits::kOperands)
    return bad("a collective of no part, or of more than 65536");
  size_t expected = 0, operand = 0;
  for (const CollectivePart &part : call.parts)
    expected += part.inPlace ? 1 : 2;
  if (command.operands.size() != expected)
    return bad(std::to_string(command.operands.size()) +
               " operands, its parts need " + std::to_string(expected));
  for (const CollectivePart &part : call.parts)
    FUSION_RT_TRY(verifyPart(part, operand));
  return {};
}

Status fusion::rt::verifyCollective(const Command &command, const Mesh &mesh,
                                    int64_t minBatch, int64_t maxBatch) {
  return CollectiveVerifier(command, mesh, minBatch, maxBatch).verify();
}

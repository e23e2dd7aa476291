//===- HostCollective.cpp - Messages and reductions of processes ----------===//
#include "HostCollective.h"
#include "Reduce.h"

#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::host;

/// Members send each other whole inputs up to this size: one round of messages
/// instead of two.
static constexpr uint64_t kOneRoundBytes = 16 << 10;
/// A reduction works on chunks of at most this size a member, which bounds the
/// memory for what others send.
static constexpr uint64_t kChunkBytes = 1 << 20;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

uint64_t host::partElements(const PartBuffer &part) {
  uint64_t elements = 1;
  for (int64_t dim : part.shape)
    elements *= uint64_t(dim);
  return elements;
}

void HostCollective::makeHeader() {
  Header &own = member.own;
  own = {};
  own.sequence = member.sequence;
  own.command = run.command;
  own.parts = uint32_t(run.parts.size());
  own.op = uint8_t(call.op);
  own.reduction = uint8_t(call.reduction);
  own.dtype = run.parts.empty() ? 0 : uint8_t(run.parts[0].dtype);
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a, a word at a time
  auto mix = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  for (const PartBuffer &part : run.parts) {
    own.elements += partElements(part);
    mix(uint64_t(part.dtype));
    mix(part.shape.size());
    for (int64_t dim : part.shape)
      mix(uint64_t(dim));
  }
  for (uint64_t word :
       {own.command, own.elements, uint64_t(own.parts), uint64_t(own.op),
        uint64_t(own.reduction), uint64_t(call.dim), uint64_t(call.splitDim),
        uint64_t(call.concatDim), uint64_t(call.root)})
    mix(word);
  for (const auto *list : {&call.sources, &call.targets})
    for (int64_t position : *list)
      mix(uint64_t(position));
  own.hash = hash;
  member.sentHeader = false;
}

static std::string headerText(const Header &header) {
  return std::string(
             collectiveName(CollectiveOp(std::min<int>(header.op, 6)))) +
         " of " + std::to_string(header.elements) + " " +
         dtypeName(DType(header.dtype)) + " elements in " +
         std::to_string(header.parts) + " parts (number " +
         std::to_string(header.sequence) + " of its group, command " +
         std::to_string(header.command) + ")";
}

Status HostCollective::describe(const Status &failure, int mismatch) {
  if (mismatch >= 0 && size_t(mismatch) < receives.size()) {
    uint32_t peer = receives[size_t(mismatch)].peer;
    uint32_t other = member.group.ranks[peer];
    return Status(Code::Timeout,
                  "ranks disagree: rank " + std::to_string(other) + " runs " +
                      headerText(member.headers[peer]) + ", rank " +
                      std::to_string(member.group.ranks[self]) + " runs " +
                      headerText(member.own),
                  {}, int(other));
  }
  int peer = failure.rank();
  int other = peer >= 0 && uint32_t(peer) < count
                  ? int(member.group.ranks[size_t(peer)])
                  : -1;
  std::string who = other >= 0 ? "rank " + std::to_string(other) : "a rank";
  return Status(failure.code(),
                failure.code() == Code::Timeout
                    ? who + " sent nothing in time for " +
                          headerText(member.own)
                    : "lost " + who + " during " + headerText(member.own) +
                          ": " + failure.message(),
                {}, other);
}

Status HostCollective::flush() {
  if (!member.sentHeader) {
    member.sentHeader = true;
    std::vector<Transfer> headers;
    for (uint32_t peer = 0; peer < count; ++peer) {
      if (peer == self)
        continue;
      headers.push_back({peer, &member.headers[peer], sizeof(Header),
                         headerTag(), &member.own});
      sends.insert(sends.begin(), {peer, &member.own, sizeof(Header),
                                   headerTag(), nullptr, /*isHeader=*/true});
    }
    // Waited for first: data of another collective never comes.
    receives.insert(receives.begin(), headers.begin(), headers.end());
  }
  int mismatch = -1;
  Status status = member.transport->exchange(receives, sends, mismatch);
  if (!status.ok())
    return describe(status, mismatch);
  receives.clear();
  sends.clear();
  return {};
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Calls `visit(input, output, size)` for the bytes [from, from + size) of the
/// pieces put end to end.
template <typename Visit>
static void forBytes(const std::vector<Piece> &pieces, uint64_t from,
                     uint64_t size, Visit visit) {
  uint64_t start = 0;
  for (const Piece &piece : pieces) {
    uint64_t end = start + piece.size;
    if (from < end && size > 0) {
      uint64_t skip = from - start, part = std::min(size, end - from);
      visit(piece.input + skip, piece.output + skip, part);
      from += part;
      size -= part;
    }
    start = end;
  }
}

/// Those bytes of the inputs at one place: where they are, or copied.
static const char *packInputs(const std::vector<Piece> &pieces, uint64_t from,
                              uint64_t size, Staging &staging) {
  const char *whole = nullptr;
  forBytes(pieces, from, size, [&](const char *input, char *, uint64_t part) {
    if (part == size)
      whole = input;
  });
  if (whole || size == 0)
    return whole;
  char *copy = staging.take(size), *to = copy;
  forBytes(pieces, from, size, [&](const char *input, char *, uint64_t part) {
    std::memcpy(to, input, part);
    to += part;
  });
  return copy;
}

/// The place of those bytes in the outputs, or null if it is not one.
static char *placeOf(const std::vector<Piece> &pieces, uint64_t from,
                     uint64_t size) {
  char *whole = nullptr;
  forBytes(pieces, from, size, [&](const char *, char *output, uint64_t part) {
    if (part == size)
      whole = output;
  });
  return whole;
}

static void unpackOutputs(const std::vector<Piece> &pieces, uint64_t from,
                          uint64_t size, const char *source) {
  forBytes(pieces, from, size, [&](const char *, char *output, uint64_t part) {
    std::memcpy(output, source, part);
    source += part;
  });
}

/// Everybody sends everything and combines all of it: one round.
Status HostCollective::reduceWhole(DType dtype,
                                   const std::vector<Piece> &pieces,
                                   uint64_t from, uint64_t elements) {
  uint64_t size = elements * elementSize(dtype);
  from *= elementSize(dtype);
  std::vector<const void *> inputs(count);
  const char *own = packInputs(pieces, from, size, member.staging);
  for (uint32_t peer = 0; peer < count; ++peer) {
    if (peer == self) {
      inputs[peer] = own;
      continue;
    }
    char *received = member.staging.take(size);
    receive(peer, received, size);
    send(peer, own, size);
    inputs[peer] = received;
  }
  FUSION_RT_TRY(flush());
  char *place = placeOf(pieces, from, size);
  char *result = place || size == 0 ? place : member.staging.take(size);
  reduceElements(dtype, call.reduction, result, inputs.data(), count, elements);
  if (!place)
    unpackOutputs(pieces, from, size, result);
  return {};
}

/// Each member combines one chunk and sends it to all.
Status HostCollective::reduceChunk(DType dtype,
                                   const std::vector<Piece> &pieces,
                                   uint64_t from, uint64_t elements) {
  uint64_t width = elementSize(dtype);
  auto start = [&](uint64_t chunk) {
    return (from + elements * chunk / count) * width;
  };
  auto sizeOf = [&](uint64_t chunk) { return start(chunk + 1) - start(chunk); };
  std::vector<const void *> inputs(count);
  for (uint32_t peer = 0; peer < count; ++peer) {
    if (peer == self) {
      inputs[peer] =
          packInputs(pieces, start(self), sizeOf(self), member.staging);
      continue;
    }
    char *received = member.staging.take(sizeOf(self));
    receive(peer, received, sizeOf(self));
    inputs[peer] = received;
    send(peer, packInputs(pieces, start(peer), sizeOf(peer), member.staging),
         sizeOf(peer));
  }
  FUSION_RT_TRY(flush());
  char *place = placeOf(pieces, start(self), sizeOf(self));
  char *result =
      place || sizeOf(self) == 0 ? place : member.staging.take(sizeOf(self));
  reduceElements(dtype, call.reduction, result, inputs.data(), count,
                 sizeOf(self) / width);
  std::vector<char *> received(count);
  for (uint32_t peer = 0; peer < count; ++peer) {
    if (peer == self)
      continue;
    send(peer, result, sizeOf(self));
    received[peer] = placeOf(pieces, start(peer), sizeOf(peer));
    if (!received[peer])
      received[peer] = member.staging.take(sizeOf(peer));
    receive(peer, received[peer], sizeOf(peer));
  }
  FUSION_RT_TRY(flush());
  received[self] = result;
  for (uint32_t chunk = 0; chunk < count; ++chunk)
    if (received[chunk] != placeOf(pieces, start(chunk), sizeOf(chunk)))
      unpackOutputs(pieces, start(chunk), sizeOf(chunk), received[chunk]);
  return {};
}

Status HostCollective::reducePieces(DType dtype,
                                    const std::vector<Piece> &pieces) {
  uint64_t bytes = 0;
  for (const Piece &piece : pieces)
    bytes += piece.size;
  uint64_t elements = bytes / elementSize(dtype);
  if (bytes <= kOneRoundBytes)
    return reduceWhole(dtype, pieces, 0, elements);
  uint64_t block = kChunkBytes / elementSize(dtype) * count;
  for (uint64_t from = 0; from < elements; from += block) {
    member.staging.clear();
    FUSION_RT_TRY(
        reduceChunk(dtype, pieces, from, std::min(block, elements - from)));
  }
  return {};
}

/// Parts of one element type that follow each other are one run of bytes to
/// cut in chunks; pieces that touch are one.
Status HostCollective::reduceAll() {
  size_t i = 0;
  while (i < run.parts.size()) {
    DType dtype = run.parts[i].dtype;
    std::vector<Piece> pieces;
    for (; i < run.parts.size() && run.parts[i].dtype == dtype; ++i) {
      const PartBuffer &part = run.parts[i];
      uint64_t size = partElements(part) * elementSize(dtype);
      if (size == 0)
        continue;
      if (!pieces.empty() &&
          pieces.back().input + pieces.back().size == part.input &&
          pieces.back().output + pieces.back().size == part.output)
        pieces.back().size += size;
      else
        pieces.push_back({part.input, part.output, size});
    }
    FUSION_RT_TRY(reducePieces(dtype, pieces));
  }
  return {};
}

Status HostCollective::reduceScatter() {
  std::vector<std::vector<const void *>> inputs(run.parts.size());
  for (size_t i = 0; i < run.parts.size(); ++i) {
    const PartBuffer &part = run.parts[i];
    Rows rows(part.shape, call.dim, part.dtype);
    uint64_t row = rows.size / count * rows.inner, size = row * rows.outer;
    inputs[i].resize(count);
    for (uint32_t peer = 0; peer < count; ++peer) {
      const char *source = part.input + peer * row;
      if (rows.outer > 1) {
        char *copy = member.staging.take(size);
        copyRows(copy, row, source, rows.size * rows.inner, row, rows.outer);
        source = copy;
      }
      if (peer == self) {
        inputs[i][self] = source;
        continue;
      }
      send(peer, source, size);
      char *received = member.staging.take(size);
      receive(peer, received, size);
      inputs[i][peer] = received;
    }
  }
  FUSION_RT_TRY(flush());
  for (size_t i = 0; i < run.parts.size(); ++i)
    reduceElements(run.parts[i].dtype, call.reduction, run.parts[i].output,
                   inputs[i].data(), count, partElements(run.parts[i]) / count);
  return {};
}

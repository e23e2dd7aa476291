//===- HostCommunicator.cpp - Collectives of processes --------------------===//
//
// Every collective is built of messages between members, so that the order in
// which values combine is ours: a member gets everybody's part of its chunk,
// combines them in the group's order, and sends the result to all. All members
// then have the same bits, whatever the transport and the timing.
//
// With the first message to each member goes a header that says which
// collective this is; data travels under a tag made of the same words. Members
// that run different ones, or other sizes, find out before any byte is taken
// for another's.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Communicator.h"
#include "Reduce.h"

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace fusion::rt;

namespace {

/// Members send each other whole inputs up to this size: one round of messages
/// instead of two.
constexpr uint64_t kOneRoundBytes = 16 << 10;
/// A reduction works on chunks of at most this size a member, which bounds the
/// memory for what others send.
constexpr uint64_t kChunkBytes = 1 << 20;

/// What members compare.
struct Header {
  uint64_t sequence = 0; ///< of this communicator
  uint64_t command = 0;
  uint64_t hash = 0; ///< of all that follows and the rest of the call
  uint64_t elements = 0;
  uint32_t parts = 0;
  uint8_t op = 0, reduction = 0, dtype = 0, unused = 0;
};

/// Bytes of an input that go to the same bytes of an output.
struct Piece {
  const char *input;
  char *output;
  uint64_t size;
};

/// Grows, never shrinks.
class Staging {
public:
  char *take(uint64_t size) {
    uint64_t start = used;
    used = (used + size + 63) & ~uint64_t(63);
    // Earlier pointers must stay: another block instead of a larger one.
    if (blocks.empty() || used > blocks.back().size()) {
      blocks.emplace_back(std::max<uint64_t>(
          size, blocks.empty() ? 4096 : 2 * blocks.back().size()));
      start = 0;
      used = (size + 63) & ~uint64_t(63);
    }
    return blocks.back().data() + start;
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const std::vector<char> &block : blocks)
      sum += block.size();
    return sum;
  }
  /// Gives everything back; the largest block stays.
  void clear() {
    if (blocks.size() > 1)
      blocks.erase(blocks.begin(), blocks.end() - 1);
    used = 0;
  }

private:
  std::vector<std::vector<char>> blocks;
  uint64_t used = 0;
};

/// One group: this rank's end of it.
struct Member {
  Group group;
  std::unique_ptr<Transport> transport; ///< none: a group of one
  Staging staging;
  std::vector<Header> headers; ///< received, by position
  Header own;
  bool sentHeader = false;
  uint64_t sequence = 0;
  Status broken; ///< the first error
};

class HostCommunicator final : public Communicator {
public:
  HostCommunicator(uint32_t rank, uint32_t size,
                   std::shared_ptr<TransportFactory> transports,
                   std::shared_ptr<Rendezvous> rendezvous, double timeout)
      : ownRank(rank), ranks(size), transports(std::move(transports)),
        rendezvous(std::move(rendezvous)), timeout(timeout) {}

  uint32_t rank() const override { return ownRank; }
  uint32_t size() const override { return ranks; }
  Status connect(const std::vector<Group> &groups) override;
  Status run(const CollectiveRun &run) override;
  Counts counts() const override { return {collectives, bytesSent, staged}; }

private:
  friend class Collective;
  uint32_t ownRank, ranks;
  std::shared_ptr<TransportFactory> transports;
  std::shared_ptr<Rendezvous> rendezvous;
  double timeout;
  std::vector<std::unique_ptr<Member>> members;
  std::atomic<uint64_t> collectives{0}, bytesSent{0}, staged{0};
};

/// One collective under way.
class Collective {
public:
  Collective(HostCommunicator &owner, Member &member, const CollectiveRun &run)
      : owner(owner), member(member), run(run), call(*run.call),
        count(uint32_t(member.group.ranks.size())),
        self(member.group.position) {}

  Status execute();

private:
  void makeHeader();
  Status reduceAll();
  Status reducePieces(DType dtype, const std::vector<Piece> &pieces);
  Status reduceChunk(DType dtype, const std::vector<Piece> &pieces,
                     uint64_t from, uint64_t elements);
  Status reduceWhole(DType dtype, const std::vector<Piece> &pieces,
                     uint64_t from, uint64_t elements);
  Status gather();
  Status reduceScatter();
  Status exchangeParts();
  Status broadcast();
  Status permute();

  void send(uint32_t peer, const void *data, uint64_t size) {
    if (size == 0)
      return;
    sends.push_back({peer, const_cast<void *>(data), size, dataTag(), nullptr});
    owner.bytesSent += size;
  }
  void receive(uint32_t peer, void *data, uint64_t size) {
    if (size != 0)
      receives.push_back({peer, data, size, dataTag(), nullptr});
  }
  /// Sends and receives what is queued, with headers the first time.
  Status flush();
  Status describe(const Status &failure, int mismatch);

  /// Headers and data of one collective never match those of another.
  uint64_t headerTag() const { return member.sequence << 1; }
  uint64_t dataTag() const {
    return (member.own.hash ^ member.sequence * 0x9e3779b97f4a7c15) | 1;
  }

  HostCommunicator &owner;
  Member &member;
  const CollectiveRun &run;
  const CollectiveCall &call;
  uint32_t count, self;
  std::vector<Transfer> sends, receives;
};

} // namespace

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static uint64_t partElements(const PartBuffer &part) {
  uint64_t elements = 1;
  for (int64_t dim : part.shape)
    elements *= uint64_t(dim);
  return elements;
}

void Collective::makeHeader() {
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

Status Collective::describe(const Status &failure, int mismatch) {
  if (mismatch >= 0 && size_t(mismatch) < receives.size()) {
    uint32_t peer = receives[size_t(mismatch)].peer;
    uint32_t other = member.group.ranks[peer];
    return Status(Code::Timeout,
                  "ranks disagree: rank " + std::to_string(other) + " runs " +
                      headerText(member.headers[peer]) + ", rank " +
                      std::to_string(owner.ownRank) + " runs " +
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

Status Collective::flush() {
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

/// Copies `rows` rows of `size` bytes between strided places.
static void copyRows(char *target, uint64_t targetStride, const char *source,
                     uint64_t sourceStride, uint64_t size, uint64_t rows) {
  if (size == 0 || rows == 0)
    return;
  if (targetStride == size && sourceStride == size) {
    std::memcpy(target, source, size * rows);
    return;
  }
  for (uint64_t i = 0; i < rows; ++i)
    std::memcpy(target + i * targetStride, source + i * sourceStride, size);
}

/// A tensor seen along one dimension: `outer` rows, each of `size * inner`
/// bytes.
namespace {
struct Rows {
  uint64_t outer = 1, size = 1, inner = 1;
  Rows(const std::vector<int64_t> &shape, int64_t dim, DType dtype)
      : size(uint64_t(shape[size_t(dim)])), inner(elementSize(dtype)) {
    for (size_t i = 0; i < shape.size(); ++i)
      if (int64_t(i) != dim)
        (int64_t(i) < dim ? outer : inner) *= uint64_t(shape[i]);
  }
  uint64_t bytes() const { return outer * size * inner; }
};
} // namespace

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
Status Collective::reduceWhole(DType dtype, const std::vector<Piece> &pieces,
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
Status Collective::reduceChunk(DType dtype, const std::vector<Piece> &pieces,
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

Status Collective::reducePieces(DType dtype, const std::vector<Piece> &pieces) {
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
Status Collective::reduceAll() {
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

Status Collective::reduceScatter() {
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

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

Status Collective::gather() {
  struct Late {
    const PartBuffer *part;
    uint32_t peer;
    char *data;
  };
  std::vector<Late> late; // received beside its place
  for (const PartBuffer &part : run.parts) {
    Rows rows(part.shape, call.dim, part.dtype);
    uint64_t row = rows.size * rows.inner;
    copyRows(part.output + self * row, row * count, part.input, row, row,
             rows.outer);
    for (uint32_t peer = 0; peer < count; ++peer) {
      if (peer == self)
        continue;
      send(peer, part.input, rows.bytes());
      char *target = part.output + peer * row;
      if (rows.outer > 1) {
        target = member.staging.take(rows.bytes());
        late.push_back({&part, peer, target});
      }
      receive(peer, target, rows.bytes());
    }
  }
  FUSION_RT_TRY(flush());
  for (const Late &each : late) {
    Rows rows(each.part->shape, call.dim, each.part->dtype);
    uint64_t row = rows.size * rows.inner;
    copyRows(each.part->output + each.peer * row, row * count, each.data, row,
             row, rows.outer);
  }
  return {};
}

/// AllToAll: what goes to a member is packed, what comes is put in its place.
Status Collective::exchangeParts() {
  std::vector<std::vector<char *>> received(run.parts.size());
  for (size_t i = 0; i < run.parts.size(); ++i) {
    const PartBuffer &part = run.parts[i];
    Rows rows(part.shape, call.splitDim, part.dtype);
    uint64_t row = rows.size / count * rows.inner, size = row * rows.outer;
    for (uint32_t peer = 0; peer < count; ++peer) {
      char *copy = member.staging.take(size);
      copyRows(copy, row, part.input + peer * row, rows.size * rows.inner, row,
               rows.outer);
      received[i].push_back(peer == self ? copy : member.staging.take(size));
      if (peer == self)
        continue;
      send(peer, copy, size);
      receive(peer, received[i][peer], size);
    }
  }
  FUSION_RT_TRY(flush());
  for (size_t i = 0; i < run.parts.size(); ++i) {
    const PartBuffer &part = run.parts[i];
    std::vector<int64_t> shape = part.shape;
    shape[size_t(call.splitDim)] /= count;
    Rows rows(shape, call.concatDim, part.dtype);
    uint64_t row = rows.size * rows.inner;
    for (uint32_t peer = 0; peer < count; ++peer)
      copyRows(part.output + peer * row, row * count, received[i][peer], row,
               row, rows.outer);
  }
  return {};
}

Status Collective::broadcast() {
  for (const PartBuffer &part : run.parts) {
    uint64_t size = partElements(part) * elementSize(part.dtype);
    if (self == uint64_t(call.root)) {
      for (uint32_t peer = 0; peer < count; ++peer)
        if (peer != self)
          send(peer, part.input, size);
      if (part.output != part.input && size != 0)
        std::memcpy(part.output, part.input, size);
    } else {
      receive(uint32_t(call.root), part.output, size);
    }
  }
  return flush();
}

Status Collective::permute() {
  int64_t source = -1, target = -1;
  for (size_t i = 0; i < call.sources.size(); ++i) {
    if (call.targets[i] == int64_t(self))
      source = call.sources[i];
    if (call.sources[i] == int64_t(self))
      target = call.targets[i];
  }
  std::vector<std::pair<const PartBuffer *, char *>> late; // in place
  for (const PartBuffer &part : run.parts) {
    uint64_t size = partElements(part) * elementSize(part.dtype);
    if (size == 0)
      continue;
    if (target == int64_t(self)) {
      if (part.output != part.input)
        std::memcpy(part.output, part.input, size);
      continue;
    }
    if (target >= 0)
      send(uint32_t(target), part.input, size);
    char *place = part.output;
    if (part.output == part.input && target >= 0) {
      place = member.staging.take(size);
      late.emplace_back(&part, place);
    }
    if (source >= 0)
      receive(uint32_t(source), place, size);
    else
      std::memset(place, 0, size);
  }
  FUSION_RT_TRY(flush());
  for (auto [part, place] : late)
    std::memcpy(part->output, place,
                partElements(*part) * elementSize(part->dtype));
  return {};
}

Status Collective::execute() {
  member.staging.clear();
  ++member.sequence;
  makeHeader();
  member.sentHeader = !member.transport;
  switch (call.op) {
  case CollectiveOp::AllReduce:
    return reduceAll();
  case CollectiveOp::AllGather:
    return gather();
  case CollectiveOp::ReduceScatter:
    return reduceScatter();
  case CollectiveOp::AllToAll:
    return exchangeParts();
  case CollectiveOp::Broadcast:
    return broadcast();
  case CollectiveOp::Permute:
    return permute();
  case CollectiveOp::AxisIndex:
    break;
  }
  return Status(Code::Internal, "axis_index needs no communicator");
}

//===----------------------------------------------------------------------===//
// The communicator
//===----------------------------------------------------------------------===//

namespace {
/// A group of one rank: nothing is sent.
class NoTransport final : public Transport {
public:
  Status exchange(const std::vector<Transfer> &, const std::vector<Transfer> &,
                  int &) override {
    return {};
  }
};
} // namespace

Status HostCommunicator::connect(const std::vector<Group> &groups) {
  for (const Group &group : groups) {
    auto member = std::make_unique<Member>();
    member->group = group;
    member->headers.resize(group.ranks.size());
    if (group.ranks.size() > 1) {
      auto transport = transports->connect("group" + group.name, group.position,
                                           uint32_t(group.ranks.size()),
                                           *rendezvous, timeout);
      if (!transport)
        return transport.status();
      member->transport = std::move(*transport);
    } else {
      member->transport = std::make_unique<NoTransport>();
    }
    members.push_back(std::move(member));
  }
  return {};
}

Status HostCommunicator::run(const CollectiveRun &run) {
  Member &member = *members[run.group];
  if (!member.broken.ok())
    return member.broken;
  ++collectives;
  uint64_t before = member.staging.bytes();
  Status status = Collective(*this, member, run).execute();
  staged += member.staging.bytes() - before;
  if (!status.ok())
    member.broken = status;
  return status;
}

std::unique_ptr<Communicator> fusion::rt::makeHostCommunicator(
    uint32_t rank, uint32_t size, std::shared_ptr<TransportFactory> transports,
    std::shared_ptr<Rendezvous> rendezvous, double timeout) {
  return std::make_unique<HostCommunicator>(rank, size, std::move(transports),
                                            std::move(rendezvous), timeout);
}

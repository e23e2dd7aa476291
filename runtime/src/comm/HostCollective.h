//===- HostCollective.h - One collective of processes -----------*- C++ -*-===//
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
#ifndef FUSION_RUNTIME_COMM_HOSTCOLLECTIVE_H
#define FUSION_RUNTIME_COMM_HOSTCOLLECTIVE_H

#include "Checked.h"
#include "Communicator.h"

#include <algorithm>
#include <atomic>

namespace fusion::rt::host {

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

/// A tensor seen along one dimension: `outer` rows, each of `size * inner`
/// bytes.
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

/// Copies `rows` rows of `size` bytes between strided places.
void copyRows(char *target, uint64_t targetStride, const char *source,
              uint64_t sourceStride, uint64_t size, uint64_t rows);

/// The elements of a part's input.
uint64_t partElements(const PartBuffer &part);

/// One collective under way.
class HostCollective {
public:
  /// `sent` counts the bytes that go to other members.
  HostCollective(Member &member, const CollectiveRun &run,
                 std::atomic<uint64_t> &sent)
      : member(member), run(run), call(*run.call), sent(sent),
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
    sent += size;
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

  Member &member;
  const CollectiveRun &run;
  const CollectiveCall &call;
  std::atomic<uint64_t> &sent;
  uint32_t count, self;
  std::vector<Transfer> sends, receives;
};

} // namespace fusion::rt::host

#endif // FUSION_RUNTIME_COMM_HOSTCOLLECTIVE_H

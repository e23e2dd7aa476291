//===- PeerTest.cpp - Peer collectives on the tests' driver ---------------===//
//
// Ranks are processes that share memory as GPUs of one host do.
//
//===----------------------------------------------------------------------===//
#include "CollectiveSuite.h"
#include "FakeCuda.h"
#include "Frames.h"
#include "PeerCheck.h"
#include "PeerPlan.h"
#include "RankTesting.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

void conform(std::vector<uint32_t> sizes,
             std::vector<std::vector<uint32_t>> axes,
             DeviceRunner::Options options) {
  Program program = meshProgram(std::move(sizes), std::move(axes));
  auto make = [&](uint32_t rank, uint32_t size,
                  std::shared_ptr<Rendezvous> rendezvous) {
    return std::make_unique<DeviceRunner>(rank, size, std::move(rendezvous),
                                          options);
  };
  auto texts = onRanks(program, make, [&](Communicator &communicator) {
    std::vector<Group> groups = groupsOf(program, communicator.rank());
    uint64_t command = 0;
    for (size_t index = 0; index < groups.size(); ++index)
      for (DType dtype : kSomeTypes)
        for (int64_t size : {0, 1, 1009})
          if (std::string text = tryAll(communicator, groups[index], index,
                                        dtype, size, command, false);
              !text.empty())
            return text;
    return std::string();
  });
  for (size_t rank = 0; rank < texts.size(); ++rank)
    EXPECT_EQ(texts[rank], "") << "rank " << rank;
}

constexpr Placement kPlacements[] = {Placement::Arena, Placement::Caller,
                                     Placement::OddCallers,
                                     Placement::EvenCallers};

TEST(PeerCommunicator, OneRank) { conform({1}, {{0}}, {}); }
TEST(PeerCommunicator, TwoRanks) {
  for (const PeerMode &mode : peerModes())
    for (Placement placement : {Placement::Arena, Placement::Caller})
      conform({2}, {{0}}, {placement, true, mode.options});
}
TEST(PeerCommunicator, ThreeRanks) {
  for (Placement placement : kPlacements)
    conform({3}, {{0}}, {placement, true, {}});
}
TEST(PeerCommunicator, EightRanks) {
  conform({8}, {{0}}, {Placement::OddCallers, true, {}});
  conform({8}, {{0}}, {Placement::Caller, false, {true, true}});
}
TEST(PeerCommunicator, MeshOfTwoAxes) {
  conform({2, 3}, {{0}, {1}, {1, 0}}, {Placement::Arena, true, {}});
}

/// Copies each row of the boxes.
void copyRows(const std::vector<peer::Copy> &copies) {
  for (const peer::Copy &copy : copies)
    for (uint64_t z = 0; z < copy.box.depth; ++z)
      for (uint64_t y = 0; y < copy.box.height; ++y)
        std::memcpy(
            copy.target + z * copy.box.targetSlice + y * copy.box.targetPitch,
            copy.source + z * copy.box.sourceSlice + y * copy.box.sourcePitch,
            copy.box.width);
}

/// Halves of the gradients of a net's biases: of each layer eight short ones
/// and a long one, of the first and the last layer fewer. What is between them
/// must stay as it is.
TEST(PeerPlan, RowsAtEqualDistancesAreOneCopy) {
  std::vector<uint64_t> widths;
  auto addLayer = [&](unsigned shorts) {
    widths.insert(widths.end(), shorts, 1536);
    widths.push_back(6144);
  };
  addLayer(3);
  for (unsigned layer = 0; layer < 11; ++layer)
    addLayer(8);
  widths.insert(widths.end(), 7, 1536);
  uint64_t size = 0;
  for (uint64_t width : widths)
    size += 2 * width;
  std::string source(size, 0), expected(size, 'x'), found(size, 'x');
  for (uint64_t i = 0; i < size; ++i)
    source[i] = char('a' + i % 23);
  auto make = [&](std::string &target) {
    std::vector<peer::Copy> copies;
    uint64_t at = 0;
    for (uint64_t width : widths) {
      peer::Box box;
      box.width = width;
      copies.push_back({&source[at + width], &target[at + width], box});
      at += 2 * width;
    }
    return copies;
  };
  copyRows(make(expected));
  std::vector<peer::Copy> joined = peer::joinCopies(make(found));
  copyRows(joined);
  EXPECT_EQ(found, expected);
  // Three rows, twelve long ones, eleven slices of eight, seven rows.
  EXPECT_EQ(joined.size(), 4u);
}

/// Rows that are not worth it, that lie at other distances or go backwards, and
/// slices that are no whole number of rows.
TEST(PeerPlan, OtherRowsStayApart) {
  std::string source(1 << 20, 'a'), target(1 << 20, 'b');
  auto count = [&](std::vector<std::array<uint64_t, 3>> rows) {
    std::vector<peer::Copy> copies;
    for (auto [from, to, width] : rows) {
      peer::Box box;
      box.width = width;
      copies.push_back({&source[from], &target[to], box});
    }
    return peer::joinCopies(copies).size();
  };
  EXPECT_EQ(count({{0, 0, 64}, {128, 256, 64}, {256, 512, 64}}), 1u);
  EXPECT_EQ(count({{0, 0, 64}, {128, 256, 64}, {256, 500, 64}}), 2u);
  EXPECT_EQ(count({{0, 256, 64}, {128, 0, 64}}), 2u);
  EXPECT_EQ(count({{0, 0, 64}, {128, 256, 32}}), 2u);
  EXPECT_EQ(count({{0, 0, 70000}, {140000, 140000, 70000}}), 2u);
  EXPECT_EQ(
      count({{0, 0, 64}, {128, 128, 64}, {1000, 1024, 64}, {1128, 1152, 64}}),
      2u);
}

/// What a replay receives is what the next one sends: nothing may be lost.
TEST(PeerCommunicator, ReplaysOfThreeGroups) {
  for (uint32_t ranks : {2, 3}) {
    Rows rows;
    auto texts = onDevices(
        ranks, uint64_t(192) << 20,
        [](CheckRank &self, Rows &found) {
          return checkStress(self, peerModes().front(), 7, false, found);
        },
        rows);
    for (const std::string &text : texts)
      EXPECT_EQ(text, "");
    EXPECT_EQ(rows.size(), 1u);
  }
}

/// What the check above is worth. The device takes its freedom: streams go on
/// in any order that their events allow.
std::string stressMutant(Mutation mutation, double patience) {
  Rows rows;
  auto texts = onDevices(
      2, 8 << 20,
      [&](CheckRank &self, Rows &found) {
        self.rounds = {1000, 16, 5003};
        fakeCudaSet("jitter", 4711 + self.rank);
        self.mutation = mutation;
        self.patience = patience;
        return checkStress(self, peerModes().front(), 200, false, found);
      },
      rows);
  return texts[0] + texts[1];
}
TEST(PeerCommunicator, NoMutantSurvives) {
  double start = monotonicSeconds();
  EXPECT_EQ(stressMutant(Mutation::None, 60), "");
  // What takes several times as long hangs.
  double patience = 1 + 3 * (monotonicSeconds() - start);
  for (const Mutant &mutant : peerMutants()) {
    std::string found = stressMutant(mutant.mutation, patience);
    EXPECT_NE(found, "") << mutant.name;
    std::printf("%s: %.90s\n", mutant.name, found.c_str());
  }
}

/// One of the ranks tells and waits in the other way.
TEST(PeerCommunicator, ADriverWithoutStreamMemoryOperations) {
  Program program = meshProgram({2}, {{0}});
  auto make = [&](uint32_t rank, uint32_t size,
                  std::shared_ptr<Rendezvous> rendezvous) {
    if (rank == 1)
      fakeCudaFail("cuStreamBatchMemOp_v2", 0, kErrorNotSupported);
    return std::make_unique<DeviceRunner>(rank, size, std::move(rendezvous),
                                          DeviceRunner::Options());
  };
  auto texts = onRanks(program, make, [&](Communicator &communicator) {
    uint64_t command = 0;
    std::string text =
        tryAll(communicator, groupsOf(program, communicator.rank())[0], 0,
               DType::F32, 1009, command, false);
    // The one that was refused, and no other.
    uint64_t asked = fakeCudaCount("cuStreamBatchMemOp_v2");
    if (text.empty() && (communicator.rank() == 1) != (asked == 1))
      text = std::to_string(asked) + " stream memory operations";
    return text;
  });
  EXPECT_EQ(texts, std::vector<std::string>(2));
}

/// All ranks hear of it, so that all take another transport.
TEST(PeerCommunicator, MemoryThatCantBeOpenedIsNamedOnAllRanks) {
  Program program = meshProgram({3}, {{0}});
  auto make = [&](uint32_t rank, uint32_t size,
                  std::shared_ptr<Rendezvous> rendezvous) {
    if (rank == 1)
      fakeCudaSet("peers", 0);
    return std::make_unique<DeviceRunner>(rank, size, std::move(rendezvous),
                                          DeviceRunner::Options());
  };
  auto texts = onRanks(program, make,
                       [](Communicator &) { return std::string("connected"); });
  for (const std::string &text : texts)
    EXPECT_NE(text.find("rank 1 can't share its GPU's memory"),
              std::string::npos)
        << text;
}

} // namespace

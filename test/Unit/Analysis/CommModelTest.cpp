//===- CommModelTest.cpp - Collectives and steps against hand figures -----===//
#include "fusion/Analysis/CommModel.h"
#include "AnalysisFixture.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

/// The round device with a `comm` block.
static DeviceModel makeDevice(llvm::StringRef comm) {
  std::string text = getRoundDevice();
  text = text.substr(0, text.rfind('}')) + ", \"comm\": " + comm.str() + "}";
  return llvm::cantFail(DeviceModel::parse(text, "d.json"));
}

static std::string parseError(llvm::StringRef comm) {
  std::string text = getRoundDevice();
  text = text.substr(0, text.rfind('}')) + ", \"comm\": " + comm.str() + "}";
  auto device = DeviceModel::parse(text, "d.json");
  return device ? "accepted" : llvm::toString(device.takeError());
}

static constexpr const char *kWire = R"({
  "slowdown_compute": 0.25, "slowdown_comm": 0,
  "links": [{"name": "wire", "base_us": 10, "alpha_us": 1, "beta_gbs": 100}]
})";

static TimedStep kernel(double us, std::vector<unsigned> waits = {},
                        double slowdown = 0.25) {
  return {"kernel", false, 0, us, slowdown, 0, std::move(waits)};
}

static TimedStep collective(double us, std::vector<unsigned> waits = {},
                            unsigned stream = 1) {
  return {"collective", true, stream, us, 0, 0, std::move(waits)};
}

TEST(CommModel, RingTerms) {
  CommModel model(makeDevice(kWire));
  CommGroup four{4, 4};
  // 4 MB at 100 GB/s are 40 us; a sum sends 3/4 of them twice, in 2 * 3 hops.
  EXPECT_DOUBLE_EQ(model.predict(CommOp::AllReduce, 4e6, four).us, 76);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::AllReduce, 4e6, four).fixedUs, 16);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::AllReduce, 4e6, four).wireBytes, 6e6);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::AllGather, 4e6, four).us, 43);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::ReduceScatter, 4e6, four).us, 43);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::AllToAll, 4e6, four).us, 43);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::Broadcast, 4e6, four).us, 53);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::Permute, 4e6, four).us, 51);
  // Nobody to talk to.
  EXPECT_EQ(model.predict(CommOp::AllReduce, 4e6, {1, 1}).us, 0);
  EXPECT_EQ(model.predict(CommOp::AllReduce, 4e6, {1, 1}).algorithm, "none");
}

static constexpr const char *kMeasured = R"({
  "slowdown_compute": 0.25, "slowdown_comm": 0,
  "links": [{"name": "wire", "base_us": 10, "alpha_us": 1, "beta_gbs": 100}],
  "transports": [
    {"name": "peer", "link": "wire", "ranks": 2, "slowdown_compute": 0.1,
     "slowdown_comm": 0.5, "ops": {
       "collective_permute": {"bytes": [1e3, 1e5, 1e7], "us": [2, 8, 100]},
       "all_gather": {"bytes": [1e3, 1e6], "us": [2, 12]}}}]
})";

TEST(CommModel, MeasuredTransports) {
  CommModel model(makeDevice(kMeasured));
  auto predict = [&](CommOp op, double bytes, int64_t ranks) {
    return model.predict(op, bytes, {ranks, ranks}, Transport::Peer);
  };
  // Below the smallest size its time. Between two a power: a hundred times the
  // bytes take four times as long, ten times twice. Then the bandwidth.
  EXPECT_DOUBLE_EQ(predict(CommOp::Permute, 10, 2).us, 2);
  EXPECT_DOUBLE_EQ(predict(CommOp::Permute, 1e3, 2).us, 2);
  EXPECT_NEAR(predict(CommOp::Permute, 1e4, 2).us, 4, 1e-9);
  EXPECT_NEAR(predict(CommOp::Permute, 1e5, 2).us, 8, 1e-9);
  EXPECT_DOUBLE_EQ(predict(CommOp::Permute, 1e7, 2).us, 100);
  EXPECT_DOUBLE_EQ(predict(CommOp::Permute, 3e7, 2).us, 300);
  // Four ranks: three hops for one, and 3/4 of the bytes for 1/2.
  EXPECT_DOUBLE_EQ(predict(CommOp::AllGather, 1e6, 4).us, 3 * 2 + 10 * 1.5);
  EXPECT_DOUBLE_EQ(predict(CommOp::AllGather, 1e6, 4).fixedUs, 6);
  EXPECT_DOUBLE_EQ(predict(CommOp::AllGather, 1e6, 2).slowdownCompute, 0.1);
  EXPECT_EQ(predict(CommOp::AllGather, 1e6, 2).algorithm, "measured");
  // What was not measured goes by the link's terms.
  EXPECT_DOUBLE_EQ(predict(CommOp::AllToAll, 4e6, 4).us, 43);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::Permute, 4e6, {4, 4}).us, 51);
  EXPECT_TRUE(model.hasMeasured({2, 2}, Transport::Peer));
  EXPECT_FALSE(model.hasMeasured({2, 2}, Transport::Nccl));
  EXPECT_EQ(predict(CommOp::Permute, 1e7, 1).us, 0);
}

/// Each part beyond the first has a start of its own; how long one waits behind
/// another is that of the slowest transport.
TEST(CommModel, PartsAndQueues) {
  std::string text = kMeasured;
  CommModel plain(makeDevice(text));
  EXPECT_EQ(plain.getPartsUs(9, {2, 2}, Transport::Peer), 0);
  EXPECT_EQ(plain.getQueuedUs({2, 2}), 0);
  llvm::StringRef name = "\"name\": \"peer\",";
  text.insert(text.find(name) + name.size(),
              R"("part_us": 5, "queued_us": 60,)");
  CommModel model(makeDevice(text));
  EXPECT_DOUBLE_EQ(model.getPartsUs(9, {2, 2}, Transport::Peer), 40);
  EXPECT_EQ(model.getPartsUs(1, {2, 2}, Transport::Peer), 0);
  EXPECT_EQ(model.getPartsUs(0, {2, 2}, Transport::Peer), 0);
  EXPECT_EQ(model.getPartsUs(9, {1, 1}, Transport::Peer), 0);
  EXPECT_EQ(model.getPartsUs(9, {2, 2}, Transport::Nccl), 0);
  EXPECT_DOUBLE_EQ(model.getQueuedUs({2, 2}), 60);
}

/// What kernels take that read other ranks' memory: as copies, unless measured.
TEST(CommModel, DirectReads) {
  auto predict = [](const std::string &text, CommOp op, double bytes) {
    return CommModel(makeDevice(text))
        .predict(op, bytes, {2, 2}, Transport::Direct)
        .us;
  };
  std::string text = kMeasured;
  EXPECT_DOUBLE_EQ(predict(text, CommOp::Permute, 1e7), 100);
  llvm::StringRef list = "\"transports\": [";
  text.insert(text.find(list) + list.size(), R"(
    {"name": "direct", "link": "wire", "ranks": 2, "ops": {
       "collective_permute": {"bytes": [1e7], "us": [120]}}},)");
  EXPECT_DOUBLE_EQ(predict(text, CommOp::Permute, 1e7), 120);
  EXPECT_DOUBLE_EQ(predict(text, CommOp::AllGather, 1e6), 12);
}

TEST(CommModel, NothingIsKnown) {
  CommModel model(makeRoundDevice());
  // 20 us, and an eighth of 1e6 bytes stays: 2 * 7 / 8 * 1e6 / 1e10.
  EXPECT_DOUBLE_EQ(model.predict(CommOp::AllReduce, 1e6, {8, 8}).us, 195);
  EXPECT_DOUBLE_EQ(model.getSlowdown(nullptr), 0.19);
  EXPECT_DOUBLE_EQ(model.getComm().slowdownComm, 0);
}

TEST(CommModel, TransportsAreChecked) {
  auto error = [](llvm::StringRef entry) {
    return parseError((R"({"slowdown_compute": 0, "slowdown_comm": 0,
      "links": [{"name": "wire", "alpha_us": 1, "beta_gbs": 100}],
      "transports": [)" +
                       entry + "]}")
                          .str());
  };
  auto with = [&](llvm::StringRef name, llvm::StringRef link,
                  llvm::StringRef ops) {
    return error((R"({"name": ")" + name + R"(", "link": ")" + link +
                  R"(", "ranks": 2, "ops": )" + ops + "}")
                     .str());
  };
  auto has = [](const std::string &text, llvm::StringRef part) {
    return llvm::StringRef(text).contains(part) ? "" : text;
  };
  EXPECT_EQ(with("peer", "wire", "{}"), "accepted");
  EXPECT_EQ(has(with("mpi", "wire", "{}"), "it may be: nccl, peer"), "");
  EXPECT_EQ(has(with("peer", "road", "{}"), "name a link of 'comm'"), "");
  EXPECT_EQ(has(with("peer", "wire", R"({"sum": {}})"), "unknown key"), "");
  EXPECT_EQ(has(with("peer", "wire",
                     R"({"all_gather": {"bytes": [1, 2], "us": [1]}})"),
                "give one time for each size"),
            "");
  EXPECT_EQ(has(with("peer", "wire",
                     R"({"all_gather": {"bytes": [2, 1], "us": [1, 2]}})"),
                "sort them"),
            "");
  EXPECT_EQ(
      has(with("peer", "wire", R"({"all_gather": {"bytes": [0], "us": [1]}})"),
          "bytes.0', device file, give a whole number of at least 1"),
      "");
  EXPECT_EQ(
      has(with("peer", "wire", R"({"all_gather": {"bytes": [], "us": []}})"),
          "give a list"),
      "");
  EXPECT_EQ(has(error(R"({"name": "peer", "link": "wire", "ranks": 1,
                          "ops": {}})"),
                "give a whole number from 2 to 1024"),
            "");
  std::string one =
      R"({"name": "nccl", "link": "wire", "ranks": 2, "ops": {}})";
  EXPECT_EQ(has(error(one + ", " + one), "keep one"), "");
}

TEST(CommModel, GroupsOfAMesh) {
  // Ranks 0..7 as 2 x 4.
  EXPECT_EQ(getCommGroup({2, 4}, {0}).size, 2);
  EXPECT_EQ(getCommGroup({2, 4}, {0}).span, 5); // 0 and 4
  EXPECT_EQ(getCommGroup({2, 4}, {1}).size, 4);
  EXPECT_EQ(getCommGroup({2, 4}, {1}).span, 4);
  EXPECT_EQ(getCommGroup({2, 4}, {0, 1}).size, 8);
  EXPECT_EQ(getCommGroup({2, 4}, {0, 1}).span, 8);
}

TEST(CommModel, ShippedDevicesMeetReportedTimes) {
  // 8 ranks; from NCCL's constants by hand, in microseconds.
  CommGroup node{8, 8};
  CommModel a100(llvm::cantFail(DeviceModel::load("a100-80gb")));
  double mib = 1048576;
  EXPECT_NEAR(a100.predict(CommOp::AllReduce, 1 * mib, node).us, 36, 0.5);
  EXPECT_NEAR(a100.predict(CommOp::AllReduce, 4 * mib, node).us, 75, 1);
  EXPECT_NEAR(a100.predict(CommOp::AllReduce, 25 * mib, node).us, 256, 1);
  EXPECT_NEAR(a100.predict(CommOp::AllReduce, 256 * mib, node).us, 2098, 2);
  CommModel h200(llvm::cantFail(DeviceModel::load("h200")));
  EXPECT_NEAR(h200.predict(CommOp::AllReduce, 1 * mib, node).us, 28, 0.5);
  EXPECT_NEAR(h200.predict(CommOp::AllReduce, 25 * mib, node).us, 122, 1);
  EXPECT_NEAR(h200.predict(CommOp::AllGather, 25 * mib, node).us, 95, 0.5);
  EXPECT_NEAR(h200.predict(CommOp::AllGather, 256 * mib, node).us, 676, 1);
}

TEST(CommModel, BetweenNodesTheSlowLinkIsUsed) {
  CommModel model(makeDevice(R"({
    "slowdown_compute": 0, "slowdown_comm": 0,
    "links": [
      {"name": "inner", "devices": 4, "alpha_us": 1, "beta_gbs": 100},
      {"name": "outer", "alpha_us": 10, "beta_gbs": 10}]})"));
  EXPECT_EQ(model.predict(CommOp::AllGather, 1e6, {4, 4}).link, 0u);
  // 16 ranks on 4 nodes: 3 hops between nodes, 12 within; 15/16 of 100 us.
  CommCost gather = model.predict(CommOp::AllGather, 1e6, {16, 16});
  EXPECT_EQ(gather.link, 1u);
  EXPECT_DOUBLE_EQ(gather.us, 3 * 10 + 12 * 1 + 93.75);
  // A small sum takes a tree: 2 * (3 inner + 2 outer hops) and 2 * 0.01 us,
  // where a ring would take 2 * (3 * 10 + 12).
  CommCost sum = model.predict(CommOp::AllReduce, 100, {16, 16});
  EXPECT_EQ(sum.algorithm, "tree");
  EXPECT_DOUBLE_EQ(sum.us, 2 * (3 * 1 + 2 * 10) + 0.02);
  // A large one the ring, which sends less: 15/8 of 10 s against 2.
  EXPECT_EQ(model.predict(CommOp::AllReduce, 1e11, {16, 16}).algorithm, "ring");
}

TEST(CommModel, KernelsAreSlowedByWhatTheyLack) {
  CommModel plain(makeDevice(kWire));
  KernelWork work;
  work.blocks = 100;
  EXPECT_EQ(plain.getSlowdown(&work), 0.25);
  // 20 of 100 units are taken.
  CommModel held(makeDevice(R"({
    "slowdown_compute": 0.25, "slowdown_comm": 0, "units": 20,
    "links": [{"name": "wire", "alpha_us": 1, "beta_gbs": 100}]})"));
  EXPECT_EQ(held.getSlowdown(nullptr), 0.25);
  EXPECT_EQ(held.getSlowdown(&work), 0.4); // a second turn: +100 %, capped
  work.blocks = 80;
  EXPECT_EQ(held.getSlowdown(&work), 0);
  work.blocks = 250; // 4 turns for 3
  EXPECT_DOUBLE_EQ(held.getSlowdown(&work), 1.0 / 3);
  // 2 * 100 GB/s of 1 TB/s are taken: what is bound by memory takes 1 / 0.8.
  CommModel memory(makeDevice(R"({
    "slowdown_compute": 0, "slowdown_comm": 0, "memory_traffic": 2,
    "links": [{"name": "wire", "alpha_us": 1, "beta_gbs": 100}]})"));
  work.memoryBytes = 1e6;
  EXPECT_DOUBLE_EQ(memory.getSlowdown(&work), 0.25);
  work.flops[unsigned(Arithmetic::MatrixI8)] = 4e9; // 10 us against 1
  EXPECT_EQ(memory.getSlowdown(&work), 0);
}

// Of the link that a group uses.
TEST(CommModel, ALinkSaysWhatProductsLeave) {
  CommModel model(makeDevice(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "links": [{"name": "near", "devices": 2, "alpha_us": 1, "beta_gbs": 100},
              {"name": "far", "alpha_us": 1, "beta_gbs": 10, "units": 8}]})"));
  EXPECT_EQ(model.getUnits({2, 2}), 0);
  EXPECT_EQ(model.getUnits({2, 3}), 8);
  EXPECT_EQ(CommModel(makeDevice(kWire)).getUnits({4, 4}), 0);
}

// What ranks send to each other takes fewer channels than a ring.
TEST(CommModel, ALinkSaysWhatSendsReach) {
  CommModel model(makeDevice(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "links": [{"name": "a", "alpha_us": 1, "beta_gbs": 100, "send_gbs": 50,
               "protocols": [{"alpha_us": 1, "beta_gbs": 10}]}]})"));
  const CommGroup pair{2, 2};
  EXPECT_DOUBLE_EQ(model.predict(CommOp::AllGather, 2e6, pair).us, 1 + 10);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::Permute, 1e6, pair).us, 1 + 20);
  EXPECT_DOUBLE_EQ(model.predict(CommOp::AllToAll, 2e6, pair).us, 1 + 20);
  // No faster than the link.
  CommModel fast(makeDevice(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "links": [{"name": "a", "alpha_us": 1, "beta_gbs": 100,
               "send_gbs": 500}]})"));
  EXPECT_DOUBLE_EQ(fast.predict(CommOp::Permute, 1e6, pair).us, 1 + 10);
}

TEST(CommModel, BrokenBlocksAreTold) {
  EXPECT_EQ(parseError(R"({"slowdown_compute": 0, "slowdown_comm": 0})"),
            "d.json:16: missing key 'comm.links', device file, add it; a "
            "shipped device file shows all keys");
  EXPECT_EQ(parseError(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "links": []})"),
            "d.json:17: bad value of 'comm.links', device file, give a list of "
            "links");
  EXPECT_EQ(parseError(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "links": [{"name": "a", "alpha_us": 1, "beta_gbs": 0}]})"),
            "d.json:17: bad value of 'comm.links.0.beta_gbs', device file, "
            "give a number above 0");
  EXPECT_EQ(parseError(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "links": [{"name": "a", "alpha_us": 1, "beta_gbs": 1,
               "shared_with": ["b"]}]})"),
            "d.json:18: 'b' in 'shared_with' is no link, device file, name a "
            "link of 'comm', or compute");
  EXPECT_EQ(parseError(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "units": 100, "links": [{"name": "a", "alpha_us": 1, "beta_gbs": 1}]})"),
            "d.json:17: bad value of 'comm.units', device file, give less than "
            "the device's units");
  EXPECT_EQ(parseError(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "links": [{"name": "a", "alpha_us": 1, "beta_gbs": 1, "units": 100}]})"),
            "d.json:17: bad value of 'comm.links.0.units', device file, give "
            "less than the device's units");
  EXPECT_EQ(parseError(R"({"slowdown_compute": 0, "slowdown_comm": 0,
    "links": [{"name": "a", "alpha_us": 1, "beta_gbs": 1, "send_gbs": 0}]})"),
            "d.json:17: bad value of 'comm.links.0.send_gbs', device file, "
            "give a number above 0");
}

TEST(Timeline, HiddenCommunicationSlowsKernels) {
  // The collective runs from 100 to 150; the second kernel does 40 of its 100
  // us until then, so it ends at 210.
  std::vector<TimedStep> steps = {kernel(100), collective(50, {0}), kernel(100),
                                  kernel(10, {1})};
  Timeline line = simulate(steps, CommModel(makeDevice(kWire)));
  EXPECT_DOUBLE_EQ(line.spans[1].beginUs, 100);
  EXPECT_DOUBLE_EQ(line.spans[1].endUs, 150);
  EXPECT_DOUBLE_EQ(line.spans[2].endUs, 210);
  EXPECT_DOUBLE_EQ(line.stepUs, 220);
  EXPECT_EQ(line.computeUs, 210);
  EXPECT_EQ(line.commUs, 50);
  EXPECT_EQ(line.exposedUs, 0);
  EXPECT_TRUE(line.exposures.empty());
}

TEST(Timeline, ExposedIntervalsNameTheirCause) {
  // The second kernel ends at 225 and the collective at 400.
  std::vector<TimedStep> steps = {kernel(100), collective(300, {0}),
                                  kernel(100), kernel(10, {1})};
  Timeline line = simulate(steps, CommModel(makeDevice(kWire)));
  EXPECT_DOUBLE_EQ(line.stepUs, 410);
  EXPECT_DOUBLE_EQ(line.exposedUs, 175);
  ASSERT_EQ(line.exposures.size(), 1u);
  EXPECT_EQ(line.exposures[0].cause, ExposureCause::NothingToHide);
  EXPECT_EQ(line.exposures[0].comm, 1u);
  EXPECT_EQ(line.exposures[0].waiter, 3);
  EXPECT_DOUBLE_EQ(line.exposures[0].beginUs, 225);
  std::string text;
  llvm::raw_string_ostream os(text);
  line.print(os, steps);
  EXPECT_EQ(text,
            "step 410.0 us: computation 210.0, communication 300.0, exposed "
            "175.0 (42.7 %)\n"
            "  exposed 175.0 us at 225.0: kernel waits for collective: it "
            "started when its operands were ready\n");
}

TEST(Timeline, QueuesTailsAndTheComputeStream) {
  CommModel model(makeDevice(kWire));
  // The second collective is ready at 0 and starts at 100.
  Timeline queue =
      simulate({collective(100), collective(50), kernel(10, {1})}, model);
  ASSERT_EQ(queue.exposures.size(), 1u);
  EXPECT_EQ(queue.exposures[0].cause, ExposureCause::Queued);
  EXPECT_EQ(queue.exposures[0].comm, 1u);
  EXPECT_DOUBLE_EQ(queue.exposedUs, 150);
  Timeline tail = simulate({kernel(10), collective(20, {0})}, model);
  ASSERT_EQ(tail.exposures.size(), 1u);
  EXPECT_EQ(tail.exposures[0].cause, ExposureCause::NothingLeft);
  EXPECT_EQ(tail.exposures[0].waiter, -1);
  EXPECT_DOUBLE_EQ(tail.stepUs, 30);
  Timeline inLine =
      simulate({kernel(10), collective(20, {}, 0), kernel(5)}, model);
  ASSERT_EQ(inLine.exposures.size(), 1u);
  EXPECT_EQ(inLine.exposures[0].cause, ExposureCause::OnComputeStream);
  EXPECT_DOUBLE_EQ(inLine.stepUs, 35);
}

TEST(Timeline, LinksAreShared) {
  // Two streams on one link: each takes twice as long while both run, so the
  // shorter ends at 100 and the longer at 150.
  CommModel model(makeDevice(kWire));
  Timeline two = simulate(
      {collective(50), collective(100, {}, 2), kernel(10, {1})}, model);
  EXPECT_DOUBLE_EQ(two.spans[0].endUs, 100);
  EXPECT_DOUBLE_EQ(two.spans[1].endUs, 150);
  ASSERT_EQ(two.exposures.size(), 2u);
  EXPECT_EQ(two.exposures[0].cause, ExposureCause::Shared);
  EXPECT_EQ(two.exposures[1].cause, ExposureCause::NothingToHide);
  // Kernels on the collective's wires: halves each, and a quarter more for the
  // kernel: 100 / 2.5 = 40 us of it until 100 us of the collective are done.
  CommModel shared(makeDevice(R"({
    "slowdown_compute": 0.25, "slowdown_comm": 0,
    "links": [{"name": "pcie", "alpha_us": 1, "beta_gbs": 100,
               "shared_with": ["compute"]}]})"));
  Timeline both = simulate({collective(50), kernel(100)}, shared);
  EXPECT_DOUBLE_EQ(both.spans[0].endUs, 100);
  EXPECT_DOUBLE_EQ(both.spans[1].endUs, 160);
}

TEST(Timeline, TransportsSlowWhatTheySlow) {
  // Beside copy engines: 75 us, in which the kernel does 75 / 1.1 of its 100.
  CommModel model(makeDevice(kWire));
  TimedStep peer = collective(50);
  peer.slowdownOfKernels = 0.1;
  peer.slowdownOfComm = 0.5;
  Timeline line = simulate({peer, kernel(100)}, model);
  EXPECT_DOUBLE_EQ(line.spans[0].endUs, 75);
  EXPECT_DOUBLE_EQ(line.stepUs, 75 + 100 - 75 / 1.1);
  // Beside a collective of each kind: what costs the kernel more.
  Timeline both =
      simulate({peer, collective(1000, {}, 2), kernel(40, {}, 0.25)}, model);
  EXPECT_DOUBLE_EQ(both.spans[2].endUs, 50);
}

TEST(Timeline, KernelsOfTwoStreamsShareTheDevice) {
  CommModel model(makeDevice(kWire));
  TimedStep beside = kernel(20);
  beside.stream = 4;
  // Both until 40, when the second has done its 20; then 20 more alone.
  Timeline timeline = simulate({kernel(40), beside}, model);
  EXPECT_DOUBLE_EQ(timeline.spans[1].endUs, 40);
  EXPECT_DOUBLE_EQ(timeline.stepUs, 60);
  EXPECT_DOUBLE_EQ(timeline.computeUs, 60);
  // Beside a collective until 50 kernels take 12.5 and then 25: what stream 0
  // waits for is hidden until 37.5.
  beside.waits = {1};
  Timeline hidden =
      simulate({collective(50), kernel(10), beside, kernel(5, {0})}, model);
  EXPECT_DOUBLE_EQ(hidden.spans[2].endUs, 37.5);
  EXPECT_DOUBLE_EQ(hidden.stepUs, 55);
  ASSERT_EQ(hidden.exposures.size(), 1u);
  EXPECT_DOUBLE_EQ(hidden.exposures[0].beginUs, 37.5);
  EXPECT_DOUBLE_EQ(hidden.exposedUs, 12.5);
}

TEST(Timeline, ALongStepIsLinear) {
  std::vector<TimedStep> steps;
  for (unsigned i = 0; i < 100000; ++i)
    steps.push_back(i % 20 == 19 ? collective(30, {i - 1}) : kernel(2));
  Timeline line = simulate(steps, CommModel(makeDevice(kWire)));
  EXPECT_DOUBLE_EQ(line.computeUs, 190000);
  EXPECT_DOUBLE_EQ(line.commUs, 150000);
  EXPECT_GE(line.stepUs, 190000);
}

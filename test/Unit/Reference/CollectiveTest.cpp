//===- CollectiveTest.cpp - Ranks as threads ------------------------------===//
//
// Meshes of two axes with 2, 3 and 4 ranks and more; and programs whose ranks
// do not agree, which must end with an error and never hang.
//
//===----------------------------------------------------------------------===//

#include "TestGraph.h"

#include <chrono>
#include <thread>

using namespace fusion::reference;
using namespace fusion::reference::testing;

/// A module with a mesh of `axes` and one op on %x.
static std::string module(const std::string &axes, const std::string &in,
                          const std::string &op, const std::string &out) {
  return "fusion.mesh @m(" + axes + ")\n" + makeModule("%x: " + in, op, out);
}

/// The value 10^rank in each element.
static std::vector<std::vector<Tensor>> powers(size_t ranks,
                                               llvm::ArrayRef<int64_t> shape) {
  std::vector<std::vector<Tensor>> inputs;
  int64_t value = 1;
  for (size_t rank = 0; rank < ranks; ++rank, value *= 10)
    inputs.push_back(
        {i64(shape, std::vector<int64_t>(*getNumElements(shape), value))});
  return inputs;
}

/// Result 0 of each rank, its first element.
static std::vector<int64_t> firstOf(const Outcome &outcome) {
  EXPECT_EQ(outcome.error, "");
  std::vector<int64_t> values;
  for (const std::vector<Tensor> &rank : outcome.ranks)
    values.push_back(rank[0].getInt(0));
  return values;
}

static std::string allReduce(const std::string &axes) {
  return "fusion.all_reduce sum, %x on @m[" + axes + "] : tensor<1xi64>";
}

// Ranks of dp = 2, tp = 2 are (0,0) (0,1) (1,0) (1,1).
TEST(Collectives, AllReduceWithinMeshAxes) {
  auto run = [](const std::string &mesh, size_t ranks,
                const std::string &axes) {
    return firstOf(evaluateOnRanks(
        module(mesh, "tensor<1xi64>", allReduce(axes), "tensor<1xi64>"),
        powers(ranks, {1})));
  };
  EXPECT_EQ(run("dp = 2, tp = 2", 4, "tp"),
            (std::vector<int64_t>{11, 11, 1100, 1100}));
  EXPECT_EQ(run("dp = 2, tp = 2", 4, "dp"),
            (std::vector<int64_t>{101, 1010, 101, 1010}));
  EXPECT_EQ(run("dp = 2, tp = 2", 4, "dp, tp"),
            (std::vector<int64_t>{1111, 1111, 1111, 1111}));
  EXPECT_EQ(
      run("dp = 3, tp = 2", 6, "dp"),
      (std::vector<int64_t>{10101, 101010, 10101, 101010, 10101, 101010}));
  EXPECT_EQ(run("dp = 1, tp = 3", 3, "tp"),
            (std::vector<int64_t>{111, 111, 111}));
  EXPECT_EQ(run("dp = 1, tp = 2", 2, "dp"), (std::vector<int64_t>{1, 10}));
}

// Ranks of dp = 2, tp = 2 hold 1, 10, 100 and 1000.
TEST(Collectives, GroupsAreOrderedAsTheAxesAreWritten) {
  auto gather = [](const std::string &axes) {
    std::vector<int64_t> values;
    Outcome outcome =
        evaluateOnRanks(module("dp = 2, tp = 2", "tensor<1xi64>",
                               "fusion.all_gather %x dim = 0 on @m[" + axes +
                                   "] : (tensor<1xi64>) -> tensor<4xi64>",
                               "tensor<4xi64>"),
                        powers(4, {1}));
    EXPECT_EQ(outcome.error, "");
    for (int64_t i = 0; i < 4; ++i)
      values.push_back(outcome.ranks[3][0].getInt(i));
    return values;
  };
  EXPECT_EQ(gather("dp, tp"), (std::vector<int64_t>{1, 10, 100, 1000}));
  EXPECT_EQ(gather("tp, dp"), (std::vector<int64_t>{1, 100, 10, 1000}));
  EXPECT_EQ(
      firstOf(evaluateOnRanks(
          module("dp = 2, tp = 2", "tensor<1xi64>",
                 "fusion.axis_index @m[tp, dp] : tensor<i64>", "tensor<i64>"),
          powers(4, {1}))),
      (std::vector<int64_t>{0, 2, 1, 3}));
}

TEST(Collectives, ReduceKinds) {
  auto run = [](const std::string &kind, const std::string &type,
                std::vector<std::vector<Tensor>> inputs) {
    return evaluateOnRanks(
        module("a = 3", type,
               "fusion.all_reduce " + kind + ", %x on @m[a] : " + type, type),
        std::move(inputs));
  };
  EXPECT_EQ(firstOf(run("max", "tensor<1xi64>", powers(3, {1}))),
            (std::vector<int64_t>{100, 100, 100}));
  EXPECT_EQ(firstOf(run("min", "tensor<1xi64>", powers(3, {1}))),
            (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(firstOf(run("prod", "tensor<1xi64>", powers(3, {1}))),
            (std::vector<int64_t>{1000, 1000, 1000}));
  // f16: 2048 + 1 + 1 is 2050 only if the sum is wide.
  Outcome wide = run("sum", "tensor<1xf16>",
                     {{floats(ElementKind::F16, {1}, {2048})},
                      {floats(ElementKind::F16, {1}, {1})},
                      {floats(ElementKind::F16, {1}, {1})}});
  EXPECT_EQ(valuesOf(wide.ranks[1][0]), (std::vector<double>{2050}));
  Outcome mean = run("mean", "tensor<1xf32>",
                     {{f32({1}, {1})}, {f32({1}, {2})}, {f32({1}, {6})}});
  EXPECT_EQ(valuesOf(mean.ranks[2][0]), (std::vector<double>{3}));
}

// A bucket: two operands of different types in one op.
TEST(Collectives, SeveralOperands) {
  std::string text = R"(
    fusion.mesh @m(a = 2)
    func.func @main(%x: tensor<2xf32>, %y: tensor<1xi64>) -> (tensor<2xf32>, tensor<1xi64>) {
      %r:2 = fusion.all_reduce sum, %x, %y on @m[a] : tensor<2xf32>, tensor<1xi64>
      return %r#0, %r#1 : tensor<2xf32>, tensor<1xi64>
    })";
  Outcome y = evaluateOnRanks(text, {{f32({2}, {1, 2}), i64({1}, {5})},
                                     {f32({2}, {10, 20}), i64({1}, {6})}});
  ASSERT_EQ(y.error, "");
  EXPECT_EQ(valuesOf(y.ranks[1][0]), (std::vector<double>{11, 22}));
  EXPECT_EQ(intsOf(y.ranks[0][1]), (std::vector<int64_t>{11}));
}

TEST(Collectives, GatherScatterAndAllToAll) {
  auto inputs = [] {
    return std::vector<std::vector<Tensor>>{{i64({2, 1}, {1, 2})},
                                            {i64({2, 1}, {3, 4})}};
  };
  auto run = [&](const std::string &op, const std::string &out) {
    Outcome y = evaluateOnRanks(
        module("a = 2", "tensor<2x1xi64>", "fusion." + op, out), inputs());
    EXPECT_EQ(y.error, "");
    std::vector<std::vector<int64_t>> values;
    for (const auto &rank : y.ranks)
      values.push_back(intsOf(rank[0]));
    return values;
  };
  using Values = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(run("all_gather %x dim = 0 on @m[a] : (tensor<2x1xi64>) -> "
                "tensor<4x1xi64>",
                "tensor<4x1xi64>"),
            (Values{{1, 2, 3, 4}, {1, 2, 3, 4}}));
  EXPECT_EQ(run("all_gather %x dim = 1 on @m[a] : (tensor<2x1xi64>) -> "
                "tensor<2x2xi64>",
                "tensor<2x2xi64>"),
            (Values{{1, 3, 2, 4}, {1, 3, 2, 4}}));
  EXPECT_EQ(run("reduce_scatter sum, %x dim = 0 on @m[a] : (tensor<2x1xi64>) "
                "-> tensor<1x1xi64>",
                "tensor<1x1xi64>"),
            (Values{{4}, {6}}));
  EXPECT_EQ(run("all_to_all %x split_dim = 0 concat_dim = 1 on @m[a] : "
                "(tensor<2x1xi64>) -> tensor<1x2xi64>",
                "tensor<1x2xi64>"),
            (Values{{1, 3}, {2, 4}}));
  EXPECT_EQ(run("collective_broadcast %x root = 1 on @m[a] : tensor<2x1xi64>",
                "tensor<2x1xi64>"),
            (Values{{3, 4}, {3, 4}}));
  EXPECT_EQ(run("collective_permute %x sources = [0] targets = [1] on @m[a] : "
                "tensor<2x1xi64>",
                "tensor<2x1xi64>"),
            (Values{{0, 0}, {1, 2}}));
}

// Positions are those in the group: with dp = 2, tp = 2, root 1 of [dp] is rank
// 2 or 3; and a ring of three.
TEST(Collectives, PositionsAreOfTheGroup) {
  EXPECT_EQ(firstOf(evaluateOnRanks(
                module("dp = 2, tp = 2", "tensor<1xi64>",
                       "fusion.collective_broadcast %x root = 1 on @m[dp] : "
                       "tensor<1xi64>",
                       "tensor<1xi64>"),
                powers(4, {1}))),
            (std::vector<int64_t>{100, 1000, 100, 1000}));
  EXPECT_EQ(firstOf(evaluateOnRanks(
                module("a = 3", "tensor<1xi64>",
                       "fusion.collective_permute %x sources = [0, 1, 2] "
                       "targets = [1, 2, 0] on @m[a] : tensor<1xi64>",
                       "tensor<1xi64>"),
                powers(3, {1}))),
            (std::vector<int64_t>{100, 1, 10}));
  auto index = [](const std::string &axes) {
    std::vector<std::vector<Tensor>> none(6);
    return firstOf(evaluateOnRanks(
        "fusion.mesh @m(dp = 3, tp = 2)\n" +
            makeModule("", "fusion.axis_index @m[" + axes + "] : tensor<i64>",
                       "tensor<i64>"),
        none));
  };
  EXPECT_EQ(index("dp"), (std::vector<int64_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(index("tp"), (std::vector<int64_t>{0, 1, 0, 1, 0, 1}));
}

// What comes from the rank behind, and from the one behind that, is put where
// those ranks' parts are: as an all_gather of the same axes. The last rank's
// part comes in two pieces.
TEST(Collectives, RankConcatIsInRankOrder) {
  for (std::string axes : {"dp, tp", "tp, dp"}) {
    std::string text = R"(
      fusion.mesh @m(dp = 1, tp = 3)
      func.func @main(%x: tensor<2x2xi64>) -> (tensor<6x2xi64>, tensor<6x2xi64>) {
        %a = fusion.collective_permute %x sources = [0, 1, 2] targets = [2, 0, 1] on @m[AXES] : tensor<2x2xi64>
        %b = fusion.collective_permute %x sources = [0, 1, 2] targets = [1, 2, 0] on @m[AXES] : tensor<2x2xi64>
        %c = fusion.slice %b starts = [0, 0] limits = [1, 2] strides = [1, 1] : tensor<2x2xi64>
        %d = fusion.slice %b starts = [1, 0] limits = [2, 2] strides = [1, 1] : tensor<2x2xi64>
        %y = fusion.rank_concat %x, %a, %c, %d on @m[AXES] : (tensor<2x2xi64>, tensor<2x2xi64>, tensor<1x2xi64>, tensor<1x2xi64>) -> tensor<6x2xi64>
        %g = fusion.all_gather %x dim = 0 on @m[AXES] : (tensor<2x2xi64>) -> tensor<6x2xi64>
        return %y, %g : tensor<6x2xi64>, tensor<6x2xi64>
      })";
    for (size_t at; (at = text.find("AXES")) != std::string::npos;)
      text.replace(at, 4, axes);
    std::vector<std::vector<Tensor>> inputs;
    for (unsigned rank = 0; rank < 3; ++rank)
      inputs.push_back({smallIntegers(ElementKind::I64, {2, 2}, rank)});
    Outcome y = evaluateOnRanks(text, inputs);
    ASSERT_EQ(y.error, "");
    for (const auto &rank : y.ranks)
      EXPECT_EQ(intsOf(rank[0]), intsOf(rank[1]));
  }
}

// Each rank's part, one behind the other from a row on; what is in front and
// behind is no rank's.
TEST(Collectives, RankSliceIsTheRanksPart) {
  auto slice = [](const std::string &axes, const std::string &shift) {
    std::vector<std::vector<Tensor>> inputs;
    for (unsigned rank = 0; rank < 6; ++rank) {
      Tensor x = smallIntegers(ElementKind::I64, {8, 2}, rank);
      for (int64_t i = 0; i < x.getNumElements(); ++i)
        x.setInt(i, i);
      inputs.push_back({x});
    }
    return evaluateOnRanks(
        "fusion.mesh @m(dp = 2, tp = 3)\n" +
            makeModule("%x: tensor<8x2xi64>",
                       "fusion.rank_slice %x start = 1 " + shift + "on @m[" +
                           axes + "] : (tensor<8x2xi64>) -> tensor<1x2xi64>",
                       "tensor<1x2xi64>"),
        inputs);
  };
  auto rows = [&](const std::string &axes, const std::string &shift = "") {
    Outcome y = slice(axes, shift);
    EXPECT_EQ(y.error, "");
    std::vector<int64_t> first;
    for (const auto &rank : y.ranks) {
      EXPECT_EQ(rank[0].getInt(1), rank[0].getInt(0) + 1);
      first.push_back(rank[0].getInt(0) / 2);
    }
    return first;
  };
  EXPECT_EQ(rows("dp"), (std::vector<int64_t>{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(rows("tp"), (std::vector<int64_t>{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(rows("tp, dp"), (std::vector<int64_t>{1, 3, 5, 2, 4, 6}));
  // Of the rank behind this one, and of the one in front of it.
  EXPECT_EQ(rows("tp", "shift = 1 "), (std::vector<int64_t>{2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(rows("tp", "shift = 2 "), (std::vector<int64_t>{3, 1, 2, 3, 1, 2}));
}

// A rank's place is the one along the op's axes, in their order: with dp = 2
// and tp = 2 it is rank 2 that stands behind rank 0 along dp.
TEST(Collectives, RankConcatGoesByTheGroup) {
  auto place = [](const std::string &axes, int64_t ranks) {
    std::string rows = std::to_string(ranks);
    std::string operands = "%x", types = "tensor<1xi64>";
    for (int64_t i = 1; i < ranks; ++i) {
      operands += ", %z";
      types += ", tensor<1xi64>";
    }
    std::string body = "%z = fusion.sub %x, %x : tensor<1xi64>\n"
                       "%r = fusion.rank_concat " +
                       operands + " on @m[" + axes + "] : (" + types +
                       ") -> tensor<" + rows + "xi64>";
    Outcome y = evaluateOnRanks(
        "fusion.mesh @m(dp = 2, tp = 2)\nfunc.func @main(%x: tensor<1xi64>) -> "
        "tensor<" +
            rows + "xi64> {\n" + body + "\nreturn %r : tensor<" + rows +
            "xi64>\n}",
        powers(4, {1}));
    EXPECT_EQ(y.error, "");
    std::vector<int64_t> places;
    for (const auto &rank : y.ranks)
      for (int64_t i = 0; i < ranks; ++i)
        if (rank[0].getInt(i) != 0)
          places.push_back(i);
    return places;
  };
  EXPECT_EQ(place("dp", 2), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(place("tp", 2), (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(place("tp, dp", 4), (std::vector<int64_t>{0, 2, 1, 3}));
}

// Case: ReduceScatter then AllGather is AllReduce.
TEST(Collectives, ScatterThenGatherIsAllReduce) {
  std::string text = R"(
    fusion.mesh @m(a = 4)
    func.func @main(%x: tensor<8xi64>) -> (tensor<8xi64>, tensor<8xi64>) {
      %p = fusion.reduce_scatter sum, %x dim = 0 on @m[a] : (tensor<8xi64>) -> tensor<2xi64>
      %g = fusion.all_gather %p dim = 0 on @m[a] : (tensor<2xi64>) -> tensor<8xi64>
      %r = fusion.all_reduce sum, %x on @m[a] : tensor<8xi64>
      return %g, %r : tensor<8xi64>, tensor<8xi64>
    })";
  std::vector<std::vector<Tensor>> inputs;
  for (unsigned rank = 0; rank < 4; ++rank)
    inputs.push_back({smallIntegers(ElementKind::I64, {8}, rank)});
  Outcome y = evaluateOnRanks(text, inputs);
  ASSERT_EQ(y.error, "");
  for (const auto &rank : y.ranks)
    EXPECT_EQ(intsOf(rank[0]), intsOf(rank[1]));
}

//===----------------------------------------------------------------------===//
// Ranks that do not agree
//===----------------------------------------------------------------------===//

static const char *kTwoPrograms = R"(
  fusion.mesh @m(a = 2, b = 1)
  func.func @reduce(%x: tensor<2xi64>) -> tensor<2xi64> {
    %r = fusion.all_reduce sum, %x on @m[a] : tensor<2xi64>
    return %r : tensor<2xi64>
  }
  func.func @reduce_max(%x: tensor<2xi64>) -> tensor<2xi64> {
    %r = fusion.all_reduce max, %x on @m[a] : tensor<2xi64>
    return %r : tensor<2xi64>
  }
  func.func @gather(%x: tensor<2xi64>) -> tensor<4xi64> {
    %r = fusion.all_gather %x dim = 0 on @m[a] : (tensor<2xi64>) -> tensor<4xi64>
    return %r : tensor<4xi64>
  }
  func.func @longer(%x: tensor<3xi64>) -> tensor<3xi64> {
    %r = fusion.all_reduce sum, %x on @m[a] : tensor<3xi64>
    return %r : tensor<3xi64>
  }
  func.func @nothing(%x: tensor<2xi64>) -> tensor<2xi64> {
    return %x : tensor<2xi64>
  }
  func.func @other_axis(%x: tensor<2xi64>) -> tensor<2xi64> {
    %0 = fusion.all_reduce sum, %x on @m[b] : tensor<2xi64>
    %r = fusion.all_reduce sum, %0 on @m[a, b] : tensor<2xi64>
    return %r : tensor<2xi64>
  })";

static void expectDisagreement(const std::string &rank1, Tensor input,
                               std::initializer_list<const char *> parts) {
  auto start = std::chrono::steady_clock::now();
  Outcome y = evaluateOnRanks(kTwoPrograms, {{i64({2}, {1, 2})}, {input}},
                              {"reduce", rank1});
  EXPECT_EQ(static_cast<int>(y.kind), static_cast<int>(FailureKind::Program));
  for (const char *part : parts)
    EXPECT_NE(y.error.find(part), std::string::npos)
        << "'" << part << "' is not in: " << y.error;
  // Seen, not waited for.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Disagreement, OtherOpOrKindOrSize) {
  Tensor x = i64({2}, {1, 2});
  expectDisagreement("gather", x,
                     {"rank 0 is at fusion.all_reduce sum",
                      "rank 1 is at fusion.all_gather dim 0"});
  expectDisagreement("reduce_max", x,
                     {"rank 0 is at fusion.all_reduce sum",
                      "rank 1 is at fusion.all_reduce max"});
  expectDisagreement("longer", i64({3}, {1, 2, 3}), {"i64 2 ", "i64 3 "});
  expectDisagreement("other_axis", x, {"@m[a]", "@m[a, b]"});
}

TEST(Disagreement, RankThatNeverComes) {
  expectDisagreement("nothing", i64({2}, {1, 2}),
                     {"deadlock", "rank 0 is at fusion.all_reduce sum",
                      "rank 1 has finished"});
}

// Two groups in opposite order: each rank waits for the other's other op.
TEST(Disagreement, OppositeOrderOfGroups) {
  std::string text = R"(
    fusion.mesh @m(a = 2, b = 2)
    func.func @ab(%x: tensor<1xi64>) -> tensor<1xi64> {
      %0 = fusion.all_reduce sum, %x on @m[a] : tensor<1xi64>
      %1 = fusion.all_reduce sum, %0 on @m[b] : tensor<1xi64>
      return %1 : tensor<1xi64>
    }
    func.func @ba(%x: tensor<1xi64>) -> tensor<1xi64> {
      %0 = fusion.all_reduce sum, %x on @m[b] : tensor<1xi64>
      %1 = fusion.all_reduce sum, %0 on @m[a] : tensor<1xi64>
      return %1 : tensor<1xi64>
    })";
  Outcome good =
      evaluateOnRanks(text, powers(4, {1}), {"ab", "ab", "ab", "ab"});
  EXPECT_EQ(firstOf(good), (std::vector<int64_t>{1111, 1111, 1111, 1111}));
  Outcome bad = evaluateOnRanks(text, powers(4, {1}), {"ab", "ba", "ba", "ab"});
  EXPECT_NE(bad.error.find("deadlock"), std::string::npos) << bad.error;
  EXPECT_NE(bad.error.find("rank 3"), std::string::npos) << bad.error;
}

TEST(Disagreement, FailingRankEndsTheOthers) {
  std::string text = R"(
    fusion.mesh @m(a = 2)
    func.func @good(%x: tensor<1xf32>) -> tensor<1xf32> {
      %r = fusion.all_reduce sum, %x on @m[a] : tensor<1xf32>
      return %r : tensor<1xf32>
    }
    func.func @bad(%x: tensor<1xf32>) -> tensor<1xf32> {
      %y = fusion.kernel_call "c" "f" "void f() {}" (%x) flops = 4 bytes = 32 : (tensor<1xf32>) -> tensor<1xf32>
      return %y : tensor<1xf32>
    })";
  Outcome y = evaluateOnRanks(text, {{f32({1}, {1})}, {f32({1}, {1})}},
                              {"good", "bad"});
  EXPECT_NE(y.error.find("rank 1: 'fusion.kernel_call'"), std::string::npos)
      << y.error;
}

// A peer that only computes for long is waited for until the deadline.
TEST(Disagreement, SlowPeerMeetsTheDeadline) {
  Options options;
  options.collectiveTimeout = 0.2;
  options.onResult = [](mlir::Operation *op, llvm::ArrayRef<Tensor>,
                        int64_t rank) {
    if (rank == 1 && op->getName().getStringRef() == "fusion.neg")
      std::this_thread::sleep_for(std::chrono::seconds(1));
  };
  std::string text = R"(
    fusion.mesh @m(a = 2)
    func.func @main(%x: tensor<1xi64>) -> tensor<1xi64> {
      %0 = fusion.neg %x : tensor<1xi64>
      %r = fusion.all_reduce sum, %0 on @m[a] : tensor<1xi64>
      return %r : tensor<1xi64>
    })";
  Outcome y = evaluateOnRanks(text, powers(2, {1}), {}, options);
  EXPECT_EQ(static_cast<int>(y.kind), static_cast<int>(FailureKind::Timeout));
  EXPECT_NE(y.error.find("in fusion.all_reduce sum"), std::string::npos);
  EXPECT_NE(y.error.find("for rank 1"), std::string::npos) << y.error;
}

TEST(Disagreement, MeshOfAnotherSize) {
  Outcome y = evaluateOnRanks(module("dp = 4, tp = 2", "tensor<1xi64>",
                                     allReduce("tp"), "tensor<1xi64>"),
                              powers(2, {1}));
  EXPECT_EQ(static_cast<int>(y.kind), static_cast<int>(FailureKind::Usage));
  EXPECT_NE(y.error.find("8 ranks, the run has 2"), std::string::npos)
      << y.error;
}

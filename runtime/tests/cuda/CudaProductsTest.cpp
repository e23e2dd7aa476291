//===- CudaProductsTest.cpp - How calls become products of a library ------===//
//
// On the tests' driver and cuBLASLt: how many products a call of several
// members is, on which streams, and that each member gets its own values.
//
//===----------------------------------------------------------------------===//
#include "BlasLtTesting.h"

#include <numeric>
#include <set>

using namespace fusion::rt;
using namespace fusion::rt::cuda;
using namespace fusion::rt::test;

namespace {

constexpr int64_t kRows = 3, kSum = 5, kColumns = 4;
/// Floats between operands in the tests' memory: what each takes at most, up to
/// the next multiple of 16 bytes.
constexpr int64_t kRoom = 32;

/// [3, 5] x [5, 4], with a bias of 4 or an addend.
LibraryCall productCall(int64_t members, bool hasBias, bool hasAddend = false) {
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.members = members;
  call.hasBias = hasBias;
  call.hasAddend = hasAddend;
  call.inputShape = {{0, kRows}, {0, kSum}};
  call.weightShape = {{0, kSum}, {0, kColumns}};
  call.outputShape = {{0, kRows}, {0, kColumns}};
  return call;
}

class CudaProductsTest : public BlasLtTest {
protected:
  /// Runs `call` on operands whose places, in steps of kRoom floats, `places`
  /// gives for each member: left side, right side, bias or addend, output.
  /// `shift`: floats that the right sides lie behind their places. Expects that
  /// all outputs are right.
  void run(const LibraryCall &call,
           const std::vector<std::vector<int64_t>> &places, int64_t shift = 0) {
    int64_t last = 0;
    for (const auto &member : places)
      last = std::max(last, *std::max_element(member.begin(), member.end()));
    std::vector<float> values = numbers(size_t((last + 2) * kRoom));
    auto memory = place(values);
    std::vector<void *> operands;
    for (const auto &member : places)
      for (size_t i = 0; i < member.size(); ++i)
        operands.push_back(memory.get() + member[i] * kRoom +
                           (i == 1 ? shift : 0));
    ASSERT_NO_FATAL_FAILURE(capture(call, operands));
    for (const auto &member : places) {
      const float *l = &values[member[0] * kRoom];
      const float *r = &values[member[1] * kRoom + shift];
      for (int64_t i = 0; i < kRows * kColumns; ++i) {
        float expected = call.hasBias ? values[member[2] * kRoom + i % kColumns]
                         : call.hasAddend ? values[member[2] * kRoom + i]
                                          : 0;
        for (int64_t k = 0; k < kSum; ++k)
          expected +=
              l[i / kColumns * kSum + k] * r[k * kColumns + i % kColumns];
        ASSERT_EQ(memory.get()[member.back() * kRoom + i], expected)
            << "element " << i;
      }
    }
  }

  std::vector<int64_t> batches() {
    std::vector<int64_t> result;
    for (uint64_t i = 0; i < fakeBlasLtCount(); ++i)
      result.push_back(fakeBlasLtProduct(i)->batch);
    return result;
  }
  size_t numStreams() {
    std::set<void *> streams;
    for (uint64_t i = 0; i < fakeBlasLtCount(); ++i)
      streams.insert(fakeBlasLtProduct(i)->stream);
    return streams.size();
  }
};

using Batches = std::vector<int64_t>;

TEST_F(CudaProductsTest, OneMemberIsOneProduct) {
  run(productCall(1, true), {{0, 1, 2, 3}});
  EXPECT_EQ(batches(), Batches{1});
  EXPECT_EQ(fakeBlasLtProduct(0)->stream, stream);
  EXPECT_EQ(fakeCudaCount("cuStreamCreate"), 1u); // ours
}

/// What runs beside it gets the others.
TEST_F(CudaProductsTest, AProductMayTakeSomeMultiprocessors) {
  LibraryCall call = productCall(1, true);
  run(call, {{0, 1, 2, 3}});
  EXPECT_EQ(fakeBlasLtProduct(0)->units, 0);
  call.units = 124;
  run(call, {{0, 1, 2, 3}});
  EXPECT_EQ(fakeBlasLtProduct(1)->units, 124);
}

/// One input for all; weights, biases and outputs at distances of their own.
TEST_F(CudaProductsTest, EquidistantMembersAreOneBatch) {
  run(productCall(3, true), {{0, 1, 10, 20}, {0, 3, 11, 23}, {0, 5, 12, 26}});
  ASSERT_EQ(batches(), Batches{3});
  const FakeProduct &product = *fakeBlasLtProduct(0);
  EXPECT_EQ(product.stepA, 2 * kRoom);
  EXPECT_EQ(product.stepB, 0);
  EXPECT_EQ(product.stepBias, kRoom);
  EXPECT_EQ(product.stepC, 3 * kRoom);
  EXPECT_EQ(product.stepD, 3 * kRoom);
  EXPECT_EQ(product.stream, stream);
  EXPECT_EQ(fakeCudaCount("cuEventRecord"), 0u);
}

/// From the last member on, as the library takes no distance below zero.
TEST_F(CudaProductsTest, FallingMembersAreOneBatch) {
  run(productCall(3, true), {{9, 5, 12, 26}, {8, 3, 11, 23}, {7, 1, 10, 20}});
  ASSERT_EQ(batches(), Batches{3});
  EXPECT_EQ(fakeBlasLtProduct(0)->stepA, 2 * kRoom);
  EXPECT_EQ(fakeBlasLtProduct(0)->stepB, kRoom);
  EXPECT_EQ(fakeBlasLtProduct(0)->stepBias, kRoom);
  EXPECT_EQ(fakeBlasLtProduct(0)->stepD, 3 * kRoom);
  fakeBlasLtReset();
  // Two of them fall, then all rise.
  run(productCall(4, true),
      {{0, 3, 12, 21}, {0, 2, 11, 20}, {0, 4, 13, 24}, {0, 6, 15, 28}});
  EXPECT_EQ(batches(), (Batches{2, 2}));
  EXPECT_EQ(fakeBlasLtProduct(0)->stepA, kRoom);
  EXPECT_EQ(fakeBlasLtProduct(1)->stepA, 2 * kRoom);
}

TEST_F(CudaProductsTest, MembersThatRiseAndFallAreProductsOfTheirOwn) {
  run(productCall(2, true), {{0, 2, 10, 20}, {0, 1, 11, 21}});
  EXPECT_EQ(batches(), (Batches{1, 1}));
}

TEST_F(CudaProductsTest, AddendsHaveADistanceOfTheirOwn) {
  run(productCall(2, false, true), {{0, 1, 10, 20}, {0, 2, 12, 23}});
  ASSERT_EQ(batches(), Batches{2});
  EXPECT_EQ(fakeBlasLtProduct(0)->stepC, 2 * kRoom);
  EXPECT_EQ(fakeBlasLtProduct(0)->stepD, 3 * kRoom);
}

/// An addend that its output overwrites.
TEST_F(CudaProductsTest, AddendsMayBeOverwritten) {
  run(productCall(2, false, true), {{0, 1, 10, 10}, {0, 2, 12, 12}});
  ASSERT_EQ(batches(), Batches{2});
}

TEST_F(CudaProductsTest, UnequalDistancesAreBranches) {
  run(productCall(3, true), {{0, 1, 10, 20}, {0, 2, 11, 21}, {0, 3, 12, 24}});
  EXPECT_EQ(batches(), (Batches{2, 1})); // the first two are a batch
  EXPECT_EQ(numStreams(), 2u);
  fakeBlasLtReset();
  run(productCall(3, true), {{0, 1, 10, 20}, {0, 2, 12, 21}, {0, 3, 11, 23}});
  EXPECT_EQ(batches(), (Batches{2, 1}));
}

/// Side by side, products of whole waves would only wait for each other.
TEST_F(CudaProductsTest, ProductsThatFillTheDeviceAreInLine) {
  std::vector<std::vector<int64_t>> places{
      {0, 1, 10, 20}, {0, 2, 11, 21}, {0, 3, 12, 24}};
  auto streamsOf = [&](int64_t waves, int64_t batchWaves) {
    fakeBlasLtReset();
    fakeBlasLtSet("waves", waves);
    fakeBlasLtSet("batch waves", batchWaves);
    run(productCall(3, true), places);
    EXPECT_EQ(batches(), (Batches{2, 1}));
    return numStreams();
  };
  EXPECT_EQ(streamsOf(97, 100), 1u);
  EXPECT_EQ(streamsOf(95, 190), 1u);
  // A wave and a half leaves half of the second idle.
  EXPECT_EQ(streamsOf(97, 150), 2u);
  EXPECT_EQ(streamsOf(73, 91), 2u);
  // The library may not say.
  EXPECT_EQ(streamsOf(0, 100), 2u);
}

/// A counter of blocks is cleared by a memset in front of the product: a short
/// one is better off without.
TEST_F(CudaProductsTest, ShortProductsNeedNoCounter) {
  auto hasWorkspace = [&](int64_t bytes, bool canDoWithout) {
    fakeBlasLtReset();
    fakeBlasLtSet("workspace", bytes);
    fakeBlasLtSet("no counter", canDoWithout);
    run(productCall(1, true), {{0, 1, 10, 20}});
    EXPECT_EQ(batches(), (Batches{1}));
    return fakeBlasLtProduct(0)->workspaceSize != 0;
  };
  EXPECT_FALSE(hasWorkspace(4, true));
  EXPECT_FALSE(hasWorkspace(256, true));
  // More is for partial sums.
  EXPECT_TRUE(hasWorkspace(257, true));
  EXPECT_TRUE(hasWorkspace(4, false));
}

/// Runs of equal distances, and never more than four branches at a time.
TEST_F(CudaProductsTest, PartsOfACallMayBeBatches) {
  std::vector<std::vector<int64_t>> places;
  for (int64_t i = 0; i < 12; ++i)
    places.push_back({0, 1 + i, 30 + i + (i >= 5), 60 + i});
  run(productCall(12, true), places);
  EXPECT_EQ(batches(), (Batches{5, 7}));
  fakeBlasLtReset();
  places.clear();
  for (int64_t i = 0; i < 6; ++i)
    places.push_back({0, 1 + i, 30 + i, 60 + i * i});
  fakeBlasLtSet("batches", 0);
  run(productCall(6, true), places);
  EXPECT_EQ(batches(), (Batches{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(numStreams(), 4u);
  // Branches have scratch memory of their own.
  EXPECT_NE(fakeBlasLtProduct(0)->workspace, fakeBlasLtProduct(1)->workspace);
  EXPECT_EQ(fakeBlasLtProduct(0)->workspace, fakeBlasLtProduct(4)->workspace);
  EXPECT_EQ(fakeBlasLtProduct(0)->stream, fakeBlasLtProduct(4)->stream);
}

/// A sum that has one order is of one algorithm, alone and in a batch. Any
/// other takes what the library names first for the batch.
TEST_F(CudaProductsTest, BatchesKeepTheOrderOfASum) {
  for (bool keepsOrder : {false, true}) {
    fakeBlasLtReset();
    fakeBlasLtSet("batch algorithm", 1);
    LibraryCall call = productCall(2, true);
    call.computeTf32 = true;
    call.keepsOrder = keepsOrder;
    run(call, {{0, 1, 10, 20}, {0, 2, 11, 21}});
    EXPECT_EQ(batches(), (Batches{2}));
    EXPECT_EQ(fakeBlasLtProduct(0)->algorithm, keepsOrder ? 0u : 1u);
  }
}

/// 16 bytes is what a batch's addresses and distances must be multiples of.
TEST_F(CudaProductsTest, UnalignedMembersAreProductsOfTheirOwn) {
  run(productCall(2, true), {{0, 1, 10, 20}, {0, 2, 11, 21}}, 1);
  EXPECT_EQ(batches(), (Batches{1, 1}));
  EXPECT_EQ(fakeBlasLtProduct(0)->alignment, 4u);
}

/// Told when the call is planned, so that another way may be taken.
TEST_F(CudaProductsTest, ALibraryMayNeedAlignedOperands) {
  EXPECT_TRUE(libraries->plan(productCall(1, true), 1, false).ok());
  fakeBlasLtSet("unaligned", 0);
  EXPECT_TRUE(libraries->plan(productCall(1, true), 1, true).ok());
  auto planned = libraries->plan(productCall(1, true), 1, false);
  EXPECT_EQ(planned.status().code(), Code::Rejected);
  EXPECT_NE(planned.status().message().find("multiple of 16 bytes"),
            std::string::npos);
  // Rows of 60 bytes: the second of several matrices starts at 60.
  LibraryCall call = productCall(1, false);
  call.inputShape = {{0, 2}, {0, 2}, {0, kRows}, {0, kSum}};
  call.weightShape = {{0, 2}, {0, 1}, {0, kSum}, {0, kColumns}};
  call.outputShape = {{0, 2}, {0, 2}, {0, kRows}, {0, kColumns}};
  EXPECT_EQ(libraries->plan(call, 1).status().code(), Code::Rejected);
  fakeBlasLtSet("unaligned", 1);
  EXPECT_TRUE(libraries->plan(call, 1).ok());
}

TEST_F(CudaProductsTest, ALibraryMayKnowNoBatch) {
  fakeBlasLtSet("bias step", 0);
  run(productCall(2, true), {{0, 1, 10, 20}, {0, 2, 11, 21}});
  EXPECT_EQ(batches(), (Batches{1, 1}));
}

/// What the library has no algorithm for, it lacks: its kernel runs instead.
TEST_F(CudaProductsTest, AKernelStandsInForAProductWithoutAlgorithm) {
  fakeBlasLtSet("algorithms", 0);
  EXPECT_EQ(libraries->plan(productCall(1, false), 1).status().code(),
            Code::Rejected);
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {8, 8}), y = builder.output("y", {8, 8});
  ByteRange w = builder.constant(std::vector<float>(64, 10));
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = call.weightShape = call.outputShape = {{0, 8}, {0, 8}};
  Command &command = builder.call(call, {x, w}, y);
  command.hasFallback = true;
  command.fallback.kernel = Add; // tells itself from a product
  command.fallback.units = {0, 64};
  auto session = cudaSession(forCuda(builder.build()));
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> in = numbers(64), out(64), expected;
  for (float value : in)
    expected.push_back(value + 10);
  const void *input = in.data();
  void *output = out.data();
  Status status = (*session)->run(1, &input, &output);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, expected);
  std::vector<std::string> notes = (*session)->executor().notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("has no algorithm"), std::string::npos) << notes[0];
}

} // namespace

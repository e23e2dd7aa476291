//===- CudaGradientsTest.cpp - Gradients beside a product -----------------===//
//
// On the tests' driver and cuBLASLt: which epilogue a gradient becomes, that
// the library's sides are ours exchanged, and what is refused so that the
// kernel beside the call runs. Data are small integers, and slopes are taken
// where they are 0, 1/2 and 1, so all results are exact.
//
//===----------------------------------------------------------------------===//
#include "BlasLtTesting.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;
using namespace fusion::rt::test;

namespace {

constexpr int64_t kRows = 8, kColumns = 16, kDepth = 5;
/// Floats between operands.
constexpr int64_t kRoom = 256;

class CudaGradientsTest : public BlasLtTest {
protected:
  /// [5, 8]^T x [5, 16], as the gradient of weights.
  static LibraryCall weightGradient(BiasGradient summed, int64_t members = 1) {
    LibraryCall call;
    call.op = LibraryOp::MatMul;
    call.members = members;
    call.transposeLhs = true;
    call.inputShape = {{0, kDepth}, {0, kRows}};
    call.weightShape = {{0, kDepth}, {0, kColumns}};
    call.outputShape = {{0, kRows}, {0, kColumns}};
    call.biasGradient = summed;
    return call;
  }

  /// [8, 5] x [16, 5]^T, as the gradient of a layer's input, times a slope.
  static LibraryCall inputGradient(bool summed, int64_t columns = kColumns) {
    LibraryCall call;
    call.op = LibraryOp::MatMul;
    call.transposeRhs = true;
    call.inputShape = {{0, kRows}, {0, kDepth}};
    call.weightShape = {{0, columns}, {0, kDepth}};
    call.outputShape = {{0, kRows}, {0, columns}};
    call.activation = Activation::GeluTanhGrad;
    if (summed)
      call.biasGradient = BiasGradient::Result;
    return call;
  }

  /// The slope of gelu at the `i`-th place, and where it has that slope.
  static float slope(int64_t i) { return i % 3 == 0 ? 0.5f : i % 3 == 1; }
  static float slopeAt(int64_t i) {
    return i % 3 == 0 ? 0 : i % 3 == 1 ? 40 : -40;
  }

  /// Runs the call, and expects all that it writes to be right. `shift`: floats
  /// that the operands of a member lie further behind those of the last one.
  void run(const LibraryCall &call, int64_t shift = 0) {
    size_t each =
        3 + call.hasSlope() + (call.biasGradient != BiasGradient::None);
    size_t count = each * size_t(call.members);
    size_t room = count * kRoom + size_t(shift * call.members + 15) / 16 * 16;
    auto placeOf = [&](size_t operand) {
      return operand * kRoom + size_t(shift) * (operand / each);
    };
    std::vector<float> values = numbers(room);
    for (size_t i = 2; call.hasSlope() && i < count; i += each)
      for (int64_t at = 0; at < kRoom; ++at)
        values[placeOf(i) + size_t(at)] = slopeAt(at);
    auto memory = place(values);
    std::vector<void *> operands;
    for (size_t i = 0; i < count; ++i)
      operands.push_back(memory.get() + placeOf(i));
    ASSERT_NO_FATAL_FAILURE(capture(call, operands));
    for (int64_t member = 0; member < call.members; ++member)
      check(call, &values[placeOf(size_t(member) * each)],
            memory.get() + placeOf(size_t(member) * each));
  }

  void check(const LibraryCall &call, const float *in, const float *out) {
    auto lhs = [&](int64_t k, int64_t row) {
      return in[call.transposeLhs ? k * kRows + row : row * kDepth + k];
    };
    auto rhs = [&](int64_t k, int64_t column) {
      return in[kRoom + (call.transposeRhs ? column * kDepth + k
                                           : k * kColumns + column)];
    };
    const float *result = out + (2 + call.hasSlope()) * kRoom;
    const float *sum = result + kRoom;
    std::vector<float> ofResult(kColumns);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < kColumns; ++column) {
        float expected = 0;
        for (int64_t k = 0; k < kDepth; ++k)
          expected += lhs(k, row) * rhs(k, column);
        if (call.hasSlope())
          expected *= slope(row * kColumns + column);
        ASSERT_EQ(result[row * kColumns + column], expected)
            << row << ", " << column;
        ofResult[size_t(column)] += expected;
      }
    if (call.biasGradient == BiasGradient::None)
      return;
    bool ofLhs = call.biasGradient == BiasGradient::Lhs;
    for (int64_t at = 0; at < (ofLhs ? kRows : kColumns); ++at) {
      float expected = 0;
      for (int64_t k = 0; k < kDepth; ++k)
        expected += ofLhs ? lhs(k, at) : rhs(k, at);
      if (call.biasGradient == BiasGradient::Result)
        expected = ofResult[size_t(at)];
      ASSERT_EQ(sum[at], expected) << at;
    }
  }

  std::vector<int64_t> epilogues() {
    std::vector<int64_t> result;
    for (uint64_t i = 0; i < fakeBlasLtCount(); ++i)
      result.push_back(fakeBlasLtProduct(i)->epilogue);
    return result;
  }
};

using Epilogues = std::vector<int64_t>;

/// cublasLtEpilogue_t: BGRADA is 256, BGRADB 512. Our right side is its A.
TEST_F(CudaGradientsTest, SumOfTheRightSide) {
  run(weightGradient(BiasGradient::Rhs));
  EXPECT_EQ(epilogues(), Epilogues{256});
}
TEST_F(CudaGradientsTest, SumOfTheLeftSide) {
  run(weightGradient(BiasGradient::Lhs));
  EXPECT_EQ(epilogues(), Epilogues{512});
}

/// DGELU is 192, DGELU_BGRAD 208.
TEST_F(CudaGradientsTest, SlopeOfGelu) {
  run(inputGradient(false));
  EXPECT_EQ(epilogues(), Epilogues{192});
}
TEST_F(CudaGradientsTest, SlopeOfGeluAndSumOfTheResult) {
  run(inputGradient(true));
  EXPECT_EQ(epilogues(), Epilogues{208});
}

/// At equal distances: the sums too, and where slopes are taken.
TEST_F(CudaGradientsTest, MembersAreOneBatch) {
  run(weightGradient(BiasGradient::Rhs, 3));
  ASSERT_EQ(epilogues(), Epilogues{256});
  EXPECT_EQ(fakeBlasLtProduct(0)->batch, 3);
  EXPECT_EQ(fakeBlasLtProduct(0)->stepBias, 4 * kRoom);
  fakeBlasLtReset();
  LibraryCall call = inputGradient(true);
  call.members = 2;
  run(call);
  ASSERT_EQ(epilogues(), Epilogues{208});
  EXPECT_EQ(fakeBlasLtProduct(0)->batch, 2);
  fakeBlasLtReset();
  fakeBlasLtSet("batches", 0);
  run(weightGradient(BiasGradient::Lhs, 3));
  EXPECT_EQ(epilogues(), (Epilogues{512, 512, 512}));
}

/// Sixteen bytes are four elements, and the operand of a slope wants eight.
TEST_F(CudaGradientsTest, DistancesOfSlopesAreMultiplesOfEight) {
  LibraryCall call = inputGradient(false);
  call.members = 2;
  run(call, 4);
  EXPECT_EQ(epilogues(), (Epilogues{192, 192}));
}

/// The algorithm is the first of those for the gradient, in f32 too.
TEST_F(CudaGradientsTest, LibrariesMayHaveNone) {
  fakeBlasLtSet("gradients", 0);
  for (const LibraryCall &call :
       {weightGradient(BiasGradient::Rhs), weightGradient(BiasGradient::Lhs),
        inputGradient(false), inputGradient(true)}) {
    auto planned = libraries->plan(call, 1);
    EXPECT_EQ(planned.status().code(), Code::Rejected);
    EXPECT_NE(planned.status().message().find("has no algorithm"),
              std::string::npos)
        << planned.status().message();
  }
  EXPECT_TRUE(libraries->plan(weightGradient(BiasGradient::None), 1).ok());
}

/// The operand of the slope has rows of a multiple of 8.
TEST_F(CudaGradientsTest, RowsOfTheSlopeAreMultiplesOfEight) {
  EXPECT_EQ(libraries->plan(inputGradient(false, 12), 1).status().code(),
            Code::Rejected);
  EXPECT_TRUE(libraries->plan(inputGradient(false, 24), 1).ok());
}

/// Nobody would write the sum.
TEST_F(CudaGradientsTest, EmptyProductsHaveNoGradient) {
  LibraryCall call = inputGradient(true);
  call.inputShape[0] = call.outputShape[0] = {1, -1};
  auto planned = libraries->plan(call, 1);
  EXPECT_EQ(planned.status().code(), Code::Rejected);
  EXPECT_NE(planned.status().message().find("empty product"),
            std::string::npos);
  EXPECT_TRUE(libraries->plan(call, 3).ok());
}

} // namespace

//===- CudaAutotuneProductsTest.cpp - Which ways of a product are timed ---===//
//
// On the tests' driver and cuBLASLt: algorithms with other settings.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"
#include "FakeBlasLt.h"

#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

constexpr int64_t kRows = 8, kSum = 5, kColumns = 4;

/// y = x w^T + b, of [8, 5] and [4, 5]; w is an input.
Module linearModule(bool allowTf32) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {kRows, kSum});
  ByteRange w = builder.input("w", {kColumns, kSum});
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.computeTf32 = allowTf32;
  call.transposeRhs = true;
  call.hasBias = true;
  call.inputShape = {{0, kRows}, {0, kSum}};
  call.weightShape = {{0, kColumns}, {0, kSum}};
  call.outputShape = {{0, kRows}, {0, kColumns}};
  ByteRange b = builder.constant(numbers(kColumns, 7));
  Command &command =
      builder.call(call, {x, w, b}, builder.output("y", {kRows, kColumns}));
  for (Operand &operand : command.operands)
    operand.dtype = DType::F32;
  return forCuda(builder.build());
}

class CudaAutotuneProductsTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    fakeBlasLtReset();
    folder = temporaryPath("cache");
    ::mkdir(folder.c_str(), 0700);
    ::unlink((folder + "/fusion/autotune").c_str());
    ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    fakeBlasLtSet("algorithms", 6);
    for (int i = 0; i < 6; ++i)
      fakeBlasLtSet(("millis " + std::to_string(i)).c_str(), 12 - i);
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    CudaTest::TearDown();
  }

  struct Seen {
    FakeProduct product{}; ///< of the run
    uint64_t timed = 0;    ///< intervals that were measured
  };
  /// A session of its own: makes it, runs it once, and looks at the values.
  Seen session(bool allowTf32 = true) {
    Seen seen;
    SessionOptions options;
    options.autotune = true;
    uint64_t before = fakeCudaCount("cuEventElapsedTime");
    auto made = cudaSession(linearModule(allowTf32), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok())
      return seen;
    seen.timed = fakeCudaCount("cuEventElapsedTime") - before;
    EXPECT_TRUE((*made)->executor().notes().empty());
    std::vector<float> x = numbers(size_t(kRows * kSum), 3),
                       w = numbers(kSum * kColumns, 1),
                       b = numbers(kColumns, 7), y(size_t(kRows * kColumns)),
                       expected;
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) {
        float sum = b[size_t(j)];
        for (int64_t k = 0; k < kSum; ++k)
          sum += x[size_t(i * kSum + k)] * w[size_t(j * kSum + k)];
        expected.push_back(sum);
      }
    const void *inputs[] = {x.data(), w.data()};
    void *output = y.data();
    EXPECT_OK((*made)->run(1, inputs, &output));
    EXPECT_EQ(y, expected);
    seen.product = *fakeBlasLtProduct(fakeBlasLtCount() - 1);
    return seen;
  }
  std::string folder;
};

/// Sums of f32 have one order, whatever is fast.
TEST_F(CudaAutotuneProductsTest, StrictProductsStayAsTheyAre) {
  Seen seen = session(/*allowTf32=*/false);
  EXPECT_EQ(seen.product.algorithm, 0u);
  EXPECT_EQ(seen.timed, 0u);
}

TEST_F(CudaAutotuneProductsTest, NeighboursOfTheFastestAreTimed) {
  fakeBlasLtSet("swizzles", 1);
  fakeBlasLtSet("millis 5 swizzle 2", 2);
  // Not of the two fastest: nobody looks.
  fakeBlasLtSet("millis 0 swizzle 1", 1);
  Seen seen = session();
  EXPECT_EQ(seen.product.algorithm, 5u);
  EXPECT_EQ(seen.product.swizzle, 2u);
  Seen second = session();
  EXPECT_EQ(second.timed, 0u);
  EXPECT_EQ(second.product.swizzle, 2u);
}

} // namespace

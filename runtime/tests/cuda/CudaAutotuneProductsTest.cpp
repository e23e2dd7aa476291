//===- CudaAutotuneProductsTest.cpp - Which ways of a product are timed ---===//
//
// On the tests' driver and cuBLASLt: algorithms with other settings, and the
// product whose right side is transposed first.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"
#include "FakeBlasLt.h"

#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

constexpr int64_t kManyRows = 4096, kSum = 5, kColumns = 4;

/// y = x w^T + b, of [rows, 5] and [4, 5]; w is an input.
Module linearModule(int64_t rows, bool allowTf32) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {rows, kSum});
  ByteRange w = builder.input("w", {kColumns, kSum});
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.computeTf32 = allowTf32;
  call.transposeRhs = true;
  call.hasBias = true;
  call.inputShape = {{0, rows}, {0, kSum}};
  call.weightShape = {{0, kColumns}, {0, kSum}};
  call.outputShape = {{0, rows}, {0, kColumns}};
  ByteRange b = builder.constant(numbers(kColumns, 7));
  Command &command =
      builder.call(call, {x, w, b}, builder.output("y", {rows, kColumns}));
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
    for (int i = 0; i < 6; ++i) {
      fakeBlasLtSet(("transposed millis " + std::to_string(i)).c_str(), 12 - i);
      fakeBlasLtSet(("millis " + std::to_string(i)).c_str(), 6 - i);
    }
    fakeBlasLtSet("millis transform", 3);
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    CudaTest::TearDown();
  }

  struct Seen {
    FakeProduct product{}; ///< of the run
    uint64_t timed = 0;    ///< intervals that were measured
    uint64_t bytes = 0;    ///< of the session's memory
    std::vector<std::string> notes;
  };
  /// A session of its own: makes it, runs it once, and looks at the values.
  Seen session(int64_t rows = kManyRows, bool allowTf32 = true,
               uint64_t memoryLimit = 0) {
    Seen seen;
    SessionOptions options;
    options.autotune = true;
    options.memoryLimit = memoryLimit;
    uint64_t before = fakeCudaCount("cuEventElapsedTime");
    auto made = cudaSession(linearModule(rows, allowTf32), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok())
      return seen;
    seen.timed = fakeCudaCount("cuEventElapsedTime") - before;
    seen.bytes = (*made)->executor().memory().total();
    seen.notes = (*made)->executor().notes();
    std::vector<float> x = numbers(size_t(rows * kSum), 3),
                       w = numbers(kSum * kColumns, 1),
                       b = numbers(kColumns, 7), y(size_t(rows * kColumns)),
                       expected;
    for (int64_t i = 0; i < rows; ++i)
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
  std::string read() {
    std::ifstream in(folder + "/fusion/autotune");
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::string folder;
};

/// 3 ms for the transpose and 1 for the product, against 7.
TEST_F(CudaAutotuneProductsTest, TheRightSideMayBeTransposedFirst) {
  Seen seen = session();
  EXPECT_FALSE(seen.product.isTransposed);
  EXPECT_EQ(seen.product.algorithm, 5u);
  EXPECT_TRUE(seen.notes.empty());
  // The next session knows, under the name of the product that was asked for.
  std::string file = read();
  EXPECT_NE(file.find("f32 tf32 4096x4x5 NT bias\tturned "), std::string::npos)
      << file;
  Seen second = session();
  EXPECT_EQ(second.timed, 0u);
  EXPECT_FALSE(second.product.isTransposed);
  EXPECT_EQ(second.product.algorithm, 5u);
  EXPECT_EQ(second.bytes, seen.bytes);
}

/// The whole is timed, not the product alone.
TEST_F(CudaAutotuneProductsTest, ATransposeThatTakesLongerIsLeft) {
  Seen turned = session();
  ::unlink((folder + "/fusion/autotune").c_str());
  fakeBlasLtSet("millis transform", 8);
  Seen seen = session();
  EXPECT_TRUE(seen.product.isTransposed);
  EXPECT_EQ(seen.product.algorithm, 5u);
  // 80 bytes of weights, at a multiple of 256.
  EXPECT_EQ(turned.bytes, seen.bytes + 256);
}

TEST_F(CudaAutotuneProductsTest, FewRowsAreNotWorthIt) {
  EXPECT_TRUE(session(kManyRows - 1).product.isTransposed);
}

/// Sums of f32 have one order, whatever is fast.
TEST_F(CudaAutotuneProductsTest, StrictProductsStayAsTheyAre) {
  Seen seen = session(kManyRows, /*allowTf32=*/false);
  EXPECT_TRUE(seen.product.isTransposed);
  EXPECT_EQ(seen.product.algorithm, 0u);
  EXPECT_EQ(seen.timed, 0u);
}

/// Also where the file says that it was faster.
TEST_F(CudaAutotuneProductsTest, TheTransposeKeepsTheMemoryLimit) {
  // Operands to time, and what a run takes, but not 32 MB for an algorithm.
  uint64_t limit = uint64_t(1) << 20;
  for (bool isRemembered : {false, true}) {
    if (isRemembered)
      EXPECT_FALSE(session().product.isTransposed);
    Seen seen = session(kManyRows, true, limit);
    EXPECT_TRUE(seen.product.isTransposed);
    EXPECT_EQ(seen.product.algorithm, 5u);
    EXPECT_LE(seen.bytes, limit);
    ::unlink((folder + "/fusion/autotune").c_str());
  }
}

TEST_F(CudaAutotuneProductsTest, NeighboursOfTheFastestAreTimed) {
  fakeBlasLtSet("swizzles", 1);
  fakeBlasLtSet("transposed millis 5 swizzle 2", 2);
  // Not of the two fastest: nobody looks.
  fakeBlasLtSet("transposed millis 0 swizzle 1", 1);
  fakeBlasLtSet("millis transform", 8);
  Seen seen = session();
  EXPECT_EQ(seen.product.algorithm, 5u);
  EXPECT_EQ(seen.product.swizzle, 2u);
  Seen second = session();
  EXPECT_EQ(second.timed, 0u);
  EXPECT_EQ(second.product.swizzle, 2u);
}

} // namespace

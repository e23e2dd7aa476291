//===- BlasLtTesting.h - Calls on the tests' cuBLASLt -----------*- C++ -*-===//
//
// A fixture with the tests' driver and cuBLASLt, a stream, and a way to run one
// call the way a session does: captured, with scratch memory of its own.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_CUDA_BLASLTTESTING_H
#define FUSION_RUNTIME_TESTS_CUDA_BLASLTTESTING_H

#include "CudaTesting.h"
#include "FakeBlasLt.h"
#include "LibraryCalls.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

namespace fusion::rt::test {

class BlasLtTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    fakeBlasLtReset();
    auto opened = cuda::Driver::open();
    ASSERT_TRUE(opened.ok());
    driver = *opened;
    driver->contextPush(reinterpret_cast<cuda::CUcontext>(0x1000));
    ASSERT_EQ(driver->streamCreate(&stream, cuda::kStreamNonBlocking),
              cuda::kSuccess);
    auto libs = cuda::CudaLibraries::open(*driver);
    ASSERT_TRUE(libs.ok());
    libraries = std::move(*libs);
  }
  void TearDown() override {
    libraries.reset();
    driver->streamDestroy(stream);
    cuda::CUcontext ignored;
    driver->contextPop(&ignored);
    CudaTest::TearDown();
  }

  /// Floats at an address that any call takes, with these values.
  static std::unique_ptr<float, void (*)(void *)>
  place(const std::vector<float> &values) {
    std::unique_ptr<float, void (*)(void *)> memory(
        static_cast<float *>(
            std::aligned_alloc(64, (values.size() * 4 + 63) / 64 * 64)),
        std::free);
    std::copy(values.begin(), values.end(), memory.get());
    return memory;
  }

  /// Captures the call and drops the graph: the tests' library has computed by
  /// then. Expects that all branches are joined, and that each product has its
  /// own scratch memory within what was asked for.
  void capture(const LibraryCall &call, std::vector<void *> operands) {
    auto planned = libraries->plan(call, 1);
    ASSERT_TRUE(planned.ok()) << planned.status().message();
    std::vector<char> workspace((*planned)->workspace());
    cuda::CUgraph graph = nullptr;
    ASSERT_EQ(driver->streamBeginCapture(stream, cuda::kCaptureThreadLocal),
              cuda::kSuccess);
    Status status =
        (*planned)->enqueue(stream, operands.data(), workspace.data());
    EXPECT_EQ(driver->streamEndCapture(stream, &graph), cuda::kSuccess);
    driver->graphDestroy(graph);
    ASSERT_TRUE(status.ok()) << status.message();
    for (uint64_t i = 0; i < fakeBlasLtCount(); ++i) {
      const FakeProduct &product = *fakeBlasLtProduct(i);
      auto *scratch = static_cast<char *>(product.workspace);
      EXPECT_TRUE(product.workspaceSize == 0 ||
                  (scratch >= workspace.data() &&
                   scratch + product.workspaceSize <=
                       workspace.data() + workspace.size()));
    }
  }

  const cuda::Driver *driver = nullptr;
  cuda::CUstream stream = nullptr;
  std::unique_ptr<cuda::CudaLibraries> libraries;
};

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_CUDA_BLASLTTESTING_H

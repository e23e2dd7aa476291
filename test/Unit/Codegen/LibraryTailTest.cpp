//===- LibraryTailTest.cpp - Runs the kernel behind a library call --------===//
//
// The library's part is written into the output by hand; the tail reads and
// overwrites it, also for a second output of another type.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <gtest/gtest.h>

using namespace fusion::test;

TEST(LibraryTail, OverwritesTheLibrarysOutput) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<?x4xf32>, %w: tensor<4x20xf32>, %s: tensor<20xf32>) -> (tensor<?x20xi32>, tensor<?x20xf32>) attributes {fusion.batch = array<i64: 1, 4>} {
      %r, %q = fusion.group library (%a = %x : tensor<?x4xf32>, %b = %w : tensor<4x20xf32>, %c = %s : tensor<20xf32>) -> (tensor<?x20xi32>, tensor<?x20xf32>) {
        %0 = fusion.matmul %a, %b : tensor<?x4xf32>, tensor<4x20xf32>
        %1 = fusion.broadcast %c dims = [1] : tensor<20xf32> to tensor<?x20xf32>
        %2 = fusion.mul %0, %1 : tensor<?x20xf32>
        %3 = fusion.cast %0 : tensor<?x20xf32> to tensor<?x20xi32>
        fusion.yield %3, %2 : tensor<?x20xi32>, tensor<?x20xf32>
      }
      return %r, %q : tensor<?x20xi32>, tensor<?x20xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  auto main = runner.module->lookupSymbol<mlir::func::FuncOp>("main");
  fusion::GroupOp group = *main.getOps<fusion::GroupOp>().begin();
  auto operands =
      group->getAttrOfType<mlir::DenseI64ArrayAttr>("fusion.tail_operands")
          .asArrayRef();
  // Input 2 (the scale), output 1 (the product), output 0.
  ASSERT_EQ(operands, (llvm::ArrayRef<int64_t>{2, 4, 3}));
  auto call = group->getAttrOfType<mlir::DictionaryAttr>("fusion.call");
  EXPECT_EQ(call.getAs<mlir::DenseI64ArrayAttr>("operands").asArrayRef(),
            (llvm::ArrayRef<int64_t>{0, 1, 4}));

  std::vector<float> scale(20), product(40);
  for (int i = 0; i < 20; ++i)
    scale[i] = static_cast<float>(i);
  for (int i = 0; i < 40; ++i)
    product[i] = static_cast<float>(i - 7);
  Bytes scaleBytes = toBytes(scale), productBytes = toBytes(product),
        casts(160);
  void *buffers[] = {scaleBytes.data(), productBytes.data(), casts.data()};
  auto units = runner.call("k0", buffers, 2);
  EXPECT_EQ(units % 2, 0) << "units are not a multiple of the rows";
  auto scaled = fromBytes<float>(productBytes);
  auto integers = fromBytes<int32_t>(casts);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(scaled[i], product[i] * scale[i % 20]) << i;
    EXPECT_EQ(integers[i], i - 7);
  }
}

//===- DeviceCodeTest.cpp - Hand-written kernels as PTX and cubins --------===//
//
// From kernels as an emitter writes them to PTX, without a GPU. Assemblers are
// shell scripts that only look like one, so that no toolkit is needed.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/DeviceCode.h"
#include "fusion/Codegen/Passes.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace fusion;

namespace {

/// A kernel whose threads, 64 a block, each apply `op` to eight bf16.
std::string kernelText(const std::string &op, int operands) {
  return R"(
module @kernels {
  func.func @k0(%buffers: !llvm.ptr, %batch: i64, %block: i64) attributes {
      fusion.units = #fusion.extent<0 * B + 1024>, fusion.grain = 64 : i64,
      fusion.threads = 64 : i64, fusion.operands = )" +
         std::to_string(operands) + R"( : i64} {
    %slot = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %x0 = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
    %y0 = llvm.load %slot : !llvm.ptr -> !llvm.ptr
    %x = llvm.addrspacecast %x0 : !llvm.ptr to !llvm.ptr<1>
    %y = llvm.addrspacecast %y0 : !llvm.ptr to !llvm.ptr<1>
    %lane = nvvm.read.ptx.sreg.tid.x : i32
    %t = arith.extui %lane : i32 to i64
    %threads = arith.constant 64 : i64
    %first = arith.muli %block, %threads : i64
    %i = arith.addi %first, %t : i64
    %from = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, vector<8xbf16>
    %to = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, vector<8xbf16>
    %v = llvm.load %from {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
    %w = arith.extf %v : vector<8xbf16> to vector<8xf32>
    %c = arith.constant dense<2.0> : vector<8xf32>
    %r = )" +
         op + R"( : vector<8xf32>
    %n = arith.truncf %r : vector<8xf32> to vector<8xbf16>
    llvm.store %n, %to {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
    return
  }
}
)";
}

class DeviceCodeTest : public testing::Test {
protected:
  DeviceCodeTest() {
    context.loadDialect<FusionDialect, arith::ArithDialect, func::FuncDialect,
                        LLVM::LLVMDialect, math::MathDialect, NVVM::NVVMDialect,
                        vector::VectorDialect>();
    EXPECT_FALSE(
        llvm::sys::fs::createUniqueDirectory("device-code-test", folder));
  }
  ~DeviceCodeTest() override { llvm::sys::fs::remove_directories(folder); }

  llvm::Expected<DeviceCode> compile(const std::string &op,
                                     const DeviceCodeOptions &options = {},
                                     int operands = 2) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(kernelText(op, operands), &context);
    PassManager manager(&context);
    LowerKernelsOptions lower;
    lower.target = "cuda";
    manager.addPass(createLowerKernels(lower));
    if (!module || failed(manager.run(*module)))
      return llvm::createStringError("the kernel is wrong");
    return compileDeviceCode(*module, options);
  }

  /// Options with a program of its own in place of the assembler.
  DeviceCodeOptions fake(const std::string &script) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "ptxas");
    std::error_code error;
    {
      llvm::raw_fd_ostream stream(path, error);
      stream << "#!/bin/sh\n" << script << "\n";
    }
    llvm::sys::fs::setPermissions(path, llvm::sys::fs::all_all);
    DeviceCodeOptions options;
    options.ptxas = path.str().str();
    return options;
  }

  /// The code and the text of an error.
  static std::pair<std::error_code, std::string>
  failureOf(llvm::Expected<DeviceCode> code) {
    std::pair<std::error_code, std::string> result;
    llvm::handleAllErrors(
        code.takeError(), [&](const llvm::ErrorInfoBase &info) {
          result = {info.convertToErrorCode(), info.message()};
        });
    return result;
  }

  MLIRContext context;
  llvm::SmallString<128> folder;
};

size_t count(const std::string &text, const std::string &word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1))
    ++found;
  return found;
}

// A thread reads and writes 16 bytes at once, and the addresses come from the
// parameters' own memory.
TEST_F(DeviceCodeTest, WideAccesses) {
  llvm::Expected<DeviceCode> code = compile("math.sqrt %w");
  ASSERT_TRUE(bool(code));
  EXPECT_EQ(count(code->ptx, "sqrt.rn.f32"), 8u);
  EXPECT_EQ(count(code->ptx, "ld.global.v4.b32"), 1u);
  EXPECT_EQ(count(code->ptx, "st.global.v4.b32"), 1u);
  EXPECT_EQ(count(code->ptx, "ld.global"), 1u);
  EXPECT_EQ(count(code->ptx, "ld.param.b64"), 2u);
  EXPECT_EQ(count(code->ptx, ".local"), 0u);
  EXPECT_EQ(count(code->ptx, "cvt.rn.bf16x2.f32"), 4u);
  EXPECT_EQ(count(code->ptx, ".reqntid 64"), 1u);
  EXPECT_EQ(count(code->ptx, ".visible .entry k0("), 1u);
  EXPECT_FALSE(code->usesLibdevice);
  EXPECT_TRUE(code->cubin.empty());
}

// NaN passes, and zeros are ordered, by the instruction.
TEST_F(DeviceCodeTest, MaximumIsAnInstruction) {
  for (StringRef architecture : getArchitectures()) {
    DeviceCodeOptions options;
    options.architecture = architecture.str();
    llvm::Expected<DeviceCode> code = compile("arith.maximumf %w, %c", options);
    ASSERT_TRUE(bool(code));
    EXPECT_EQ(count(code->ptx, ".target " + options.architecture), 1u);
    EXPECT_EQ(count(code->ptx, "max.NaN.f32"), 8u);
  }
}

// 4 KB of parameters are 511 addresses and the batch.
TEST_F(DeviceCodeTest, ManyOperandsTakeALaterPtx) {
  for (auto [operands, version] : {std::pair(511, "8.0"), {512, "8.1"}}) {
    llvm::Expected<DeviceCode> code =
        compile("math.sqrt %w", DeviceCodeOptions(), operands);
    ASSERT_TRUE(bool(code));
    EXPECT_EQ(count(code->ptx, std::string(".version ") + version), 1u);
  }
}

TEST_F(DeviceCodeTest, SameBytesAgain) {
  auto first = compile("arith.divf %w, %w"),
       again = compile("arith.divf %w, %w");
  ASSERT_TRUE(bool(first) && bool(again));
  EXPECT_EQ(first->ptx, again->ptx);
  EXPECT_EQ(count(first->ptx, "div.rn.f32"), 8u);
}

TEST_F(DeviceCodeTest, NeedsLibdevice) {
  auto [code, message] = failureOf(compile("math.tanh %w"));
  EXPECT_EQ(code, std::errc::no_such_file_or_directory);
  EXPECT_NE(message.find("__nv_tanhf"), std::string::npos);
  EXPECT_NE(message.find("CUDA_HOME"), std::string::npos);
}

TEST_F(DeviceCodeTest, ReadsUsage) {
  llvm::Expected<DeviceCode> code =
      compile("arith.addf %w, %w", fake(R"(printf '\177ELFrest'
cat >&2 <<END
ptxas info    : 296 bytes gmem
ptxas info    : Compiling entry function 'k0' for 'sm_90'
ptxas info    : Function properties for k0
    40 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 31 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compile time = 1.252 ms
END)"));
  ASSERT_TRUE(bool(code));
  EXPECT_EQ(code->cubin.size(), 8u);
  ASSERT_EQ(code->usage.size(), 1u);
  const KernelUsage &usage = code->usage["k0"];
  EXPECT_EQ(usage.registers, 31u);
  EXPECT_EQ(usage.stackBytes, 40u);
  EXPECT_EQ(usage.spillBytes, 24u);
  EXPECT_EQ(usage.sharedBytes, 1024u);
}

TEST_F(DeviceCodeTest, EndsASlowAssembler) {
  DeviceCodeOptions options = fake("sleep 100");
  options.timeoutSeconds = 1;
  auto [code, message] = failureOf(compile("arith.addf %w, %w", options));
  EXPECT_EQ(code, std::errc::timed_out);
  EXPECT_NE(message.find("within 1 seconds"), std::string::npos);
}

TEST_F(DeviceCodeTest, RefusesWhatIsNoCubin) {
  auto [code, message] =
      failureOf(compile("arith.addf %w, %w", fake("echo text")));
  EXPECT_EQ(code, std::errc::no_such_file_or_directory);
  EXPECT_NE(message.find("wrote no cubin"), std::string::npos);
}

} // namespace

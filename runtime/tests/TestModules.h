//===- TestModules.h - Small modules built by hand --------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_TESTMODULES_H
#define FUSION_RUNTIME_TESTS_TESTMODULES_H

#include "ModuleFile.h"

#include <memory>
#include <string>
#include <vector>

namespace fusion::rt::test {

/// The kernels of Kernels.c, by index.
enum TestKernel : uint32_t { Relu, Add, Twice, Exponential, Poison, Spin };

/// The bytes of the test library `name` ("kernels", "kernels1", "undefined",
/// "constructor", "execstack", "needed").
std::vector<uint8_t> nativeCode(const std::string &name = "kernels");

/// Builds a program step by step. Segment 0 is the arena.
class ModuleBuilder {
public:
  explicit ModuleBuilder(int64_t maxBatch = 1);

  /// Adds an f32 port; dimension 0 is `rows` * B if `dynamic`. Returns the
  /// range of the whole tensor.
  ByteRange input(const std::string &name, std::vector<int64_t> shape,
                  bool dynamic = false);
  ByteRange output(const std::string &name, std::vector<int64_t> shape,
                   bool dynamic = false);
  /// `bytes` of the arena.
  ByteRange scratch(uint64_t bytes);
  /// f32 values in the constants.
  ByteRange constant(const std::vector<float> &values);

  Command &launch(TestKernel kernel, std::vector<ByteRange> reads,
                  ByteRange write, Affine units);
  Command &call(LibraryCall call, std::vector<ByteRange> reads,
                ByteRange write);
  Command &copy(ByteRange source, ByteRange target);
  Command &event(CommandKind kind, uint32_t event, uint32_t stream);

  /// The finished module; with native code if there are launches.
  Module build();

  Module module;

private:
  ByteRange port(std::vector<Port> &ports, SegmentKind kind,
                 const std::string &name, const std::vector<int64_t> &shape,
                 bool dynamic);
  uint64_t arenaSize = 0;
};

/// Conv (2 groups, bias) with a relu tail, then x + x by a kernel; batch
/// 1..`maxBatch`, input "x" [B,4,6,6], output "y" [B,4,6,6]; integer weights.
Module convModule(int64_t maxBatch = 1);

/// `module` for a GPU of sm_90: the same kernels as device code, which only the
/// tests' own driver (cuda/FakeCuda.cpp) can load; a block of 32 threads
/// computes 32 units.
Module forCuda(Module module);

/// A file name in a fresh temporary directory that is removed at exit.
std::string temporaryPath(const std::string &name);

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_TESTMODULES_H

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

  /// A collective of f32 parts: `shapes` are the inputs'. `outputs[i]` equal to
  /// `inputs[i]`: in place.
  Command &collective(CollectiveCall call, uint32_t stream,
                      const std::vector<std::vector<int64_t>> &shapes,
                      const std::vector<ByteRange> &inputs,
                      const std::vector<ByteRange> &outputs);

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

/// A program for the ranks of a mesh such as "dp=2,tp=3" (of n ranks; the first
/// axis has a ranks): y = relu(x) of x [2n, 3n] of each rank, then on stream 1
/// what each collective makes of y. Inputs: "x" [2n * n, 3n] over all ranks,
/// cut along dimension 0 by all axes. Outputs, of the group of all axes unless
/// said: "sum", "mean", "max", "first" (sum over the first axis) [2n, 3n];
/// "rows" and "columns" (gathered along 0 and 1); "part" (reduce-scattered
/// along 1); "swapped" (all-to-all, split 0, concat 1); "root" (broadcast from
/// the last); "next" (rank r sends to r + 1, the last to none); "index" [] i64
/// on the second axis.
Module collectivesModule(const std::string &mesh);

/// y = 2 x of 7 elements on two ranks: 4 and 3.
Module paddedModule();

/// y = the sum over two ranks of x [B, 3], which both cut by rows; B up to 4.
Module batchModule();

/// A program whose compute and communication can overlap: `steps` times
/// `launches` kernels double y in place on stream 0, while stream 1 sums g over
/// all ranks as often. Input "x", outputs "y", "g", of `elements`.
Module overlapModule(uint32_t ranks, int64_t elements, int steps,
                     int launches = 1);

/// For two ranks: what they have, x at first, becomes the sum of both, which
/// they swap, as often as `steps`; y is the last. Or, direct, each reads in the
/// other's memory what it has.
Module swapModule(int64_t elements, int steps, bool isDirect = false);

/// `module` for a GPU of sm_90: the same kernels as device code, which only the
/// tests' own driver (cuda/FakeCuda.cpp) can load; a block of 32 threads
/// computes 32 units.
Module forCuda(Module module);

/// A file name in a fresh temporary directory that is removed at exit.
std::string temporaryPath(const std::string &name);

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_TESTMODULES_H

//===- BlockBuilder.h - What the threads of a block do together -*- C++ -*-===//
//
// Barriers, shuffles and shared memory of a kernel for a GPU, and the walk of a
// block's threads over the positions of a shape.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_CUDA_BLOCKBUILDER_H
#define FUSION_LIB_CODEGEN_CUDA_BLOCKBUILDER_H

#include "../Emitters.h"

namespace fusion::codegen {

/// Threads of a warp.
constexpr int64_t kWarp = 32;
/// Registers of 32 bits that the threads of a block share.
constexpr int64_t kRegisters = 65536;
/// PTX's address space of a block's shared memory.
constexpr unsigned kSharedSpace = 3;
/// Bytes that shared arrays are aligned to.
constexpr int64_t kSharedAlignment = 16;

/// Waits for the first `threads` threads of the block.
void buildBarrier(KernelBuilder &k, int64_t threads);

/// `value` (a scalar) of the thread whose number in the warp differs in the
/// bits of `distance`. All threads of the warp take part.
mlir::Value buildShuffleXor(KernelBuilder &k, mlir::Value value,
                            int64_t distance);

/// A shared array of `count` elements of a compute type; its address.
mlir::Value buildSharedArray(KernelBuilder &k, mlir::Type element,
                             int64_t count);

/// Loads and stores of a shared array, at a scalar position.
mlir::Value loadShared(KernelBuilder &k, mlir::Type element, mlir::Value array,
                       const Index &index);
void storeShared(KernelBuilder &k, mlir::Value value, mlir::Value array,
                 const Index &index);

/// Combines the lanes of a vector in a fixed tree, to a scalar.
mlir::Value combineLanes(KernelBuilder &k, ReduceKind kind, mlir::Value vector);

/// Runs `body` if `condition` (null: always); what it evaluates under one is
/// forgotten behind it.
void buildIf(KernelTask &task, mlir::Value condition,
             llvm::function_ref<void()> body);

/// The largest power of two, at most `limit`, that divides `extent` whatever
/// the batch is.
int64_t findPowerOfTwo(Extent extent, int64_t limit);

/// Elements that fit 16 bytes of the narrowest type that a task loads or
/// stores, at most 8, at least 1.
int64_t findWidestAccess(const KernelTask &task);

/// A shape as vectors of `lanes` positions along its innermost run. Where that
/// does not divide the run, all positions are one run and the last vector is
/// not whole.
class VectorWalk {
public:
  VectorWalk(KernelBuilder &k, llvm::ArrayRef<Extent> shape, WalkPlan plan,
             int64_t lanes);

  /// All positions, those between outer and inner ones left out.
  std::optional<Extent> elements() const;
  /// Calls `body` with the coordinates of the vector of number `vector`, once
  /// for each position between. `single`: `vector` is an element's number.
  void visit(KernelTask &task, mlir::Value vector, bool single,
             llvm::function_ref<void(llvm::ArrayRef<Index>)> body);

  const WalkPlan plan;
  const int64_t lanes;

private:
  KernelBuilder &k;
  size_t rank;
  llvm::SmallVector<Size> outerSizes, middleSizes, innerSizes;
  Size perRow = Size::of(1); ///< vectors of a run
};

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CUDA_BLOCKBUILDER_H

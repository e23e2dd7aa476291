//===- BlasLtProduct.h - One product of cuBLASLt ----------------*- C++ -*-===//
//
// What the library computes at once: the product of one member of a call, or
// those of several whose operands are equally far apart.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_BLASLTPRODUCT_H
#define FUSION_RUNTIME_CUDA_BLASLTPRODUCT_H

#include "BlasLt.h"
#include "BlasLtApi.h"
#include "Tuner.h"

#include <array>
#include <optional>
#include <vector>

namespace fusion::rt::cuda {

/// Dimensions in front of the matrices, as one loop each: how far the operands
/// move in a step, in matrices.
struct BatchLoop {
  int64_t size, lhs, rhs;
};

/// The sizes of a product of row-major matrices.
struct Sizes {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1, lhsStep = 0, rhsStep = 0; ///< of the library's own loop
  std::vector<BatchLoop> loops;                ///< around it, outermost first
};

/// Of a member, or how far those of two members are apart, in bytes; 0 for what
/// the call has not.
enum { kLhs, kRhs, kBias, kAddend, kSlope, kOut, kSum, kNumOperands };
using Addresses = std::array<int64_t, kNumOperands>;

/// What addresses are multiples of unless an operand is a part of a tensor.
constexpr int64_t kAlignment = 16;
/// Whether all start at multiples of 16 bytes.
bool isAligned(const Addresses &addresses);

/// Whether grouping must change no bit: one order of the sum for a product,
/// with an epilogue or not, in a batch or alone. The order is then not a matter
/// of times either.
bool keepsBits(const LibraryCall &call);

/// Bytes of scratch memory that an algorithm may use: what the manual advises
/// for Hopper.
constexpr uint64_t kMostWorkspace = uint64_t(32) << 20;
/// A workspace of so many bytes is a counter of blocks, which a memset of the
/// library's own clears ahead of each product.
constexpr uint64_t kCounterBytes = 256;

/// Whether the library's own sums would round differently from ours.
inline bool isNarrow(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

/// What cublasLtMatmul does at once: the product of one member, or those of
/// `count` members whose operands are equally far apart.
class Product {
public:
  Product(const BlasLtApi &api, LtHandle handle, const LibraryCall &call,
          const Sizes &sizes, int64_t count)
      : api(api), handle(handle), call(call), sizes(sizes), count(count),
        desc(api.descDestroy),
        layouts{LtOwned(api.layoutDestroy), LtOwned(api.layoutDestroy),
                LtOwned(api.layoutDestroy), LtOwned(api.layoutDestroy)} {}

  Status describe();
  /// Finds the algorithms; there may be none. `tuner` may be null.
  Status choose(Tuner *tuner);
  /// Takes the algorithm of `other`, if it serves here too.
  void chooseAs(const Product &other);
  bool hasAligned() const { return aligned.has_value(); }
  /// Whether operands may start at any element.
  bool takesUnaligned() const { return unaligned.has_value(); }
  int64_t getCount() const { return count; }
  uint64_t workspace() const { return workspaceSize; }
  /// How many times its blocks fill the device, by the library; 0 if it doesn't
  /// say.
  double getWaves() const { return waves; }
  /// Says how far members are apart: whether the algorithm takes that.
  Expected<bool> setSteps(const Addresses &steps);
  Status enqueue(CUstream stream, const Addresses &first, void *workspace);

private:
  enum { kA, kB, kC, kD }; // our right and left side, addend and output

  /// One cublasLtMatmul: the first step of the loops.
  Status enqueueOnce(CUstream stream, const Addresses &operands,
                     void *workspace);
  Status setEpilogue(bool plain, uint32_t alignment);
  /// Of an algorithm: scratch memory, and how often it fills the device.
  struct Demand {
    uint64_t workspace;
    double waves;
  };
  struct Found {
    LtAlgorithm algorithm;
    Demand demand;
    size_t base; ///< the index of what this differs little from, or kNone
  };
  /// Algorithms that keep our promises, in the order of the library's
  /// heuristics; up to `most`.
  Expected<std::vector<Found>> find(uint32_t alignment, size_t most,
                                    uint64_t mostWorkspace);
  /// The first of them, or none; a short product's needs no counter if there is
  /// one that needs none.
  Expected<std::vector<Found>> findFirst(uint32_t alignment);
  /// Adds to each of `found` algorithms with other settings.
  void addNeighbours(std::vector<Found> &found);
  /// The index of the fastest.
  Expected<size_t> tune(Tuner &tuner, const std::vector<Found> &found);
  /// All that the choice of an algorithm depends on.
  std::string getName() const;
  /// What `algorithm` takes, if it serves this product.
  std::optional<Demand> check(const LtAlgorithm &algorithm) const;
  Status set(int attribute, const void *value, size_t size) {
    return api.check(api.descSet(desc.get(), attribute, value, size),
                     "cublasLtMatmulDescSetAttribute");
  }
  /// The bias or its gradient; or where the slope is taken.
  Status setPointer(int attribute, int64_t address) {
    auto *pointer = reinterpret_cast<const void *>(uintptr_t(address));
    return set(attribute, &pointer, sizeof(pointer));
  }
  Status setOffset(int layout, int64_t elements) {
    return api.check(api.layoutSet(layouts[layout].get(), kLtBatchOffset,
                                   &elements, sizeof(elements)),
                     "cublasLtMatrixLayoutSetAttribute(batch)");
  }

  const BlasLtApi &api;
  LtHandle handle;
  const LibraryCall &call;
  const Sizes &sizes;
  int64_t count;
  LtOwned desc;
  std::array<LtOwned, 4> layouts;
  /// For operands at multiples of kAlignment, and for others.
  std::optional<LtAlgorithm> aligned, unaligned;
  uint64_t workspaceSize = 0;
  double waves = 0;
  /// Whether algorithms were asked for that need no workspace at all.
  bool isWithoutCounter = false;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_BLASLTPRODUCT_H

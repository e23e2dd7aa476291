//===- BlasLtMatMul.cpp - Matrix products by cuBLASLt ---------------------===//
//
// cuBLASLt thinks in columns. A row-major [M, N] is its column-major N x M, so
// a product of ours is the transposed product of its: D' = R' L', our right
// side comes first, and our bias, one value a column, is its one value a row.
//
// A call of several members, all of one shape, is as few products as possible:
// members whose operands lie at equal distances are one batch. What is left
// runs side by side. Where operands lie is known when the call is enqueued, so
// plans are made for batches of several sizes.
//
//===----------------------------------------------------------------------===//
#include "BlasLt.h"

#include "BlasLtApi.h"
#include "Checked.h"
#include "SideStreams.h"

#include <algorithm>
#include <array>
#include <optional>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

/// Bytes of scratch memory that an algorithm may use: what the manual advises
/// for Hopper.
constexpr uint64_t kWorkspace = uint64_t(32) << 20;
/// Workspaces of branches start at multiples of this.
constexpr uint64_t kWorkspaceAlignment = 256;
/// What addresses are multiples of unless an operand is a part of a tensor.
constexpr int64_t kAlignment = 16;
/// Batches of 2 to this many members are planned, and one of all.
constexpr int64_t kPlannedBatches = 8;

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
enum { kLhs, kRhs, kBias, kAddend, kOut, kNumOperands };
using Addresses = std::array<int64_t, kNumOperands>;

bool isAligned(const Addresses &addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](int64_t each) { return each % kAlignment == 0; });
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
  /// Finds the algorithms; there may be none.
  Status choose();
  /// Takes the algorithm of `other`, if it serves here too.
  void chooseAs(const Product &other);
  bool hasAligned() const { return aligned.has_value(); }
  int64_t getCount() const { return count; }
  uint64_t workspace() const { return workspaceSize; }
  /// Says how far members are apart: whether the algorithm takes that.
  Expected<bool> setSteps(const Addresses &steps);
  Status enqueue(CUstream stream, const Addresses &first, void *workspace);

private:
  enum { kA, kB, kC, kD }; // our right and left side, addend and output

  Status setEpilogue(bool plain, uint32_t alignment);
  Status choose(uint32_t alignment, std::optional<LtAlgorithm> &algorithm);
  /// The workspace of `algorithm`, if it serves this product.
  std::optional<uint64_t> check(const LtAlgorithm &algorithm) const;
  Status set(int attribute, const void *value, size_t size) {
    return api.check(api.descSet(desc.get(), attribute, value, size),
                     "cublasLtMatmulDescSetAttribute");
  }
  Status setBias(int64_t address) {
    auto *bias = reinterpret_cast<const void *>(uintptr_t(address));
    return set(kLtBiasPointer, &bias, sizeof(bias));
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
};

class MatMulCall final : public CudaCall {
public:
  MatMulCall(const BlasLtApi &api, LtHandle handle, SideStreams &sides,
             const LibraryCall &call)
      : api(api), handle(handle), sides(sides), call(call) {}

  Status plan(int64_t batch);
  uint64_t workspace() const override {
    return workspaceSlice * (workspaceSlice ? branches : 1);
  }
  Status enqueue(CUstream stream, void *const *operands,
                 void *workspace) override;

private:
  /// Neighbours that are one product. `first` is the member that the steps
  /// lead away from: the last one where operands lie in falling order.
  struct Piece {
    Product *product;
    int64_t first;
    Addresses steps;
  };

  Expected<Sizes> getSizes(int64_t batch) const;
  void planBatches();
  Addresses getAddresses(void *const *operands, int64_t member) const;
  Expected<Piece> takePiece(const std::vector<Addresses> &members,
                            int64_t first);

  const BlasLtApi &api;
  LtHandle handle;
  SideStreams &sides;
  LibraryCall call;
  Sizes sizes;
  std::unique_ptr<Product> single;
  std::vector<std::unique_ptr<Product>> batches; ///< large ones first
  size_t branches = 1;
  uint64_t workspaceSlice = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// The loops over the batch dimensions of `out`; neighbours that both operands
/// pass through alike are one.
static std::vector<BatchLoop> getLoops(const std::vector<int64_t> &lhs,
                                       const std::vector<int64_t> &rhs,
                                       const std::vector<int64_t> &out) {
  std::vector<BatchLoop> loops; // innermost first
  int64_t lhsStep = 1, rhsStep = 1;
  for (size_t fromEnd = 2; fromEnd < out.size(); ++fromEnd) {
    auto sizeOf = [&](const std::vector<int64_t> &shape) {
      return fromEnd < shape.size() ? shape[shape.size() - 1 - fromEnd] : 1;
    };
    int64_t size = sizeOf(out), lhsSize = sizeOf(lhs), rhsSize = sizeOf(rhs);
    BatchLoop loop{size, lhsSize == 1 ? 0 : lhsStep,
                   rhsSize == 1 ? 0 : rhsStep};
    lhsStep *= lhsSize;
    rhsStep *= rhsSize;
    if (size == 1)
      continue;
    if (!loops.empty()) {
      BatchLoop &last = loops.back();
      if (loop.lhs == last.lhs * last.size &&
          loop.rhs == last.rhs * last.size) {
        last.size *= size;
        continue;
      }
    }
    loops.push_back(loop);
  }
  return loops;
}

Expected<Sizes> MatMulCall::getSizes(int64_t batch) const {
  auto shapeOf = [&](const std::vector<Affine> &shape) {
    std::vector<int64_t> values;
    for (Affine size : shape)
      values.push_back(evaluate(size, batch).value_or(0));
    return values;
  };
  std::vector<int64_t> lhs = shapeOf(call.inputShape),
                       rhs = shapeOf(call.weightShape),
                       out = shapeOf(call.outputShape);
  Sizes result;
  result.m = out[out.size() - 2];
  result.n = out.back();
  result.k = lhs[lhs.size() - (call.transposeLhs ? 2 : 1)];
  int64_t count = 1;
  for (size_t i = 0; i + 2 < out.size(); ++i)
    count *= out[i];
  // An empty result has nothing to loop over.
  if (count * result.m * result.n == 0) {
    result.m = 0;
    return result;
  }
  if (result.k == 0)
    return Status(Code::BadProgram,
                  "a product over 0 elements was given to cuBLASLt at batch " +
                      std::to_string(batch) +
                      "; compile with --no-fuse=vertical");
  std::vector<BatchLoop> loops = getLoops(lhs, rhs, out);
  // One right side for all rows: the rows are one matrix.
  if (loops.size() == 1 && loops[0].rhs == 0 && loops[0].lhs == 1 &&
      !call.transposeLhs) {
    result.m *= loops[0].size;
    loops.clear();
  }
  if (!loops.empty()) {
    result.batch = loops[0].size;
    result.lhsStep = loops[0].lhs;
    result.rhsStep = loops[0].rhs;
    result.loops.assign(loops.rbegin(), loops.rend() - 1);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// One product
//===----------------------------------------------------------------------===//

/// Whether the library's own sums would round differently from ours.
static bool isNarrow(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

/// Whether grouping must change no bit: one order of the sum for a product,
/// with an epilogue or not, in a batch or alone.
static bool keepsBits(const LibraryCall &call) {
  return !isNarrow(call.dtype) && !call.computeTf32;
}

Status Product::setEpilogue(bool plain, uint32_t alignment) {
  uint32_t epilogue = 0;
  if (!plain && call.hasBias)
    epilogue |= kLtBias;
  if (!plain && call.activation == Activation::Relu)
    epilogue |= kLtRelu;
  if (!plain && call.activation == Activation::GeluTanh)
    epilogue |= kLtGelu;
  if (!epilogue)
    epilogue = kLtDefault;
  FUSION_RT_TRY(set(kLtEpilogue, &epilogue, sizeof(epilogue)));
  if (!(epilogue & kLtBias))
    return {};
  int32_t type = getLtType(call.dtype);
  FUSION_RT_TRY(set(kLtBiasType, &type, sizeof(type)));
  if (count > 1) {
    int64_t step = sizes.n;
    FUSION_RT_TRY(set(kLtBiasBatchStride, &step, sizeof(step)));
  }
  // Algorithms are chosen by the alignment of the bias too.
  return setBias(alignment);
}

Status Product::describe() {
  int type = getLtType(call.dtype);
  bool isDouble = call.dtype == DType::F64;
  int compute = isDouble                                       ? kLtCompute64
                : call.computeTf32 && call.dtype == DType::F32 ? kLtComputeTf32
                                                               : kLtCompute32;
  FUSION_RT_TRY(api.check(
      api.descCreate(desc.slot(), compute, isDouble ? kLtF64 : kLtF32),
      "cublasLtMatmulDescCreate"));
  int32_t transposeA = call.transposeRhs, transposeB = call.transposeLhs;
  FUSION_RT_TRY(set(kLtTransA, &transposeA, sizeof(transposeA)));
  FUSION_RT_TRY(set(kLtTransB, &transposeB, sizeof(transposeB)));

  // Members are a batch of their own: they have none inside.
  int32_t matrices = int32_t(count > 1 ? count : sizes.batch);
  auto layout = [&](int index, int64_t rows, int64_t columns, int64_t step) {
    LtOwned &to = layouts[index];
    FUSION_RT_TRY(
        api.check(api.layoutCreate(to.slot(), type, rows, columns, rows),
                  "cublasLtMatrixLayoutCreate"));
    FUSION_RT_TRY(api.check(
        api.layoutSet(to.get(), kLtBatchCount, &matrices, sizeof(matrices)),
        "cublasLtMatrixLayoutSetAttribute(batch)"));
    return setOffset(index, (count > 1 ? 1 : step) * rows * columns);
  };
  int64_t n = sizes.n, m = sizes.m, k = sizes.k;
  FUSION_RT_TRY(
      layout(kA, transposeA ? k : n, transposeA ? n : k, sizes.rhsStep));
  FUSION_RT_TRY(
      layout(kB, transposeB ? m : k, transposeB ? k : m, sizes.lhsStep));
  FUSION_RT_TRY(layout(kC, n, m, 1));
  return layout(kD, n, m, 1);
}

std::optional<uint64_t> Product::check(const LtAlgorithm &algorithm) const {
  LtHeuristicResult checked{};
  if (api.algorithmCheck(handle, desc.get(), layouts[kA].get(),
                         layouts[kB].get(), layouts[kC].get(),
                         layouts[kD].get(), &algorithm, &checked) != 0 ||
      checked.workspaceSize > kWorkspace)
    return std::nullopt;
  return checked.workspaceSize;
}

Status Product::choose(uint32_t alignment,
                       std::optional<LtAlgorithm> &algorithm) {
  LtOwned preference(api.preferenceDestroy);
  FUSION_RT_TRY(api.check(api.preferenceCreate(preference.slot()),
                          "cublasLtMatmulPreferenceCreate"));
  auto prefer = [&](int attribute, auto value) {
    return api.check(
        api.preferenceSet(preference.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  FUSION_RT_TRY(prefer(kLtMaxWorkspace, kWorkspace));
  // Partial sums are never rounded to a narrow type.
  FUSION_RT_TRY(prefer(kLtReductions, isNarrow(call.dtype) ? kLtReduceInCompute
                                                           : kLtReduceAny));
  for (int attribute = kLtAlignA; attribute <= kLtAlignD; ++attribute)
    FUSION_RT_TRY(prefer(attribute, alignment));

  std::array<LtHeuristicResult, 8> results{};
  for (bool plain : {true, false}) {
    // The epilogue doesn't choose the order of the sum.
    if (plain && !keepsBits(call))
      continue;
    int found = 0;
    FUSION_RT_TRY(setEpilogue(plain, alignment));
    // No algorithm is an answer, not an error.
    api.heuristics(handle, desc.get(), layouts[kA].get(), layouts[kB].get(),
                   layouts[kC].get(), layouts[kD].get(), preference.get(),
                   int(results.size()), results.data(), &found);
    FUSION_RT_TRY(setEpilogue(false, alignment));
    for (int i = 0; i < found; ++i) {
      if (results[i].state != 0)
        continue;
      std::optional<uint64_t> size = check(results[i].algorithm);
      if (!size)
        continue;
      algorithm = results[i].algorithm;
      workspaceSize = std::max(workspaceSize, *size);
      return {};
    }
  }
  return {};
}

Status Product::choose() {
  FUSION_RT_TRY(choose(kAlignment, aligned));
  if (count > 1)
    return {}; // members at other addresses are products of their own
  FUSION_RT_TRY(choose(uint32_t(elementSize(call.dtype)), unaligned));
  if (!aligned)
    aligned = unaligned;
  return {};
}

void Product::chooseAs(const Product &other) {
  if (!setEpilogue(false, kAlignment).ok())
    return;
  if (std::optional<uint64_t> size = check(*other.aligned)) {
    aligned = other.aligned;
    workspaceSize = *size;
  }
}

Expected<bool> Product::setSteps(const Addresses &steps) {
  int64_t element = elementSize(call.dtype);
  FUSION_RT_TRY(setOffset(kA, steps[kRhs] / element));
  FUSION_RT_TRY(setOffset(kB, steps[kLhs] / element));
  FUSION_RT_TRY(
      setOffset(kC, steps[call.hasAddend ? kAddend : kOut] / element));
  FUSION_RT_TRY(setOffset(kD, steps[kOut] / element));
  if (call.hasBias) {
    int64_t step = steps[kBias] / element;
    FUSION_RT_TRY(set(kLtBiasBatchStride, &step, sizeof(step)));
  }
  std::optional<uint64_t> size = check(*aligned);
  return size && *size <= workspaceSize;
}

Status Product::enqueue(CUstream stream, const Addresses &first,
                        void *workspace) {
  int64_t element = elementSize(call.dtype);
  if (call.hasBias)
    FUSION_RT_TRY(setBias(first[kBias]));
  float one = 1, zero = 0;
  double wideOne = 1, wideZero = 0;
  bool isDouble = call.dtype == DType::F64;
  const void *alpha = isDouble ? static_cast<void *>(&wideOne) : &one;
  const void *beta = call.hasAddend ? alpha
                     : isDouble     ? static_cast<void *>(&wideZero)
                                    : &zero;

  std::vector<int64_t> index(sizes.loops.size(), 0);
  int64_t step = 0;
  for (;;) {
    int64_t lhsAt = 0, rhsAt = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      lhsAt += index[i] * sizes.loops[i].lhs;
      rhsAt += index[i] * sizes.loops[i].rhs;
    }
    int64_t outAt = step * sizes.batch * sizes.m * sizes.n * element;
    Addresses at = first;
    at[kLhs] += lhsAt * sizes.m * sizes.k * element;
    at[kRhs] += rhsAt * sizes.k * sizes.n * element;
    at[kOut] += outAt;
    at[kAddend] = call.hasAddend ? at[kAddend] + outAt : at[kOut];
    const auto &algorithm = isAligned(at) ? aligned : unaligned;
    if (!algorithm)
      return Status(Code::Resources,
                    "cuBLASLt has no algorithm for operands that do not start "
                    "at a multiple of 16 bytes; compile with --fp=strict");
    auto address = [&](int operand) {
      return reinterpret_cast<void *>(uintptr_t(at[operand]));
    };
    FUSION_RT_TRY(api.check(
        api.matmul(handle, desc.get(), alpha, address(kRhs), layouts[kA].get(),
                   address(kLhs), layouts[kB].get(), beta, address(kAddend),
                   layouts[kC].get(), address(kOut), layouts[kD].get(),
                   &*algorithm, workspace, workspaceSize, stream),
        "cublasLtMatmul"));
    ++step;
    size_t i = index.size();
    while (i > 0 && ++index[i - 1] == sizes.loops[i - 1].size)
      index[--i] = 0;
    if (i == 0)
      return {};
  }
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Batches save launches; where the library has no plan for one, its members
/// stay products of their own.
void MatMulCall::planBatches() {
  if (sizes.batch > 1 || !sizes.loops.empty() || !single->hasAligned())
    return;
  auto plan = [&](int64_t count) {
    auto product = std::make_unique<Product>(api, handle, call, sizes, count);
    if (!product->describe().ok())
      return;
    if (keepsBits(call))
      product->chooseAs(*single);
    else if (!product->choose().ok())
      return;
    if (product->hasAligned())
      batches.push_back(std::move(product));
  };
  if (call.members > INT32_MAX)
    return;
  plan(call.members);
  for (int64_t i = std::min(kPlannedBatches, call.members - 1); i > 1; --i)
    plan(i);
}

Status MatMulCall::plan(int64_t batch) {
  if (call.activation == Activation::GeluErf)
    return Status(Code::Rejected, "cuBLASLt has no gelu by erf; compile the "
                                  "model again");
  auto known = getSizes(batch);
  if (!known)
    return known.status();
  sizes = std::move(*known);
  if (sizes.m == 0)
    return {};
  single = std::make_unique<Product>(api, handle, call, sizes, 1);
  FUSION_RT_TRY(single->describe());
  FUSION_RT_TRY(single->choose());
  if (!single->hasAligned())
    return Status(Code::Rejected,
                  "cuBLASLt has no algorithm for a product of " +
                      std::to_string(sizes.m) + "x" + std::to_string(sizes.k) +
                      " and " + std::to_string(sizes.k) + "x" +
                      std::to_string(sizes.n) + "; compile with --fp=strict");
  workspaceSlice = single->workspace();
  if (call.members > 1) {
    planBatches();
    branches = size_t(std::min<int64_t>(call.members, SideStreams::kMost));
    FUSION_RT_TRY(sides.reserve(branches));
  }
  for (const auto &product : batches)
    workspaceSlice = std::max(workspaceSlice, product->workspace());
  workspaceSlice = (workspaceSlice + kWorkspaceAlignment - 1) /
                   kWorkspaceAlignment * kWorkspaceAlignment;
  return {};
}

Addresses MatMulCall::getAddresses(void *const *operands,
                                   int64_t member) const {
  operands += member * (3 + call.hasBias + call.hasAddend);
  auto next = [&] { return int64_t(reinterpret_cast<uintptr_t>(*operands++)); };
  Addresses result{};
  result[kLhs] = next();
  result[kRhs] = next();
  if (call.hasBias)
    result[kBias] = next();
  if (call.hasAddend)
    result[kAddend] = next();
  result[kOut] = next();
  return result;
}

Expected<MatMulCall::Piece>
MatMulCall::takePiece(const std::vector<Addresses> &members, int64_t first) {
  auto apart = [&](int64_t from) {
    Addresses steps;
    for (int i = 0; i < kNumOperands; ++i)
      steps[i] = members[from + 1][i] - members[from][i];
    return steps;
  };
  int64_t left = int64_t(members.size()) - first;
  if (left > 1 && !batches.empty() && isAligned(members[first])) {
    Addresses steps = apart(first);
    // cuBLASLt takes distances below zero for good, and reads elsewhere.
    bool rises = std::all_of(steps.begin(), steps.end(),
                             [](int64_t step) { return step >= 0; });
    bool falls = std::all_of(steps.begin(), steps.end(),
                             [](int64_t step) { return step <= 0; });
    int64_t run = isAligned(steps) && (rises || falls) ? 2 : 1;
    while (run > 1 && run < left && apart(first + run - 1) == steps)
      ++run;
    Addresses away = steps;
    if (!rises)
      for (int64_t &step : away)
        step = -step;
    for (const auto &product : batches) {
      if (product->getCount() > run)
        continue;
      auto isTaken = product->setSteps(away);
      if (!isTaken)
        return isTaken.status();
      if (*isTaken)
        return Piece{product.get(),
                     rises ? first : first + product->getCount() - 1, away};
    }
  }
  return Piece{single.get(), first, {}};
}

Status MatMulCall::enqueue(CUstream stream, void *const *operands,
                           void *workspace) {
  if (sizes.m == 0)
    return {};
  std::vector<Addresses> members;
  for (int64_t i = 0; i < call.members; ++i)
    members.push_back(getAddresses(operands, i));
  std::vector<Piece> pieces;
  for (int64_t next = 0; next < call.members;) {
    auto piece = takePiece(members, next);
    if (!piece)
      return piece.status();
    pieces.push_back(*piece);
    next += piece->product->getCount();
  }
  size_t used = std::min(pieces.size(), branches);
  FUSION_RT_TRY(sides.fork(stream, used));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto &[product, first, steps] = pieces[i];
    size_t branch = i % used;
    // The same plan may have served another batch since.
    if (product != single.get()) {
      auto isTaken = product->setSteps(steps);
      if (!isTaken)
        return isTaken.status();
    }
    auto *scratch = static_cast<char *>(workspace) + branch * workspaceSlice;
    FUSION_RT_TRY(
        product->enqueue(sides.get(stream, branch), members[first], scratch));
  }
  return sides.join(stream, used);
}

Expected<std::unique_ptr<CudaCall>> BlasLt::planMatMul(const LibraryCall &call,
                                                       int64_t batch) {
  auto result = std::make_unique<MatMulCall>(*api, handle, sides, call);
  FUSION_RT_TRY(result->plan(batch));
  return std::unique_ptr<CudaCall>(std::move(result));
}

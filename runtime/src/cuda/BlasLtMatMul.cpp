//===- BlasLtMatMul.cpp - Matrix products by cuBLASLt ---------------------===//
//
// cuBLASLt thinks in columns. A row-major [M, N] is its column-major N x M, so
// a product of ours is the transposed product of its: D' = R' L', our right
// side comes first, and our bias, one value a column, is its one value a row.
//
// A call of several members, all of one shape, is as few products as possible:
// members whose operands lie at equal distances are one batch. What is left
// runs side by side if it would leave a part of the device idle. Where operands
// lie is known when the call is enqueued, so plans are made for batches of
// several sizes. What one product is is BlasLtProduct.cpp's.
//
//===----------------------------------------------------------------------===//
#include "BlasLt.h"

#include "BlasLtProduct.h"
#include "Checked.h"
#include "SideStreams.h"

#include <algorithm>
#include <cmath>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

/// Workspaces of branches start at multiples of this.
constexpr uint64_t kWorkspaceAlignment = 256;
/// Batches of 2 to this many members are planned, and one of all.
constexpr int64_t kPlannedBatches = 8;
/// Share of the device that products one after the other keep busy from which
/// on they are not put side by side: their blocks would only be in each other's
/// way. Two of them, of 0.97 and 1 waves, took 32 us side by side on an H200,
/// 28 us in line; 0.73 and 0.91 waves 27 us and 31 us.
constexpr double kBusyShare = 0.9;

class MatMulCall final : public CudaCall {
public:
  MatMulCall(const BlasLtApi &api, LtHandle handle, SideStreams &sides,
             Tuner *tuner, const LibraryCall &call)
      : api(api), handle(handle), sides(sides), tuner(tuner), call(call) {}

  Status plan(int64_t batch, bool isAligned);
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
  /// Whether products of aligned members start at multiples of 16 bytes too.
  bool hasAlignedSteps() const;
  Status planBatches();
  Addresses getAddresses(void *const *operands, int64_t member) const;
  Expected<Piece> takePiece(const std::vector<Addresses> &members,
                            int64_t first);
  static bool fillDevice(const std::vector<Piece> &pieces);

  const BlasLtApi &api;
  LtHandle handle;
  SideStreams &sides;
  Tuner *tuner;
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
// Calls
//===----------------------------------------------------------------------===//

/// Batches save launches; where the library has no plan for one, its members
/// stay products of their own.
Status MatMulCall::planBatches() {
  if (sizes.batch > 1 || !sizes.loops.empty() || !single->hasAligned())
    return {};
  auto plan = [&](int64_t count) -> Status {
    auto product = std::make_unique<Product>(api, handle, call, sizes, count);
    if (!product->describe().ok())
      return {};
    if (keepsBits(call))
      product->chooseAs(*single);
    else if (Status status = product->choose(tuner); !status.ok())
      return Tuner::isFatal(status) ? status : Status();
    if (product->hasAligned())
      batches.push_back(std::move(product));
    return {};
  };
  if (call.members > INT32_MAX)
    return {};
  FUSION_RT_TRY(plan(call.members));
  for (int64_t i = std::min(kPlannedBatches, call.members - 1); i > 1; --i)
    FUSION_RT_TRY(plan(i));
  return {};
}

bool MatMulCall::hasAlignedSteps() const {
  int64_t size = elementSize(call.dtype);
  return std::all_of(
             sizes.loops.begin(), sizes.loops.end(),
             [&](const BatchLoop &loop) {
               return loop.lhs * sizes.m * sizes.k * size % kAlignment == 0 &&
                      loop.rhs * sizes.k * sizes.n * size % kAlignment == 0;
             }) &&
         (sizes.loops.empty() ||
          sizes.batch * sizes.m * sizes.n * size % kAlignment == 0);
}

Status MatMulCall::plan(int64_t batch, bool isAligned) {
  if (call.activation == Activation::GeluErf)
    return Status(Code::Rejected, "cuBLASLt has no gelu by erf; compile the "
                                  "model again");
  auto known = getSizes(batch);
  if (!known)
    return known.status();
  sizes = std::move(*known);
  if (sizes.m == 0 && call.biasGradient != BiasGradient::None)
    return Status(Code::Rejected, "cuBLASLt gives no gradient of a bias beside "
                                  "an empty product");
  if (sizes.m == 0)
    return {};
  single = std::make_unique<Product>(api, handle, call, sizes, 1);
  FUSION_RT_TRY(single->describe());
  FUSION_RT_TRY(single->choose(tuner));
  if (!single->hasAligned())
    return Status(Code::Rejected,
                  "cuBLASLt has no algorithm for a product of " +
                      std::to_string(sizes.m) + "x" + std::to_string(sizes.k) +
                      " and " + std::to_string(sizes.k) + "x" +
                      std::to_string(sizes.n) + "; compile with --fp=strict");
  if (!single->takesUnaligned() && !(isAligned && hasAlignedSteps()))
    return Status(Code::Rejected,
                  "cuBLASLt has no algorithm for operands that do not start at "
                  "a multiple of 16 bytes; compile with --no-fuse=vertical");
  workspaceSlice = single->workspace();
  if (call.members > 1) {
    FUSION_RT_TRY(planBatches());
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
  operands += member * int64_t(2 + call.hasBias + call.hasAddend +
                               call.hasSlope() + call.numResults());
  auto next = [&] { return int64_t(reinterpret_cast<uintptr_t>(*operands++)); };
  Addresses result{};
  result[kLhs] = next();
  result[kRhs] = next();
  if (call.hasBias)
    result[kBias] = next();
  if (call.hasAddend)
    result[kAddend] = next();
  if (call.hasSlope())
    result[kSlope] = next();
  result[kOut] = next();
  if (call.biasGradient != BiasGradient::None)
    result[kSum] = next();
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

/// Whether the pieces, one after the other, leave next to nothing of the device
/// idle: of whole waves.
bool MatMulCall::fillDevice(const std::vector<Piece> &pieces) {
  double busy = 0, whole = 0;
  for (const Piece &piece : pieces) {
    double waves = piece.product->getWaves();
    if (waves <= 0)
      return false;
    busy += waves;
    whole += std::ceil(waves);
  }
  return busy >= kBusyShare * whole;
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
  size_t used = fillDevice(pieces) ? 1 : std::min(pieces.size(), branches);
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

Expected<std::unique_ptr<CudaCall>>
BlasLt::planMatMul(const LibraryCall &call, int64_t batch, bool isAligned) {
  auto result = std::make_unique<MatMulCall>(*api, handle, sides, tuner, call);
  FUSION_RT_TRY(result->plan(batch, isAligned));
  return std::unique_ptr<CudaCall>(std::move(result));
}

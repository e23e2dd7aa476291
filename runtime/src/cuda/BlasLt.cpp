//===- BlasLt.cpp - Products by cuBLASLt ----------------------------------===//
//
// cuBLASLt thinks in columns. A row-major [M, N] is its column-major N x M, so
// a product of ours is the transposed product of its: D' = R' L', our right
// side comes first, and our bias, one value a column, is its one value a row.
//
//===----------------------------------------------------------------------===//
#include "BlasLt.h"

#include "BlasLtApi.h"
#include "Checked.h"
#include "SharedLibrary.h"

#include <algorithm>
#include <array>
#include <optional>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

static Status load(BlasLtApi &api) {
  auto library =
      openShared("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"});
  if (!library)
    return library.status();
#define FUSION_BLASLT_LOAD(name, symbol, ...)                                  \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(*library, symbol));    \
  if (!api.name)                                                               \
    return Status(Code::Environment, "cuBLASLt has no " symbol                 \
                                     ", version 12 or later is needed; "       \
                                     "update it");
  FUSION_BLASLT_ENTRIES(FUSION_BLASLT_LOAD)
#undef FUSION_BLASLT_LOAD
  return {};
}

Expected<const BlasLtApi *> BlasLtApi::open() {
  struct Opened {
    BlasLtApi api;
    Status status;
    Opened() : status(load(api)) {}
  };
  static Opened opened;
  if (!opened.status.ok())
    return opened.status;
  return static_cast<const BlasLtApi *>(&opened.api);
}

Status BlasLtApi::check(int status, const char *entry) const {
  if (status == 0)
    return {};
  return Status(status == kLtAllocFailed ? Code::Resources : Code::Environment,
                std::string(entry) + " failed with status " +
                    std::to_string(status) +
                    "; see cublasStatus_t in the manual of cuBLAS");
}

int fusion::rt::cuda::getLtType(DType dtype) {
  return dtype == DType::F64    ? kLtF64
         : dtype == DType::F32  ? kLtF32
         : dtype == DType::BF16 ? kLtBF16
                                : kLtF16;
}

Expected<std::unique_ptr<BlasLt>> BlasLt::open() {
  auto api = BlasLtApi::open();
  if (!api)
    return api.status();
  std::unique_ptr<BlasLt> result(new BlasLt);
  result->api = *api;
  FUSION_RT_TRY(
      (*api)->check((*api)->create(&result->handle), "cublasLtCreate"));
  return result;
}

BlasLt::~BlasLt() {
  if (handle)
    api->destroy(handle);
}

namespace {

/// A descriptor of the library and the entry that frees it.
class Owned {
public:
  Owned(int (*release)(void *)) : release(release) {}
  Owned(Owned &&other) : release(other.release), value(other.value) {
    other.value = nullptr;
  }
  Owned &operator=(Owned &&) = delete;
  ~Owned() {
    if (value)
      release(value);
  }
  void *get() const { return value; }
  void **slot() { return &value; }

private:
  int (*release)(void *);
  void *value = nullptr;
};

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Bytes of scratch memory that an algorithm may use: what the manual advises
/// for Hopper.
constexpr uint64_t kWorkspace = uint64_t(32) << 20;
/// What addresses are multiples of unless an operand is a part of a tensor.
constexpr uint32_t kAlignment = 16;

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

class MatMulCall final : public CudaCall {
public:
  MatMulCall(const BlasLtApi &api, LtHandle handle, const LibraryCall &call)
      : api(api), handle(handle), call(call), desc(api.descDestroy),
        layouts{Owned(api.layoutDestroy), Owned(api.layoutDestroy),
                Owned(api.layoutDestroy)} {}

  Status plan(int64_t batch);
  uint64_t workspace() const override { return workspaceSize; }
  Status enqueue(CUstream stream, void *const *operands,
                 void *workspace) override;

private:
  Expected<Sizes> getSizes(int64_t batch) const;
  Status describe();
  Status setEpilogue(bool plain);
  Status choose(uint32_t alignment, std::optional<LtAlgorithm> &algorithm);
  Status setBias(const void *bias) {
    return api.check(
        api.descSet(desc.get(), kLtBiasPointer, &bias, sizeof(bias)),
        "cublasLtMatmulDescSetAttribute");
  }
  Status enqueueOne(CUstream stream, void *const *operands, void *workspace);

  const BlasLtApi &api;
  LtHandle handle;
  LibraryCall call;
  Sizes sizes;
  Owned desc;
  std::array<Owned, 3> layouts; ///< R, L and D
  /// For operands at multiples of kAlignment, and for others.
  std::optional<LtAlgorithm> aligned, unaligned;
  uint64_t workspaceSize = 0;
};

} // namespace

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

/// Whether the library's own sums would round differently from ours.
static bool isNarrow(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

Status MatMulCall::setEpilogue(bool plain) {
  uint32_t epilogue = 0;
  if (!plain && call.hasBias)
    epilogue |= kLtBias;
  if (!plain && call.activation == Activation::Relu)
    epilogue |= kLtRelu;
  if (!plain && call.activation == Activation::GeluTanh)
    epilogue |= kLtGelu;
  if (!epilogue)
    epilogue = kLtDefault;
  FUSION_RT_TRY(api.check(
      api.descSet(desc.get(), kLtEpilogue, &epilogue, sizeof(epilogue)),
      "cublasLtMatmulDescSetAttribute(epilogue)"));
  if (!(epilogue & kLtBias))
    return {};
  int32_t type = getLtType(call.dtype);
  FUSION_RT_TRY(
      api.check(api.descSet(desc.get(), kLtBiasType, &type, sizeof(type)),
                "cublasLtMatmulDescSetAttribute(bias type)"));
  // Algorithms are chosen by the alignment of the bias too.
  return setBias(reinterpret_cast<const void *>(uintptr_t(kAlignment)));
}

Status MatMulCall::describe() {
  int type = getLtType(call.dtype);
  bool isDouble = call.dtype == DType::F64;
  int compute = isDouble                                       ? kLtCompute64
                : call.computeTf32 && call.dtype == DType::F32 ? kLtComputeTf32
                                                               : kLtCompute32;
  FUSION_RT_TRY(api.check(
      api.descCreate(desc.slot(), compute, isDouble ? kLtF64 : kLtF32),
      "cublasLtMatmulDescCreate"));
  int32_t transposeA = call.transposeRhs, transposeB = call.transposeLhs;
  FUSION_RT_TRY(api.check(
      api.descSet(desc.get(), kLtTransA, &transposeA, sizeof(transposeA)),
      "cublasLtMatmulDescSetAttribute(transpose)"));
  FUSION_RT_TRY(api.check(
      api.descSet(desc.get(), kLtTransB, &transposeB, sizeof(transposeB)),
      "cublasLtMatmulDescSetAttribute(transpose)"));

  auto layout = [&](Owned &to, int64_t rows, int64_t columns, int64_t step) {
    FUSION_RT_TRY(
        api.check(api.layoutCreate(to.slot(), type, rows, columns, rows),
                  "cublasLtMatrixLayoutCreate"));
    int32_t count = int32_t(sizes.batch);
    int64_t offset = step * rows * columns;
    FUSION_RT_TRY(
        api.check(api.layoutSet(to.get(), kLtBatchCount, &count, sizeof(count)),
                  "cublasLtMatrixLayoutSetAttribute(batch)"));
    return api.check(
        api.layoutSet(to.get(), kLtBatchOffset, &offset, sizeof(offset)),
        "cublasLtMatrixLayoutSetAttribute(batch)");
  };
  int64_t n = sizes.n, m = sizes.m, k = sizes.k;
  FUSION_RT_TRY(layout(layouts[0], transposeA ? k : n, transposeA ? n : k,
                       sizes.rhsStep));
  FUSION_RT_TRY(layout(layouts[1], transposeB ? m : k, transposeB ? k : m,
                       sizes.lhsStep));
  return layout(layouts[2], n, m, 1);
}

Status MatMulCall::choose(uint32_t alignment,
                          std::optional<LtAlgorithm> &algorithm) {
  Owned preference(api.preferenceDestroy);
  FUSION_RT_TRY(api.check(api.preferenceCreate(preference.slot()),
                          "cublasLtMatmulPreferenceCreate"));
  auto set = [&](int attribute, auto value) {
    return api.check(
        api.preferenceSet(preference.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  FUSION_RT_TRY(set(kLtMaxWorkspace, kWorkspace));
  // Partial sums are never rounded to a narrow type.
  FUSION_RT_TRY(set(kLtReductions,
                    isNarrow(call.dtype) ? kLtReduceInCompute : kLtReduceAny));
  for (int attribute = kLtAlignA; attribute <= kLtAlignD; ++attribute)
    FUSION_RT_TRY(set(attribute, alignment));

  std::array<LtHeuristicResult, 8> results{};
  void *a = layouts[0].get(), *b = layouts[1].get(), *d = layouts[2].get();
  int count = 0;
  auto ask = [&](bool plain) {
    count = 0;
    FUSION_RT_TRY(setEpilogue(plain));
    // No algorithm is an answer, not an error.
    api.heuristics(handle, desc.get(), a, b, d, d, preference.get(),
                   int(results.size()), results.data(), &count);
    return Status();
  };
  // Where grouping must change no bit, the epilogue doesn't choose the order of
  // the sum.
  bool byProduct = !isNarrow(call.dtype) && !call.computeTf32;
  for (bool plain : {true, false}) {
    if (plain && !byProduct)
      continue;
    FUSION_RT_TRY(ask(plain));
    FUSION_RT_TRY(setEpilogue(false));
    for (int i = 0; i < count; ++i) {
      LtHeuristicResult checked{};
      if (results[i].state != 0 ||
          api.algorithmCheck(handle, desc.get(), a, b, d, d,
                             &results[i].algorithm, &checked) != 0 ||
          checked.workspaceSize > kWorkspace)
        continue;
      algorithm = results[i].algorithm;
      workspaceSize = std::max<uint64_t>(workspaceSize, checked.workspaceSize);
      return {};
    }
  }
  return {};
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
  FUSION_RT_TRY(describe());
  FUSION_RT_TRY(choose(kAlignment, aligned));
  FUSION_RT_TRY(choose(uint32_t(elementSize(call.dtype)), unaligned));
  if (!aligned)
    aligned = unaligned;
  if (!aligned)
    return Status(Code::Resources,
                  "cuBLASLt has no algorithm for a product of " +
                      std::to_string(sizes.m) + "x" + std::to_string(sizes.k) +
                      " and " + std::to_string(sizes.k) + "x" +
                      std::to_string(sizes.n) + "; compile with --fp=strict");
  return {};
}

Status MatMulCall::enqueueOne(CUstream stream, void *const *operands,
                              void *workspace) {
  int64_t element = elementSize(call.dtype);
  size_t next = 2;
  if (call.hasBias)
    FUSION_RT_TRY(setBias(operands[next++]));
  const char *addend =
      call.hasAddend ? static_cast<const char *>(operands[next++]) : nullptr;
  char *out = static_cast<char *>(operands[next]);
  auto *lhs = static_cast<const char *>(operands[0]),
       *rhs = static_cast<const char *>(operands[1]);
  float one = 1, zero = 0;
  double wideOne = 1, wideZero = 0;
  bool isDouble = call.dtype == DType::F64;
  const void *alpha = isDouble ? static_cast<void *>(&wideOne) : &one;
  const void *beta = addend     ? alpha
                     : isDouble ? static_cast<void *>(&wideZero)
                                : &zero;

  std::vector<int64_t> index(sizes.loops.size(), 0);
  int64_t step = 0;
  for (;;) {
    int64_t lhsAt = 0, rhsAt = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      lhsAt += index[i] * sizes.loops[i].lhs;
      rhsAt += index[i] * sizes.loops[i].rhs;
    }
    const char *b = lhs + lhsAt * sizes.m * sizes.k * element;
    const char *a = rhs + rhsAt * sizes.k * sizes.n * element;
    int64_t outAt = step * sizes.batch * sizes.m * sizes.n * element;
    char *d = out + outAt;
    const char *c = addend ? addend + outAt : d;
    bool isAligned = true;
    for (const char *address : {a, b, c, static_cast<const char *>(d)})
      isAligned &= reinterpret_cast<uintptr_t>(address) % kAlignment == 0;
    const auto &algorithm = isAligned ? aligned : unaligned;
    if (!algorithm)
      return Status(Code::Resources,
                    "cuBLASLt has no algorithm for operands that do not start "
                    "at a multiple of 16 bytes; compile with --fp=strict");
    FUSION_RT_TRY(
        api.check(api.matmul(handle, desc.get(), alpha, a, layouts[0].get(), b,
                             layouts[1].get(), beta, c, layouts[2].get(), d,
                             layouts[2].get(), &*algorithm, workspace,
                             workspaceSize, stream),
                  "cublasLtMatmul"));
    ++step;
    size_t i = index.size();
    while (i > 0 && ++index[i - 1] == sizes.loops[i - 1].size)
      index[--i] = 0;
    if (i == 0)
      return {};
  }
}

Status MatMulCall::enqueue(CUstream stream, void *const *operands,
                           void *workspace) {
  if (sizes.m == 0)
    return {};
  size_t perMember = 3 + call.hasBias + call.hasAddend;
  for (int64_t i = 0; i < call.members; ++i)
    FUSION_RT_TRY(enqueueOne(stream, operands + i * perMember, workspace));
  return {};
}

Expected<std::unique_ptr<CudaCall>> BlasLt::planMatMul(const LibraryCall &call,
                                                       int64_t batch) {
  auto result = std::make_unique<MatMulCall>(*api, handle, call);
  FUSION_RT_TRY(result->plan(batch));
  return std::unique_ptr<CudaCall>(std::move(result));
}

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

namespace {
class Transpose final : public TransposeCall {
public:
  Transpose(const BlasLtApi &api, LtHandle handle)
      : api(api), handle(handle), desc(api.transformDestroy),
        from(api.layoutDestroy), to(api.layoutDestroy) {}

  Status plan(DType dtype, int64_t count, int64_t rows, int64_t columns) {
    FUSION_RT_TRY(api.check(api.transformCreate(desc.slot(), kLtF32),
                            "cublasLtMatrixTransformDescCreate"));
    int32_t transposed = 1;
    FUSION_RT_TRY(api.check(api.transformSet(desc.get(), kLtTransformTransA,
                                             &transposed, sizeof(transposed)),
                            "cublasLtMatrixTransformDescSetAttribute"));
    auto layout = [&](Owned &slot, int64_t rows, int64_t columns) {
      FUSION_RT_TRY(api.check(
          api.layoutCreate(slot.slot(), getLtType(dtype), rows, columns, rows),
          "cublasLtMatrixLayoutCreate"));
      int32_t batch = int32_t(count);
      int64_t offset = rows * columns;
      FUSION_RT_TRY(api.check(
          api.layoutSet(slot.get(), kLtBatchCount, &batch, sizeof(batch)),
          "cublasLtMatrixLayoutSetAttribute(batch)"));
      return api.check(
          api.layoutSet(slot.get(), kLtBatchOffset, &offset, sizeof(offset)),
          "cublasLtMatrixLayoutSetAttribute(batch)");
    };
    FUSION_RT_TRY(layout(from, columns, rows));
    return layout(to, rows, columns);
  }

  Status enqueue(CUstream stream, const void *source, void *target) override {
    float one = 1, zero = 0;
    return api.check(api.transform(handle, desc.get(), &one, source, from.get(),
                                   &zero, nullptr, nullptr, target, to.get(),
                                   stream),
                     "cublasLtMatrixTransform");
  }

private:
  const BlasLtApi &api;
  LtHandle handle;
  Owned desc, from, to;
};
} // namespace

Expected<std::unique_ptr<TransposeCall>>
BlasLt::planTranspose(DType dtype, int64_t count, int64_t rows,
                      int64_t columns) {
  auto result = std::make_unique<Transpose>(*api, handle);
  FUSION_RT_TRY(result->plan(dtype, count, rows, columns));
  return std::unique_ptr<TransposeCall>(std::move(result));
}

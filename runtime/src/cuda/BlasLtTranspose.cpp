//===- BlasLtTranspose.cpp - Rows to columns by cuBLASLt ------------------===//
//
// Weights of the other order than a library reads, that a run computes or a
// caller gives: they are copied, at each run, to where the library wants them.
//
//===----------------------------------------------------------------------===//
#include "BlasLtTranspose.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

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
    auto layout = [&](LtOwned &slot, int64_t rows, int64_t columns) {
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
  LtOwned desc, from, to;
};
} // namespace

Expected<std::unique_ptr<TransposeCall>>
fusion::rt::cuda::planTranspose(const BlasLtApi &api, LtHandle handle,
                                DType dtype, int64_t count, int64_t rows,
                                int64_t columns) {
  auto result = std::make_unique<Transpose>(api, handle);
  FUSION_RT_TRY(result->plan(dtype, count, rows, columns));
  return std::unique_ptr<TransposeCall>(std::move(result));
}

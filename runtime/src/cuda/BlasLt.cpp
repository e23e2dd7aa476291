//===- BlasLt.cpp - Products by cuBLASLt ----------------------------------===//
//
// Opens the library, and plans transposes; products are BlasLtMatMul.cpp's.
//
//===----------------------------------------------------------------------===//
#include "BlasLt.h"

#include "BlasLtApi.h"
#include "SharedLibrary.h"

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
  api.version = reinterpret_cast<decltype(api.version)>(
      dlsym(*library, "cublasLtGetVersion"));
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

Expected<std::unique_ptr<BlasLt>> BlasLt::open(SideStreams &sides,
                                               Tuner *tuner) {
  auto api = BlasLtApi::open();
  if (!api)
    return api.status();
  std::unique_ptr<BlasLt> result(new BlasLt(sides, tuner));
  result->api = *api;
  FUSION_RT_TRY(
      (*api)->check((*api)->create(&result->handle), "cublasLtCreate"));
  return result;
}

BlasLt::~BlasLt() {
  if (handle)
    api->destroy(handle);
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
BlasLt::planTranspose(DType dtype, int64_t count, int64_t rows,
                      int64_t columns) {
  auto result = std::make_unique<Transpose>(*api, handle);
  FUSION_RT_TRY(result->plan(dtype, count, rows, columns));
  return std::unique_ptr<TransposeCall>(std::move(result));
}

//===- BlasLt.cpp - Products by cuBLASLt ----------------------------------===//
//
// Opens the library; products are BlasLtMatMul.cpp's, transposes
// BlasLtTranspose.cpp's.
//
//===----------------------------------------------------------------------===//
#include "BlasLt.h"

#include "BlasLtApi.h"
#include "BlasLtTranspose.h"
#include "SharedLibrary.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

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

Expected<std::unique_ptr<TransposeCall>>
BlasLt::planTranspose(DType dtype, int64_t count, int64_t rows,
                      int64_t columns) {
  return cuda::planTranspose(*api, handle, dtype, count, rows, columns);
}

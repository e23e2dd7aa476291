//===- LibraryCalls.cpp - Contractions that a CUDA library does -----------===//
//
// Opens cuBLASLt for the first product and cuDNN for the first convolution or
// attention.
//
//===----------------------------------------------------------------------===//
#include "LibraryCalls.h"

#include "BlasLt.h"
#include "Dnn.h"
#include "SideStreams.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {
class Libraries final : public CudaLibraries {
public:
  Libraries(const Driver &driver, Tuner *tuner) : sides(driver), tuner(tuner) {}
  Expected<std::unique_ptr<CudaCall>>
  plan(const LibraryCall &call, int64_t batch, bool isAligned) override;

private:
  Status openBlas() {
    if (blas)
      return {};
    auto opened = BlasLt::open(sides, tuner);
    if (opened)
      blas = std::move(*opened);
    return opened.status();
  }

  SideStreams sides;
  Tuner *tuner;
  std::unique_ptr<BlasLt> blas;
  std::unique_ptr<Dnn> dnn;
};
} // namespace

Expected<std::unique_ptr<CudaCall>>
Libraries::plan(const LibraryCall &call, int64_t batch, bool isAligned) {
  DType type = call.dtype;
  bool isMatMul = call.op == LibraryOp::MatMul;
  bool hasType = type == DType::F16 || type == DType::BF16 ||
                 type == DType::F32 || (type == DType::F64 && isMatMul);
  if (!hasType || call.op == LibraryOp::AvgPool)
    return Status(Code::Rejected,
                  "no CUDA library is called for this op or element type; "
                  "compile the model again");
  if (!isMatMul && !isAligned)
    return Status(Code::Rejected,
                  "cuDNN needs operands that start at a multiple of 16 bytes; "
                  "compile with --no-fuse=vertical");
  if (isMatMul || (!call.isAttention() && Dnn::movesWeights(call)))
    FUSION_RT_TRY(openBlas());
  if (isMatMul)
    return blas->planMatMul(call, batch, isAligned);
  if (!dnn) {
    auto opened = Dnn::open();
    if (!opened)
      return opened.status();
    dnn = std::move(*opened);
  }
  if (call.op == LibraryOp::Attention)
    return dnn->planAttention(call, batch);
  if (call.op == LibraryOp::AttentionGrad)
    return dnn->planAttentionGrad(call, batch);
  return dnn->planConv(call, batch, blas.get(), tuner);
}

Expected<std::unique_ptr<CudaLibraries>>
CudaLibraries::open(const Driver &driver, Tuner *tuner) {
  return std::unique_ptr<CudaLibraries>(
      std::make_unique<Libraries>(driver, tuner));
}

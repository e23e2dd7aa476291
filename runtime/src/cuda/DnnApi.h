//===- DnnApi.h - The entries of cuDNN's graph API --------------*- C++ -*-===//
//
// Constants and entries of cuDNN 9, declared here, and owners of its
// descriptors.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_DNNAPI_H
#define FUSION_RUNTIME_CUDA_DNNAPI_H

#include "Driver.h"
#include "ModuleData.h"

#include <vector>

namespace fusion::rt::cuda {

using DnnHandle = void *;
using DnnDescriptor = void *;

// Kinds of descriptors
enum class DnnKind : int {
  Pointwise = 0,
  Convolution = 1,
  Heuristics = 4,
  EngineConfig = 3,
  Engine = 2,
  Plan = 5,
  ConvolutionForward = 10,
  ConvolutionData = 12,
  PointwiseOp = 13,
  Graph = 15,
  VariantPack = 16,
  Tensor = 17,
  MatMul = 18,
  MatMulOp = 19,
  Reduction = 21,
  ReductionOp = 22,
  ReshapeOp = 31,
  Attention = 41 // since 9.13
};

// Types of attributes
constexpr int kDnnHandle = 0, kDnnDataType = 1, kDnnBool = 2, kDnnInt64 = 3,
              kDnnFloat = 4, kDnnPointer = 6, kDnnConvolutionMode = 7,
              kDnnHeuristicsMode = 8, kDnnNote = 11, kDnnPointwiseMode = 14,
              kDnnDescriptor = 15, kDnnReduction = 18;
// Attributes
constexpr int kPointwiseMode = 0, kPointwisePrecision = 1, kPointwiseAxis = 9,
              kConvolutionType = 100, kConvolutionMode = 101,
              kConvolutionDilations = 102, kConvolutionStrides = 103,
              kConvolutionPostPads = 104, kConvolutionPrePads = 105,
              kConvolutionDims = 106, kHeuristicsMode = 200,
              kHeuristicsGraph = 201, kHeuristicsResults = 202,
              kConfigEngine = 300, kPlanHandle = 400, kPlanConfig = 401,
              kPlanWorkspace = 402, kForwardAlpha = 700, kForwardBeta = 701,
              kForwardConvolution = 702, kForwardW = 703, kForwardX = 704,
              kForwardY = 705, kGradientAlpha = 706, kPointwiseOp = 750,
              kPointwiseX = 751, kPointwiseB = 752, kPointwiseY = 753,
              kPointwiseT = 758, kGraphHandle = 800, kGraphOps = 801,
              kTensorAlignment = 900, kTensorType = 901, kTensorDims = 902,
              kTensorStrides = 903, kTensorId = 906, kTensorVirtual = 907,
              kTensorByValue = 908, kPackIds = 1000, kPackPointers = 1001,
              kPackWorkspace = 1003, kEngineNumber = 1301, kEngineNotes = 1303,
              kMatMulType = 1500, kMatMulA = 1520, kMatMulB = 1521,
              kMatMulC = 1522, kMatMulOp = 1523, kReductionMode = 1600,
              kReductionType = 1601, kReductionX = 1610, kReductionY = 1611,
              kReductionOp = 1612, kReshapeX = 2200, kReshapeY = 2201,
              kAttentionQ = 2800, kAttentionK = 2801, kAttentionV = 2802,
              kAttentionO = 2803, kAttentionStats = 2804,
              kAttentionScale = 2805;
// Values
constexpr int kDnnF32 = 0, kDnnF16 = 2, kDnnI32 = 4, kDnnBF16 = 9, kDnnI1 = 11;
constexpr int kCrossCorrelation = 1, kModeAdd = 0, kModeMul = 1, kModeDiv = 6,
              kModeSub = 9, kModeExp = 13, kModeLog = 15, kModeRelu = 100,
              kModeNotLess = 303, kModeIndex = 501, kModeSelect = 601;
constexpr int kReduceAdd = 0, kReduceMax = 3;
constexpr int kHeuristicsFallback = 2, kHeuristicsA = 3;
constexpr int kNoteTensorCore = 0, kNoteDownConvert = 1,
              kNoteReducedPrecision = 2, kNoteFft = 3,
              kNoteNondeterministic = 4, kNoteWinograd = 5,
              kNoteWinogradLast = 8, kNoteStrictNan = 9;

#define FUSION_DNN_ENTRIES(ENTRY)                                              \
  ENTRY(create, "cudnnCreate", DnnHandle *)                                    \
  ENTRY(destroy, "cudnnDestroy", DnnHandle)                                    \
  ENTRY(setStream, "cudnnSetStream", DnnHandle, CUstream)                      \
  ENTRY(createDescriptor, "cudnnBackendCreateDescriptor", int,                 \
        DnnDescriptor *)                                                       \
  ENTRY(destroyDescriptor, "cudnnBackendDestroyDescriptor", DnnDescriptor)     \
  ENTRY(set, "cudnnBackendSetAttribute", DnnDescriptor, int, int, int64_t,     \
        const void *)                                                          \
  ENTRY(get, "cudnnBackendGetAttribute", DnnDescriptor, int, int, int64_t,     \
        int64_t *, void *)                                                     \
  ENTRY(finalize, "cudnnBackendFinalize", DnnDescriptor)                       \
  ENTRY(execute, "cudnnBackendExecute", DnnHandle, DnnDescriptor, DnnDescriptor)

struct DnnApi {
#define FUSION_DNN_DECLARE(name, symbol, ...)                                  \
  int (*name)(__VA_ARGS__) = nullptr;
  FUSION_DNN_ENTRIES(FUSION_DNN_DECLARE)
#undef FUSION_DNN_DECLARE
  const char *(*errorString)(int) = nullptr;
  size_t (*version)() = nullptr; ///< may be null

  static Expected<const DnnApi *> open();
  /// `Ok`, or the error that `entry` gave: `Rejected` if nothing computes
  /// what was asked for, `Resources` if memory is short.
  Status check(int status, const char *entry) const;
};

/// A descriptor and its attributes. The first error is kept, so that a chain of
/// `set` is checked once, by `finish`.
class DnnObject {
public:
  DnnObject() = default;
  DnnObject(const DnnApi &api, DnnKind kind);
  DnnObject(DnnObject &&other) { *this = std::move(other); }
  DnnObject &operator=(DnnObject &&other);
  ~DnnObject();

  DnnDescriptor get() const { return descriptor; }
  void set(int attribute, int type, int64_t count, const void *values);
  void set(int attribute, int type, int value) {
    set(attribute, type, 1, &value);
  }
  void set(int attribute, const std::vector<int64_t> &values) {
    set(attribute, kDnnInt64, values.size(), values.data());
  }
  void set(int attribute, const DnnObject &value) {
    set(attribute, kDnnDescriptor, 1, &value.descriptor);
  }
  /// Finalizes the descriptor.
  Status finish();

private:
  const DnnApi *api = nullptr;
  DnnDescriptor descriptor = nullptr;
  Status error;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_DNNAPI_H

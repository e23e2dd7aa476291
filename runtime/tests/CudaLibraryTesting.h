//===- CudaLibraryTesting.h - Library calls against a plain loop *- C++ -*-===//
//
// Runs a library call on a GPU, in a captured graph as a session does, and
// compares its output with a loop on the CPU. Data are small integers: sums are
// exact before they are rounded, so all but gelu and attention must be equal,
// and what lies beyond the integers of bf16 within one of its steps (a
// convolution may be rounded before its epilogue). What an old cuDNN names no
// engine for is skipped: a session runs the module's own kernel then.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_CUDALIBRARYTESTING_H
#define FUSION_RUNTIME_TESTS_CUDALIBRARYTESTING_H

#include "DnnApi.h"
#include "FloatBits.h"
#include "LibraryCalls.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

namespace fusion::rt::cuda {

/// The first version of cuDNN that is known to name an engine for every call
/// here, as cudnnGetVersion says it: 9.19. Version 9.14 has none for sums of
/// f32 with some of the epilogues.
constexpr size_t kDnnNamesAll = 91900;

using Shape = std::vector<int64_t>;

inline int64_t countOf(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

inline std::vector<Affine> affine(const Shape &shape) {
  std::vector<Affine> result;
  for (int64_t size : shape)
    result.push_back({0, size});
  return result;
}

inline uint64_t bytesOf(DType type) {
  return type == DType::F64 ? 8 : type == DType::F32 ? 4 : 2;
}

inline const char *nameOf(DType type) {
  return type == DType::F64    ? "f64"
         : type == DType::F32  ? "f32"
         : type == DType::BF16 ? "bf16"
                               : "f16";
}

using Values = std::vector<double>;

/// Integers of [-2, 2].
inline Values randomValues(int64_t count, std::mt19937 &random) {
  Values values(count);
  for (double &value : values)
    value = double(int(random() % 5) - 2);
  return values;
}

/// The nearest number of `type`, to even; for numbers that are not too small.
inline double roundTo(double value, DType type) {
  int digits = type == DType::F64   ? 53
               : type == DType::F32 ? 24
               : type == DType::F16 ? 11
                                    : 8;
  int exponent;
  double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, digits)),
                    exponent - digits);
}

/// Where the operands of several members lie.
enum class Place {
  Apart,   ///< each in memory of its own
  Even,    ///< the members' at equal distances, 0 for left sides
  Falling, ///< at equal distances, the last member's first
  Mixed,   ///< at equal distances, right sides and biases falling
  Uneven,  ///< the first two at equal distances
};

inline const char *nameOf(Place place) {
  return place == Place::Apart     ? "apart"
         : place == Place::Even    ? "even"
         : place == Place::Falling ? "falling"
         : place == Place::Mixed   ? "mixed"
                                   : "uneven";
}

/// Which place, of `members`, an operand of `member` has. `index`: of the
/// operand, `last` if it is the output.
inline int64_t placeOf(Place place, int64_t member, int64_t members,
                       size_t index, bool last) {
  if (place == Place::Even && index == 0)
    return 0;
  bool isMixed = place == Place::Mixed && index > 0 && !last;
  if (place == Place::Falling || isMixed)
    return members - 1 - member;
  return place == Place::Uneven && last && member > 1 ? member + 1 : member;
}

/// The GPU, its libraries and one stream.
class Machine {
public:
  Status open() {
    auto opened = Driver::open();
    if (!opened)
      return opened.status();
    driver = *opened;
    CUdevice device = 0;
    FUSION_RT_TRY(driver->check(driver->deviceGet(&device, 0), "cuDeviceGet"));
    CUcontext context = nullptr;
    FUSION_RT_TRY(driver->check(driver->primaryContextRetain(&context, device),
                                "cuDevicePrimaryCtxRetain"));
    FUSION_RT_TRY(
        driver->check(driver->contextPush(context), "cuCtxPushCurrent"));
    FUSION_RT_TRY(driver->check(
        driver->streamCreate(&stream, kStreamNonBlocking), "cuStreamCreate"));
    auto libs = CudaLibraries::open(*driver);
    if (!libs)
      return libs.status();
    libraries = std::move(*libs);
    if (auto dnn = DnnApi::open(); dnn && (*dnn)->version)
      dnnVersion = (*dnn)->version();
    return {};
  }

  /// As cudnnGetVersion says it; 0 without cuDNN.
  size_t getDnnVersion() const { return dnnVersion; }
  /// Of all calls: most of it are kernels that cuDNN compiles.
  double getPlanSeconds() const { return planSeconds; }

  /// Runs `call` on `operands`; the last ones are overwritten.
  Status run(const LibraryCall &call, std::vector<Values> &operands,
             size_t perMember, int shift, Place place) {
    auto start = std::chrono::steady_clock::now();
    auto planned = libraries->plan(call, 1);
    planSeconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    if (!planned)
      return planned.status();
    std::vector<CUdeviceptr> memory;
    auto allocate = [&](uint64_t size) -> Expected<CUdeviceptr> {
      CUdeviceptr address = 0;
      FUSION_RT_TRY(
          driver->check(driver->memAlloc(&address, size + 256), "cuMemAlloc"));
      memory.push_back(address);
      return address;
    };
    Status status =
        runOn(**planned, call, operands, perMember, shift, place, allocate);
    driver->streamSynchronize(stream);
    for (CUdeviceptr address : memory)
      driver->memFree(address);
    return status;
  }

private:
  template <typename Allocate>
  Status runOn(CudaCall &planned, const LibraryCall &call,
               std::vector<Values> &operands, size_t perMember, int shift,
               Place place, Allocate allocate) {
    uint64_t element = bytesOf(call.dtype);
    std::vector<void *> addresses;
    std::vector<CUdeviceptr> blocks; // by operand of a member
    for (size_t i = 0; i < operands.size(); ++i) {
      const Values &values = operands[i];
      size_t index = i % perMember;
      uint64_t room = (values.size() * element + 255) / 256 * 256;
      uint64_t offset = 0;
      if (place == Place::Apart || i < perMember) {
        auto address = allocate(
            place == Place::Apart ? room : room * uint64_t(call.members + 1));
        if (!address)
          return address.status();
        blocks.resize(index + 1);
        blocks[index] = *address;
      }
      if (place != Place::Apart)
        offset =
            room * uint64_t(placeOf(place, int64_t(i / perMember), call.members,
                                    index, index + 1 == perMember));
      addresses.push_back(reinterpret_cast<void *>(blocks[index] + offset +
                                                   uint64_t(shift) * element));
      FUSION_RT_TRY(upload(addresses.back(), values, call.dtype));
    }
    auto workspace = allocate(planned.workspace());
    if (!workspace)
      return workspace.status();
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    FUSION_RT_TRY(
        driver->check(driver->streamBeginCapture(stream, kCaptureThreadLocal),
                      "cuStreamBeginCapture"));
    Status enqueued = planned.enqueue(stream, addresses.data(),
                                      reinterpret_cast<void *>(*workspace));
    CUresult ended = driver->streamEndCapture(stream, &graph);
    FUSION_RT_TRY(enqueued);
    FUSION_RT_TRY(driver->check(ended, "cuStreamEndCapture"));
    FUSION_RT_TRY(driver->check(driver->graphInstantiate(&executable, graph, 0),
                                "cuGraphInstantiate"));
    Status launched =
        driver->check(driver->graphLaunch(executable, stream), "cuGraphLaunch");
    if (launched.ok())
      launched = driver->check(driver->streamSynchronize(stream),
                               "cuStreamSynchronize");
    driver->graphExecDestroy(executable);
    driver->graphDestroy(graph);
    FUSION_RT_TRY(launched);
    for (size_t i = 0; i < operands.size(); ++i)
      if (i % perMember + call.numResults() >= perMember)
        FUSION_RT_TRY(download(addresses[i], operands[i], call.dtype));
    return {};
  }

  Status upload(void *to, const Values &values, DType type) {
    uint64_t element = bytesOf(type);
    std::vector<char> bytes(values.size() * element);
    for (size_t i = 0; i < values.size(); ++i)
      storeNumber(bytes.data() + i * element, type, values[i]);
    FUSION_RT_TRY(
        driver->check(driver->copyToDevice(reinterpret_cast<CUdeviceptr>(to),
                                           bytes.data(), bytes.size(), stream),
                      "cuMemcpyHtoD"));
    return driver->check(driver->streamSynchronize(stream),
                         "cuStreamSynchronize");
  }

  Status download(void *from, Values &values, DType type) {
    uint64_t element = bytesOf(type);
    std::vector<char> bytes(values.size() * element);
    FUSION_RT_TRY(driver->check(
        driver->copyToHost(bytes.data(), reinterpret_cast<CUdeviceptr>(from),
                           bytes.size(), stream),
        "cuMemcpyDtoH"));
    FUSION_RT_TRY(driver->check(driver->streamSynchronize(stream),
                                "cuStreamSynchronize"));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = loadNumber(bytes.data() + i * element, type);
    return {};
  }

  const Driver *driver = nullptr;
  CUstream stream = nullptr;
  std::unique_ptr<CudaLibraries> libraries;
  size_t dnnVersion = 0;
  double planSeconds = 0;
};

inline double activate(double value, Activation activation) {
  if (activation == Activation::Relu)
    return std::isnan(value) ? value : std::max(value, 0.0);
  if (activation == Activation::GeluTanh)
    return value *
           (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) *
                          (value + 0.044715 * value * value * value))) /
           2;
  return value;
}

/// What the sums of a call give, for the output's element `i`.
using Sum = std::function<double(const Values *operands, int64_t i)>;

/// A convolution on channels-last images, or a transposed one.
struct ConvCase {
  DType type = DType::F32;
  /// Without the epilogue's operands: [N, C, spatial...] and [O, C / groups,
  /// window...], or [C, O, window...] of a transposed one.
  Shape input, weights;
  int64_t step = 1, padLow = 0, padHigh = 0;
  bool bias = false, addend = false;
  Activation activation = Activation::None;
  int64_t groups = 1;
  int64_t extra = 0;    ///< elements more at the ends of a transposed one
  bool laidOut = false; ///< weights in memory channels-last too
  bool hasNan = false;  ///< the image's first element is a NaN
  int64_t stride = 1;   ///< of the elements compared
};

class Tests {
public:
  /// Runs those whose titles have `filter` in them, and of these every
  /// `parts`th, from number `part` on.
  Tests(Machine &machine, std::string filter, int64_t part, int64_t parts)
      : machine(machine), filter(std::move(filter)), part(part), parts(parts) {}

  /// `shapes`: of one member's operands. `channels`, `inner`: element i of the
  /// output belongs to channel (i / inner) % channels. Of a large output every
  /// `stride`th element is compared. `hasNan`: the first operand starts with
  /// one. `sum` gives the first result, `sums` the others.
  void run(const std::string &name, const LibraryCall &call,
           const std::vector<Shape> &shapes, int64_t channels, int64_t inner,
           int64_t stride, const Sum &sum, int shift = 0,
           Place place = Place::Apart, bool hasNan = false,
           const std::vector<Sum> &sums = {}) {
    std::string title =
        name + " " + nameOf(call.dtype) + (call.hasBias ? " bias" : "") +
        (call.hasAddend ? " addend" : "") +
        (call.activation == Activation::Relu ? " relu" : "") +
        (call.activation == Activation::GeluTanh ? " gelu" : "") +
        (call.hasSlope() ? exactSlopes ? " slope 0 1/2 1" : " slope" : "") +
        (hasNan ? " nan" : "");
    if (title.find(filter) == std::string::npos || wanted++ % parts != part)
      return;
    std::vector<Values> operands;
    for (int64_t member = 0; member < call.members; ++member)
      for (size_t i = 0; i < shapes.size(); ++i)
        operands.push_back(member && place == Place::Even && i == 0
                               ? operands[0]
                               : randomValues(countOf(shapes[i]), random));
    if (hasNan)
      operands[0][0] = std::nan("");
    if (call.hasSlope() && exactSlopes)
      for (size_t i = 2; i < operands.size(); i += shapes.size())
        for (double &value : operands[i])
          value *= 20;
    std::vector<Values> before = operands;
    Status status = machine.run(call, operands, shapes.size(), shift, place);
    if (status.code() == Code::Environment && passed + failed + skipped == 0) {
      missing = status;
      return;
    }
    if (status.code() == Code::Rejected &&
        machine.getDnnVersion() < kDnnNamesAll) {
      ++skipped;
      std::printf("skip %s: cuDNN %zu: %s\n", title.c_str(),
                  machine.getDnnVersion(), status.message().c_str());
      return;
    }
    if (!status.ok())
      return report(title, status.message());
    double bound = call.dtype == DType::BF16  ? 1e-2
                   : call.dtype == DType::F16 ? 2e-3
                                              : 1e-5;
    // The library's slope is no more exact (docs/tolerances.md).
    if (call.hasSlope())
      bound = std::max(bound, 0x1p-11);
    // Both factors of its products were rounded; a key sums them over the
    // queries of all heads that share it, and their roundings grow as the root
    // of that.
    if (call.op == LibraryOp::AttentionGrad) {
      double terms = double(call.inputShape[1].base) /
                     double(call.weightShape[1].base) *
                     double(call.inputShape[2].base);
      bound *= 4 * std::max(1.0, std::sqrt(terms / 128));
    }
    size_t numResults = call.numResults(),
           firstResult = shapes.size() - numResults;
    for (size_t n = 0; n < operands.size(); ++n) {
      size_t index = n % shapes.size();
      if (index < firstResult)
        continue;
      const Values *in = &before[n - index];
      const Values &out = operands[n];
      const Sum &sumOf =
          index == firstResult ? sum : sums[index - firstResult - 1];
      for (int64_t i = 0; i < int64_t(out.size()); i += stride) {
        double value = sumOf(in, i);
        size_t next = 2;
        if (call.hasBias)
          value += in[next++][(i / inner) % channels];
        if (call.hasAddend)
          value += in[next++][i];
        double expected = roundTo(activate(value, call.activation), call.dtype);
        bool isExact = call.activation != Activation::GeluTanh &&
                       (!call.hasSlope() || exactSlopes) &&
                       !call.isAttention() &&
                       (call.dtype != DType::BF16 || std::fabs(expected) < 256);
        double error = std::fabs(out[i] - expected);
        if (std::isnan(expected) ? std::isnan(out[i])
            : isExact ? out[i] == expected
                      : error <= bound * std::max(1.0, std::fabs(expected)))
          continue;
        char text[128];
        std::snprintf(text, sizeof(text),
                      "element %lld of result %zu is %.9g instead of %.9g",
                      (long long)i, index - firstResult, out[i], expected);
        return report(title, text);
      }
    }
    // Nothing depends on the order of threads.
    std::vector<Values> again = before;
    if (call.op == LibraryOp::AttentionGrad)
      status = machine.run(call, again, shapes.size(), shift, place);
    else
      again = operands;
    if (!status.ok())
      return report(title, status.message());
    for (size_t n = 0; n < operands.size(); ++n)
      for (size_t i = 0; i < operands[n].size(); ++i)
        if (std::memcmp(&again[n][i], &operands[n][i], sizeof(double)) != 0)
          return report(title, "a second run gives other bits");
    ++passed;
    std::printf("ok   %s\n", title.c_str());
  }

  void matMul(DType type, Shape lhs, Shape rhs, bool transposeLhs,
              bool transposeRhs, bool bias, bool addend, Activation activation,
              int64_t members = 1, int64_t stride = 1, int shift = 0,
              Place place = Place::Apart);
  /// [k, m]^T x [k, n] with the sum of a side; or, for the slope of gelu, [m,
  /// k] x [n, k]^T, with the sum of the result or without.
  void gradient(DType type, int64_t k, int64_t m, int64_t n,
                BiasGradient summed, bool hasSlope, int64_t members = 1,
                int64_t stride = 1, Place place = Place::Apart);
  void conv(const ConvCase &test);
  void convTranspose(const ConvCase &test);

  int64_t passed = 0, failed = 0, skipped = 0;
  Status missing;
  /// Whether gelu's slopes are taken at multiples of 20: they are 0, 1/2 or 1.
  bool exactSlopes = false;

private:
  void report(const std::string &title, const std::string &what) {
    ++failed;
    std::printf("FAIL %s: %s\n", title.c_str(), what.c_str());
  }

  Machine &machine;
  std::string filter;
  int64_t part, parts, wanted = 0;
  std::mt19937 random{7};
};

inline std::string textOf(const Shape &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// The gradients beside products that LibraryRules gives to cuBLASLt.
void runGradients(Tests &tests);
/// All convolutions that LibraryRules gives to cuDNN.
void runConvolutions(Tests &tests);
/// Attention as LibraryRules gives it to cuDNN.
void runAttention(Tests &tests);

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_TESTS_CUDALIBRARYTESTING_H

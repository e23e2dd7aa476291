//===- CudaLibraryTest.cpp - cuBLASLt and cuDNN against a plain loop ------===//
//
// Plans and runs library calls on a GPU, in a captured graph as a session does,
// and compares all elements with a loop on the CPU. Data are small integers:
// sums are exact before they are rounded, so all but gelu must be equal, and
// what lies beyond the integers of bf16 within one of its steps (a convolution
// may be rounded before its epilogue). An argument names the tests to run by a
// part of their titles. Exit code: 0 all equal, 1 not, 5 without a GPU or a
// library.
//
//===----------------------------------------------------------------------===//
#include "FloatBits.h"
#include "LibraryCalls.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

using Shape = std::vector<int64_t>;

int64_t countOf(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

std::vector<Affine> affine(const Shape &shape) {
  std::vector<Affine> result;
  for (int64_t size : shape)
    result.push_back({0, size});
  return result;
}

uint64_t bytesOf(DType type) {
  return type == DType::F64 ? 8 : type == DType::F32 ? 4 : 2;
}

const char *nameOf(DType type) {
  return type == DType::F64    ? "f64"
         : type == DType::F32  ? "f32"
         : type == DType::BF16 ? "bf16"
                               : "f16";
}

using Values = std::vector<double>;

/// Integers of [-2, 2].
Values randomValues(int64_t count, std::mt19937 &random) {
  Values values(count);
  for (double &value : values)
    value = double(int(random() % 5) - 2);
  return values;
}

/// The nearest number of `type`, to even; for numbers that are not too small.
double roundTo(double value, DType type) {
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

const char *nameOf(Place place) {
  return place == Place::Apart     ? "apart"
         : place == Place::Even    ? "even"
         : place == Place::Falling ? "falling"
         : place == Place::Mixed   ? "mixed"
                                   : "uneven";
}

/// Which place, of `members`, an operand of `member` has. `index`: of the
/// operand, `last` if it is the output.
int64_t placeOf(Place place, int64_t member, int64_t members, size_t index,
                bool last) {
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
    return {};
  }

  /// Runs `call` on `operands`; the last is the output, which is overwritten.
  Status run(const LibraryCall &call, std::vector<Values> &operands,
             size_t perMember, int shift, Place place) {
    auto planned = libraries->plan(call, 1);
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
    for (size_t i = perMember - 1; i < operands.size(); i += perMember)
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
};

double activate(double value, Activation activation) {
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

class Tests {
public:
  Tests(Machine &machine, std::string filter)
      : machine(machine), filter(std::move(filter)) {}

  /// `shapes`: of one member's operands. `channels`, `inner`: element i of the
  /// output belongs to channel (i / inner) % channels. Of a large output every
  /// `stride`th element is compared.
  void run(const std::string &name, const LibraryCall &call,
           const std::vector<Shape> &shapes, int64_t channels, int64_t inner,
           int64_t stride, const Sum &sum, int shift = 0,
           Place place = Place::Apart) {
    std::string title =
        name + " " + nameOf(call.dtype) + (call.hasBias ? " bias" : "") +
        (call.hasAddend ? " addend" : "") +
        (call.activation == Activation::Relu ? " relu" : "") +
        (call.activation == Activation::GeluTanh ? " gelu" : "");
    if (title.find(filter) == std::string::npos)
      return;
    std::vector<Values> operands;
    for (int64_t member = 0; member < call.members; ++member)
      for (size_t i = 0; i < shapes.size(); ++i)
        operands.push_back(member && place == Place::Even && i == 0
                               ? operands[0]
                               : randomValues(countOf(shapes[i]), random));
    std::vector<Values> before = operands;
    Status status = machine.run(call, operands, shapes.size(), shift, place);
    if (status.code() == Code::Environment && passed + failed == 0) {
      missing = status;
      return;
    }
    if (!status.ok())
      return report(title, status.message());
    double bound = call.dtype == DType::BF16  ? 1e-2
                   : call.dtype == DType::F16 ? 2e-3
                                              : 1e-5;
    for (size_t first = 0; first < operands.size(); first += shapes.size()) {
      const Values *in = &before[first];
      const Values &out = operands[first + shapes.size() - 1];
      for (int64_t i = 0; i < int64_t(out.size()); i += stride) {
        double value = sum(in, i);
        size_t next = 2;
        if (call.hasBias)
          value += in[next++][(i / inner) % channels];
        if (call.hasAddend)
          value += in[next++][i];
        double expected = roundTo(activate(value, call.activation), call.dtype);
        bool isExact = call.activation != Activation::GeluTanh &&
                       (call.dtype != DType::BF16 || std::fabs(expected) < 256);
        double error = std::fabs(out[i] - expected);
        if (isExact ? out[i] == expected
                    : error <= bound * std::max(1.0, std::fabs(expected)))
          continue;
        char text[128];
        std::snprintf(text, sizeof(text),
                      "element %lld is %.9g instead of %.9g", (long long)i,
                      out[i], expected);
        return report(title, text);
      }
    }
    ++passed;
    std::printf("ok   %s\n", title.c_str());
  }

  void matMul(DType type, Shape lhs, Shape rhs, bool transposeLhs,
              bool transposeRhs, bool bias, bool addend, Activation activation,
              int64_t members = 1, int64_t stride = 1, int shift = 0,
              Place place = Place::Apart);
  void conv(DType type, bool channelsLast, Shape input, Shape weights,
            int64_t step, int64_t pad, bool bias, bool addend,
            Activation activation, int64_t stride = 1, bool laidOut = false);
  /// `weights`: [C, O, window...]; the output is `extra` longer at its ends.
  void convTranspose(DType type, bool channelsLast, bool laidOut, Shape input,
                     Shape weights, int64_t step, int64_t pad, int64_t extra,
                     bool bias, bool addend, Activation activation);

  int64_t passed = 0, failed = 0;
  Status missing;

private:
  void report(const std::string &title, const std::string &what) {
    ++failed;
    std::printf("FAIL %s: %s\n", title.c_str(), what.c_str());
  }

  Machine &machine;
  std::string filter;
  std::mt19937 random{7};
};

std::string textOf(const Shape &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

} // namespace

void Tests::matMul(DType type, Shape lhs, Shape rhs, bool transposeLhs,
                   bool transposeRhs, bool bias, bool addend,
                   Activation activation, int64_t members, int64_t stride,
                   int shift, Place place) {
  auto dim = [](const Shape &shape, size_t fromEnd) {
    return fromEnd < shape.size() ? shape[shape.size() - 1 - fromEnd] : 1;
  };
  int64_t m = dim(lhs, transposeLhs ? 0 : 1),
          k = dim(lhs, !transposeLhs ? 0 : 1);
  int64_t n = dim(rhs, transposeRhs ? 1 : 0);
  Shape out = {m, n};
  for (size_t i = 2; i < std::max(lhs.size(), rhs.size()); ++i)
    out.insert(out.begin(), std::max(dim(lhs, i), dim(rhs, i)));
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.dtype = type;
  call.hasBias = bias;
  call.hasAddend = addend;
  call.activation = activation;
  call.members = members;
  call.transposeLhs = transposeLhs;
  call.transposeRhs = transposeRhs;
  call.inputShape = affine(lhs);
  call.weightShape = affine(rhs);
  call.outputShape = affine(out);
  std::vector<Shape> shapes = {lhs, rhs};
  if (bias)
    shapes.push_back({n});
  if (addend)
    shapes.push_back(out);
  shapes.push_back(out);
  auto sum = [=](const Values *in, int64_t i) {
    int64_t column = i % n, row = i / n % m, rest = i / (n * m);
    int64_t lhsAt = 0, rhsAt = 0, lhsStep = 1, rhsStep = 1;
    for (size_t d = 2; d < out.size(); ++d) {
      int64_t index = rest % dim(out, d);
      rest /= dim(out, d);
      lhsAt += dim(lhs, d) == 1 ? 0 : index * lhsStep;
      rhsAt += dim(rhs, d) == 1 ? 0 : index * rhsStep;
      lhsStep *= dim(lhs, d);
      rhsStep *= dim(rhs, d);
    }
    const double *a = in[0].data() + lhsAt * m * k;
    const double *b = in[1].data() + rhsAt * k * n;
    double total = 0;
    for (int64_t l = 0; l < k; ++l)
      total += a[transposeLhs ? l * m + row : row * k + l] *
               b[transposeRhs ? column * k + l : l * n + column];
    return total;
  };
  run("matmul " + textOf(lhs) + (transposeLhs ? "^T" : "") + " " + textOf(rhs) +
          (transposeRhs ? "^T" : "") +
          (members > 1
               ? " members " + std::to_string(members) + " " + nameOf(place)
               : "") +
          (shift ? " unaligned" : ""),
      call, shapes, n, 1, stride, sum, shift, place);
}

void Tests::conv(DType type, bool channelsLast, Shape input, Shape weights,
                 int64_t step, int64_t pad, bool bias, bool addend,
                 Activation activation, int64_t stride, bool laidOut) {
  size_t spatial = input.size() - 2;
  Shape out = {input[0], weights[0]};
  for (size_t d = 0; d < spatial; ++d)
    out.push_back((input[d + 2] + 2 * pad - weights[d + 2]) / step + 1);
  LibraryCall call;
  call.dtype = type;
  call.hasBias = bias;
  call.hasAddend = addend;
  call.activation = activation;
  call.channelsLast = channelsLast;
  call.weightsLast = laidOut;
  call.inputShape = affine(input);
  call.weightShape = affine(weights);
  call.outputShape = affine(out);
  call.strides.assign(spatial, step);
  call.dilations.assign(spatial, 1);
  call.padLow.assign(spatial, pad);
  call.padHigh.assign(spatial, pad);
  std::vector<Shape> shapes = {input, weights};
  if (bias)
    shapes.push_back({out[1]});
  if (addend)
    shapes.push_back(out);
  shapes.push_back(out);
  int64_t positions = countOf(out) / (out[0] * out[1]);
  int64_t pixels = countOf(input) / (input[0] * input[1]);
  int64_t window = countOf(weights) / (weights[0] * weights[1]);
  auto sum = [=](const Values *in, int64_t i) {
    int64_t n, o, position;
    if (channelsLast) {
      o = i % out[1];
      position = i / out[1] % positions;
    } else {
      position = i % positions;
      o = i / positions % out[1];
    }
    n = i / (out[1] * positions);
    double total = 0;
    for (int64_t tap = 0; tap < window; ++tap) {
      int64_t at = 0, scale = 1, tapRest = tap, rest = position;
      bool inside = true;
      for (size_t d = spatial; d-- > 0;) {
        int64_t coordinate =
            rest % out[d + 2] * step - pad + tapRest % weights[d + 2];
        rest /= out[d + 2];
        tapRest /= weights[d + 2];
        inside &= coordinate >= 0 && coordinate < input[d + 2];
        at += coordinate * scale;
        scale *= input[d + 2];
      }
      if (!inside)
        continue;
      for (int64_t c = 0; c < input[1]; ++c)
        total += in[0][channelsLast ? (n * pixels + at) * input[1] + c
                                    : (n * input[1] + c) * pixels + at] *
                 in[1][laidOut ? (o * window + tap) * input[1] + c
                               : (o * input[1] + c) * window + tap];
    }
    return total;
  };
  run(std::string("conv ") + (channelsLast ? "nhwc " : "nchw ") +
          textOf(input) + " " + textOf(weights) + (laidOut ? " ohwi" : "") +
          " step " + std::to_string(step) + " pad " + std::to_string(pad),
      call, shapes, out[1], channelsLast ? 1 : positions, stride, sum);
}

void Tests::convTranspose(DType type, bool channelsLast, bool laidOut,
                          Shape input, Shape weights, int64_t step, int64_t pad,
                          int64_t extra, bool bias, bool addend,
                          Activation activation) {
  size_t spatial = input.size() - 2;
  Shape out = {input[0], weights[1]};
  for (size_t d = 0; d < spatial; ++d)
    out.push_back((input[d + 2] - 1) * step + weights[d + 2] - 2 * pad + extra);
  LibraryCall call;
  call.op = LibraryOp::ConvTranspose;
  call.dtype = type;
  call.hasBias = bias;
  call.hasAddend = addend;
  call.activation = activation;
  call.channelsLast = channelsLast;
  call.weightsLast = laidOut;
  call.inputShape = affine(input);
  call.weightShape = affine(weights);
  call.outputShape = affine(out);
  call.strides.assign(spatial, step);
  call.dilations.assign(spatial, 1);
  call.padLow.assign(spatial, pad);
  call.padHigh.assign(spatial, pad - extra);
  std::vector<Shape> shapes = {input, weights};
  if (bias)
    shapes.push_back({out[1]});
  if (addend)
    shapes.push_back(out);
  shapes.push_back(out);
  int64_t positions = countOf(out) / (out[0] * out[1]);
  int64_t pixels = countOf(input) / (input[0] * input[1]);
  int64_t window = countOf(weights) / (weights[0] * weights[1]);
  auto sum = [=](const Values *in, int64_t i) {
    int64_t o, position;
    if (channelsLast) {
      o = i % out[1];
      position = i / out[1] % positions;
    } else {
      position = i % positions;
      o = i / positions % out[1];
    }
    int64_t n = i / (out[1] * positions);
    double total = 0;
    for (int64_t tap = 0; tap < window; ++tap) {
      int64_t at = 0, scale = 1, tapRest = tap, rest = position;
      bool inside = true;
      for (size_t d = spatial; d-- > 0;) {
        int64_t moved = rest % out[d + 2] + pad - tapRest % weights[d + 2];
        rest /= out[d + 2];
        tapRest /= weights[d + 2];
        inside &=
            moved >= 0 && moved % step == 0 && moved / step < input[d + 2];
        at += moved / step * scale;
        scale *= input[d + 2];
      }
      if (!inside)
        continue;
      for (int64_t c = 0; c < input[1]; ++c)
        total += in[0][channelsLast ? (n * pixels + at) * input[1] + c
                                    : (n * input[1] + c) * pixels + at] *
                 in[1][laidOut ? (c * window + tap) * out[1] + o
                               : (c * out[1] + o) * window + tap];
    }
    return total;
  };
  run(std::string("conv_transpose ") + (channelsLast ? "nhwc " : "nchw ") +
          textOf(input) + " " + textOf(weights) + (laidOut ? " ohwi" : "") +
          " step " + std::to_string(step) + " pad " + std::to_string(pad) +
          " extra " + std::to_string(extra),
      call, shapes, out[1], channelsLast ? 1 : positions, 1, sum);
}

static void runAll(Tests &tests) {
  const Activation none = Activation::None, relu = Activation::Relu,
                   gelu = Activation::GeluTanh;
  for (DType type : {DType::F32, DType::F16, DType::BF16, DType::F64}) {
    bool hasActivations = type != DType::F64;
    for (int bits = 0; bits < 16; ++bits) {
      bool a = bits & 1, b = bits & 2;
      tests.matMul(type, a ? Shape{40, 24} : Shape{24, 40},
                   b ? Shape{56, 40} : Shape{40, 56}, a, b, bits & 4, bits & 8,
                   none);
      if (tests.missing.code() != Code::Ok)
        return;
      if (hasActivations && !(bits & 3))
        for (Activation activation : {relu, gelu})
          tests.matMul(type, {24, 40}, {40, 56}, false, false, bits & 4,
                       bits & 8, activation);
    }
    // Odd sizes, a batch, broadcasts of it, members, parts of tensors.
    tests.matMul(type, {5, 7}, {7, 3}, false, false, true, true, none);
    tests.matMul(type, {1, 1}, {1, 1}, false, false, true, false, none);
    tests.matMul(type, {6, 5, 8}, {6, 8, 16}, false, false, false, true, none);
    tests.matMul(type, {6, 8, 5}, {6, 16, 8}, true, true, false, false, none);
    tests.matMul(type, {6, 5, 8}, {8, 16}, false, false, true, false, none);
    tests.matMul(type, {6, 8, 5}, {8, 16}, true, false, true, false, none);
    tests.matMul(type, {2, 1, 4, 8}, {3, 8, 16}, false, false, false, true,
                 none);
    tests.matMul(type, {2, 3, 4, 8}, {2, 1, 8, 16}, false, false, false, false,
                 none);
    for (Place place : {Place::Apart, Place::Even, Place::Falling, Place::Mixed,
                        Place::Uneven}) {
      for (int bits = 0; bits < 4; ++bits)
        tests.matMul(type, {24, 40}, {40, 56}, false, false, bits & 1, bits & 2,
                     none, 3, 1, 0, place);
      if (hasActivations)
        tests.matMul(type, {24, 40}, {56, 40}, false, true, true, false, gelu,
                     3, 1, 0, place);
    }
    tests.matMul(type, {24, 40}, {40, 56}, false, false, true, false, none, 3,
                 1, 1, Place::Even);
    tests.matMul(type, {24, 40}, {40, 56}, false, false, false, true, none, 1,
                 1, 1);
  }
  tests.matMul(DType::BF16, {1024, 512}, {2048, 512}, false, true, true, false,
               gelu, 1, 101);
  // What the library has its fast kernels for.
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    for (Place place : {Place::Apart, Place::Even, Place::Falling, Place::Mixed,
                        Place::Uneven})
      tests.matMul(type, {128, 1024}, {1024, 1024}, false, true, true, false,
                   none, 3, 17, 0, place);
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    for (bool last : {true, false}) {
      for (int bits = 0; bits < 8; ++bits)
        tests.conv(type, last, {2, 16, 9, 7}, {24, 16, 3, 3}, 1, 1, bits & 1,
                   bits & 2, bits & 4 ? relu : none);
      tests.conv(type, last, {2, 3, 11, 11}, {5, 3, 3, 3}, 2, 0, true, true,
                 relu);
      tests.conv(type, last, {1, 8, 6, 6}, {16, 8, 1, 1}, 1, 0, true, false,
                 relu);
      tests.conv(type, last, {2, 8, 13}, {16, 8, 5}, 1, 2, true, false, relu);
      tests.conv(type, last, {1, 8, 5, 6, 7}, {8, 8, 3, 3, 3}, 1, 1, true,
                 false, none);
    }
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    // Weights that the module has laid out.
    for (bool addend : {false, true})
      tests.conv(type, true, {2, 16, 9, 7}, {24, 16, 3, 3}, 1, 1, true, addend,
                 relu, 1, true);
    tests.conv(type, true, {2, 3, 11, 11}, {5, 3, 3, 3}, 2, 0, true, false,
               none, 1, true);
    tests.conv(type, true, {2, 8, 13}, {16, 8, 5}, 1, 2, false, false, none, 1,
               true);
    tests.conv(type, true, {1, 8, 5, 6, 7}, {8, 8, 3, 3, 3}, 1, 1, true, false,
               relu, 1, true);
    for (bool laidOut : {false, true}) {
      for (int bits = 0; bits < 8; ++bits)
        tests.convTranspose(type, true, laidOut, {2, 16, 5, 6}, {16, 8, 3, 3},
                            2, 1, 1, bits & 1, bits & 2,
                            bits & 4 ? relu : none);
      tests.convTranspose(type, true, laidOut, {2, 24, 5, 6}, {24, 16, 2, 2}, 2,
                          0, 0, true, false, relu);
      tests.convTranspose(type, true, laidOut, {2, 3, 7, 5}, {3, 5, 3, 3}, 1, 1,
                          0, true, false, none);
      tests.convTranspose(type, true, laidOut, {2, 8, 9}, {8, 16, 4}, 2, 1, 0,
                          true, false, none);
      tests.convTranspose(type, true, laidOut, {1, 8, 3, 4, 5}, {8, 8, 2, 2, 2},
                          2, 0, 0, true, false, none);
    }
  }
  for (DType type : {DType::F16, DType::BF16}) {
    tests.conv(type, true, {32, 64, 56, 56}, {64, 64, 3, 3}, 1, 1, true, false,
               relu, 997);
    tests.conv(type, true, {32, 256, 56, 56}, {64, 256, 1, 1}, 1, 0, true,
               false, relu, 997);
    tests.conv(type, true, {32, 512, 7, 7}, {512, 512, 3, 3}, 1, 1, true, true,
               relu, 997);
  }
}

int main(int argc, char **argv) {
  Machine machine;
  Status status = machine.open();
  if (status.ok()) {
    Tests tests(machine, argc > 1 ? argv[1] : "");
    runAll(tests);
    status = tests.missing;
    if (status.ok()) {
      std::printf("%lld passed, %lld failed\n", (long long)tests.passed,
                  (long long)tests.failed);
      return tests.failed ? 1 : 0;
    }
  }
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}

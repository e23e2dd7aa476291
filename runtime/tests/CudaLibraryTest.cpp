//===- CudaLibraryTest.cpp - cuBLASLt and cuDNN against a plain loop ------===//
//
// Products, and which calls are tested; their gradients are in
// CudaLibraryGradientTest.cpp. An argument names the tests to run by a
// part of their titles; a second one, as 2/4, the third quarter of those: cuDNN
// compiles kernels for most convolutions, so processes side by side are faster.
// Exit code: 0 all equal, 1 not, 2 bad arguments, 5 without a GPU or a library.
//
//===----------------------------------------------------------------------===//
#include "CudaLibraryTesting.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

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

static void runProducts(Tests &tests) {
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
}

int main(int argc, char **argv) {
  long long part = 0, parts = 1;
  if (argc > 2 && (std::sscanf(argv[2], "%lld/%lld", &part, &parts) != 2 ||
                   part < 0 || part >= parts)) {
    std::fprintf(stderr, "error: '%s' is no part; give one of 0/N to N-1/N\n",
                 argv[2]);
    return int(Code::Rejected);
  }
  Machine machine;
  Status status = machine.open();
  if (status.ok()) {
    std::printf("cuDNN %zu\n", machine.getDnnVersion());
    Tests tests(machine, argc > 1 ? argv[1] : "", part, parts);
    auto start = std::chrono::steady_clock::now();
    runProducts(tests);
    if (tests.missing.ok())
      runGradients(tests);
    if (tests.missing.ok())
      runConvolutions(tests);
    if (tests.missing.ok())
      runAttention(tests);
    status = tests.missing;
    if (status.ok()) {
      double seconds = std::chrono::duration<double>(
                           std::chrono::steady_clock::now() - start)
                           .count();
      std::printf("%lld passed, %lld failed, %lld skipped in %.1f s, %.1f of "
                  "them to plan\n",
                  (long long)tests.passed, (long long)tests.failed,
                  (long long)tests.skipped, seconds, machine.getPlanSeconds());
      return tests.failed ? 1 : 0;
    }
  }
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}

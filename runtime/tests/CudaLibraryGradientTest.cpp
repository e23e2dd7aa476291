//===- CudaLibraryGradientTest.cpp - Gradients beside products ------------===//
//
// cuBLASLt's gradients against plain loops: sums of a side, slopes of gelu, and
// sums of the result behind a slope. Sums of small integers are exact in every
// type and order, rounded before or after.
//
//===----------------------------------------------------------------------===//
#include "CudaLibraryTesting.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// The slope of gelu's tanh form.
static double slopeOf(double x) {
  double root = std::sqrt(2 / std::acos(-1.0));
  double tanh = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + tanh) +
         0.5 * x * (1 - tanh * tanh) * root * (1 + 3 * 0.044715 * x * x);
}

void Tests::gradient(DType type, int64_t k, int64_t m, int64_t n,
                     BiasGradient summed, bool hasSlope, int64_t members,
                     int64_t stride, Place place) {
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.dtype = type;
  call.members = members;
  call.transposeLhs = !hasSlope;
  call.transposeRhs = hasSlope;
  call.biasGradient = summed;
  if (hasSlope)
    call.activation = Activation::GeluTanhGrad;
  Shape lhs = hasSlope ? Shape{m, k} : Shape{k, m},
        rhs = hasSlope ? Shape{n, k} : Shape{k, n}, out{m, n};
  call.inputShape = affine(lhs);
  call.weightShape = affine(rhs);
  call.outputShape = affine(out);
  std::vector<Shape> shapes = {lhs, rhs};
  if (hasSlope)
    shapes.push_back(out);
  shapes.push_back(out);
  bool ofLhs = summed == BiasGradient::Lhs;
  if (summed != BiasGradient::None)
    shapes.push_back({ofLhs ? m : n});
  auto product = [=](const Values *in, int64_t i) {
    int64_t row = i / n, column = i % n;
    double total = 0;
    for (int64_t l = 0; l < k; ++l)
      total += in[0][size_t(hasSlope ? row * k + l : l * m + row)] *
               in[1][size_t(hasSlope ? column * k + l : l * n + column)];
    return hasSlope ? total * slopeOf(in[2][size_t(i)]) : total;
  };
  std::vector<Sum> sums;
  if (summed != BiasGradient::None)
    sums.push_back([=](const Values *in, int64_t i) {
      double total = 0;
      if (summed == BiasGradient::Result)
        for (int64_t row = 0; row < m; ++row)
          total += product(in, row * n + i);
      else
        for (int64_t l = 0; l < k; ++l)
          total += in[ofLhs ? 0 : 1][size_t(l * (ofLhs ? m : n) + i)];
      return total;
    });
  run("gradient " + textOf(lhs) + (hasSlope ? "" : "^T") + " " + textOf(rhs) +
          (hasSlope ? "^T" : "") +
          (summed == BiasGradient::Lhs      ? " sum of lhs"
           : summed == BiasGradient::Rhs    ? " sum of rhs"
           : summed == BiasGradient::Result ? " sum of result"
                                            : "") +
          (members > 1
               ? " members " + std::to_string(members) + " " + nameOf(place)
               : ""),
      call, shapes, n, 1, stride, product, 0, place, false, sums);
}

void fusion::rt::cuda::runGradients(Tests &tests) {
  const BiasGradient none = BiasGradient::None, lhs = BiasGradient::Lhs,
                     rhs = BiasGradient::Rhs, result = BiasGradient::Result;
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    // Rows of the matrices are multiples of 8, the number summed is any.
    for (int64_t k : {1, 5, 40, 129})
      for (BiasGradient summed : {lhs, rhs}) {
        tests.gradient(type, k, 24, 56, summed, false);
        tests.gradient(type, k, 8, 8, summed, false);
      }
    for (int64_t m : {1, 5, 40, 129})
      for (BiasGradient summed : {none, result}) {
        tests.exactSlopes = true;
        tests.gradient(type, 24, m, 56, summed, true);
        tests.gradient(type, 8, m, 8, summed, true);
        tests.exactSlopes = false;
      }
    tests.gradient(type, 24, 40, 56, none, true);
    for (Place place : {Place::Apart, Place::Even, Place::Falling, Place::Mixed,
                        Place::Uneven}) {
      tests.gradient(type, 24, 40, 56, rhs, false, 3, 1, place);
      tests.gradient(type, 24, 40, 56, lhs, false, 5, 1, place);
      tests.gradient(type, 1024, 256, 256, rhs, false, 4, 17, place);
      tests.exactSlopes = true;
      tests.gradient(type, 24, 40, 56, none, true, 3, 1, place);
      tests.gradient(type, 24, 40, 56, result, true, 3, 1, place);
      tests.exactSlopes = false;
    }
    // What the library has its fast kernels and its split sums for.
    for (BiasGradient summed : {lhs, rhs}) {
      tests.gradient(type, 8192, 768, 768, summed, false, 1, 1009);
      tests.gradient(type, 2048, 768, 3072, summed, false, 1, 1009);
      tests.gradient(type, 4099, 128, 136, summed, false, 1, 101);
    }
    tests.gradient(type, 768, 2048, 3072, none, true, 1, 1009);
    tests.exactSlopes = true;
    tests.gradient(type, 768, 1021, 3072, result, true, 1, 1009);
    tests.gradient(type, 128, 4096, 136, result, true, 1, 101);
    tests.exactSlopes = false;
  }
}

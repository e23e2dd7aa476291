//===- CudaLibraryAttentionTest.cpp - Attention by cuDNN ------------------===//
//
// What attention is, as a loop in f64, and which calls are tested. The library
// rounds weights to the operands' type: values are at most 2, so results lie
// within two of its steps.
//
//===----------------------------------------------------------------------===//
#include "CudaLibraryTesting.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {
struct AttentionCase {
  int64_t batches, heads, groups, rows, keys, depth, width;
  bool causal = false;
  Shape mask = {}; ///< empty without one
  int64_t members = 1;
};
} // namespace

static void runCase(Tests &tests, DType type, const AttentionCase &test) {
  Shape query = {test.batches, test.heads, test.rows, test.depth},
        key = {test.batches, test.groups, test.keys, test.depth},
        value = {test.batches, test.groups, test.keys, test.width},
        out = {test.batches, test.heads, test.rows, test.width};
  LibraryCall call;
  call.op = LibraryOp::Attention;
  call.dtype = type;
  call.inputShape = affine(query);
  call.weightShape = affine(key);
  call.outputShape = affine(out);
  call.maskShape = affine(test.mask);
  call.scale = 0.125;
  call.causal = test.causal;
  call.members = test.members;
  std::vector<Shape> shapes = {query, key, value};
  if (!test.mask.empty())
    shapes.push_back(test.mask);
  shapes.push_back(out);
  // The scores of one row serve its columns.
  std::vector<double> weights(test.keys);
  const Values *weightsOf = nullptr;
  int64_t weightsRow = -1;
  auto element = [&](const Values *in, int64_t i) {
    int64_t e = i % test.width, row = i / test.width, s = row % test.rows,
            h = row / test.rows % test.heads, b = row / test.rows / test.heads,
            g = b * test.groups + h / (test.heads / test.groups);
    if (weightsOf != in || weightsRow != row) {
      weightsOf = in;
      weightsRow = row;
      double largest = -INFINITY, total = 0;
      for (int64_t t = 0; t < test.keys; ++t) {
        double sum = 0;
        for (int64_t d = 0; d < test.depth; ++d)
          sum += in[0][row * test.depth + d] *
                 in[1][(g * test.keys + t) * test.depth + d];
        sum *= call.scale;
        if (!test.mask.empty()) {
          int64_t plane = (test.mask[0] > 1 ? b : 0) * test.mask[1] +
                          (test.mask[1] > 1 ? h : 0);
          sum += in[3][(plane * test.rows + s) * test.keys + t];
        }
        if (test.causal && t > s + test.keys - test.rows)
          sum = -INFINITY;
        weights[t] = sum;
        largest = std::max(largest, sum);
      }
      for (double &weight : weights)
        total += weight = std::exp(weight - largest);
      for (double &weight : weights)
        weight /= total;
    }
    double sum = 0;
    for (int64_t t = 0; t < test.keys; ++t)
      sum += weights[t] * in[2][(g * test.keys + t) * test.width + e];
    return sum;
  };
  std::string title = "attention " + textOf(query) + " " + textOf(key) + " " +
                      std::to_string(test.width);
  if (test.causal)
    title += " causal";
  if (!test.mask.empty())
    title += " mask " + textOf(test.mask);
  if (test.members > 1)
    title += " members " + std::to_string(test.members);
  tests.run(title, call, shapes, 1, 1, 1, element);
}

void fusion::rt::cuda::runAttention(Tests &tests) {
  for (DType type : {DType::F16, DType::BF16})
    for (const AttentionCase &test : {
             AttentionCase{2, 4, 4, 64, 64, 64, 64},
             {2, 4, 4, 64, 64, 64, 64, true},
             {2, 4, 2, 128, 128, 64, 64},
             {2, 4, 1, 128, 128, 128, 128, true},
             {1, 2, 2, 37, 53, 64, 64},
             {1, 2, 2, 37, 53, 64, 64, true},
             {1, 2, 2, 53, 53, 64, 64, true},
             {2, 3, 3, 100, 7, 8, 16},
             {1, 4, 2, 16, 144, 32, 64},
             {1, 4, 2, 1, 200, 64, 64},
             {1, 4, 2, 1, 200, 64, 64, true},
             {2, 4, 4, 64, 64, 64, 64, false, {2, 4, 64, 64}},
             {2, 4, 2, 40, 72, 64, 64, false, {1, 4, 40, 72}},
             {2, 4, 4, 64, 128, 64, 64, false, {2, 1, 64, 128}},
             {2, 4, 4, 64, 64, 64, 64, true, {1, 1, 64, 64}},
             {2, 2, 2, 64, 64, 64, 64, true, {}, 3},
             {1, 2, 2, 257, 1025, 96, 80},
         })
      runCase(tests, type, test);
}

//===- CudaLibraryAttentionTest.cpp - Attention by cuDNN ------------------===//
//
// What attention and its gradients are, as loops in f64, and which calls are
// tested. The library rounds weights, and the gradients of scores, to the
// operands' type: values are at most 2, so results lie within a few of its
// steps.
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

  Shape query() const { return {batches, heads, rows, depth}; }
  Shape key() const { return {batches, groups, keys, depth}; }
  Shape value() const { return {batches, groups, keys, width}; }
  Shape output() const { return {batches, heads, rows, width}; }
  /// The group of the key that a head reads, over all batches.
  int64_t groupOf(int64_t b, int64_t h) const {
    return b * groups + h / (heads / groups);
  }
};

struct Gradients {
  Values query, key, value;
};

constexpr double kScale = 0.125;
} // namespace

static double multiply(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += a[i] * b[i];
  return sum;
}

/// The weights of the keys for query `s` of head `h` of batch `b`.
static void weigh(const AttentionCase &test, const Values *in,
                  const Values &mask, int64_t b, int64_t h, int64_t s,
                  Values &weights) {
  const double *query =
      &in[0][((b * test.heads + h) * test.rows + s) * test.depth];
  const double *keys = &in[1][test.groupOf(b, h) * test.keys * test.depth];
  double largest = -INFINITY, total = 0;
  for (int64_t t = 0; t < test.keys; ++t) {
    double score = kScale * multiply(query, keys + t * test.depth, test.depth);
    if (!test.mask.empty()) {
      int64_t plane = (test.mask[0] > 1 ? b : 0) * test.mask[1] +
                      (test.mask[1] > 1 ? h : 0);
      score += mask[(plane * test.rows + s) * test.keys + t];
    }
    if (test.causal && t > s + test.keys - test.rows)
      score = -INFINITY;
    weights[t] = score;
    largest = std::max(largest, score);
  }
  for (double &weight : weights)
    total += weight = std::exp(weight - largest);
  for (double &weight : weights)
    weight /= total;
}

static Gradients differentiate(const AttentionCase &test, const Values *in) {
  Gradients grads{Values(in[0].size()), Values(in[1].size()),
                  Values(in[2].size())};
  Values weights(test.keys), weightGrads(test.keys);
  for (int64_t b = 0; b < test.batches; ++b)
    for (int64_t h = 0; h < test.heads; ++h)
      for (int64_t s = 0; s < test.rows; ++s) {
        int64_t g = test.groupOf(b, h),
                row = (b * test.heads + h) * test.rows + s;
        weigh(test, in, in[4], b, h, s, weights);
        const double *grad = &in[3][row * test.width];
        double mean = 0;
        for (int64_t t = 0; t < test.keys; ++t) {
          weightGrads[t] = multiply(
              grad, &in[2][(g * test.keys + t) * test.width], test.width);
          mean += weights[t] * weightGrads[t];
        }
        for (int64_t t = 0; t < test.keys; ++t) {
          double score = kScale * weights[t] * (weightGrads[t] - mean);
          int64_t key = (g * test.keys + t) * test.depth;
          for (int64_t d = 0; d < test.depth; ++d) {
            grads.query[row * test.depth + d] += score * in[1][key + d];
            grads.key[key + d] += score * in[0][row * test.depth + d];
          }
          for (int64_t e = 0; e < test.width; ++e)
            grads.value[(g * test.keys + t) * test.width + e] +=
                weights[t] * grad[e];
        }
      }
  return grads;
}

static LibraryCall makeCall(LibraryOp op, DType type,
                            const AttentionCase &test) {
  LibraryCall call;
  call.op = op;
  call.dtype = type;
  call.inputShape = affine(test.query());
  call.weightShape = affine(test.key());
  call.outputShape = affine(test.output());
  call.maskShape = affine(test.mask);
  call.scale = kScale;
  call.causal = test.causal;
  call.members = test.members;
  return call;
}

static std::string titleOf(const char *name, const AttentionCase &test) {
  std::string title = std::string(name) + " " + textOf(test.query()) + " " +
                      textOf(test.key()) + " " + std::to_string(test.width);
  if (test.causal)
    title += " causal";
  if (!test.mask.empty())
    title += " mask " + textOf(test.mask);
  if (test.members > 1)
    title += " members " + std::to_string(test.members);
  return title;
}

static void runCase(Tests &tests, DType type, const AttentionCase &test) {
  std::vector<Shape> shapes = {test.query(), test.key(), test.value()};
  if (!test.mask.empty())
    shapes.push_back(test.mask);
  shapes.push_back(test.output());
  // The weights of one row serve its columns.
  Values weights(test.keys);
  const Values *weightsOf = nullptr;
  int64_t weightsRow = -1;
  auto element = [&](const Values *in, int64_t i) {
    int64_t e = i % test.width, row = i / test.width, s = row % test.rows,
            h = row / test.rows % test.heads, b = row / test.rows / test.heads;
    if (weightsOf != in || weightsRow != row) {
      weightsOf = in;
      weightsRow = row;
      weigh(test, in, in[3], b, h, s, weights);
    }
    double sum = 0;
    for (int64_t t = 0; t < test.keys; ++t)
      sum += weights[t] *
             in[2][(test.groupOf(b, h) * test.keys + t) * test.width + e];
    return sum;
  };
  tests.run(titleOf("attention", test),
            makeCall(LibraryOp::Attention, type, test), shapes, 1, 1, 1,
            element);
}

static void runGradCase(Tests &tests, DType type, const AttentionCase &test) {
  std::vector<Shape> shapes = {test.query(), test.key(), test.value(),
                               test.output()};
  if (!test.mask.empty())
    shapes.push_back(test.mask);
  shapes.insert(shapes.end(), {test.query(), test.key(), test.value()});
  Gradients grads;
  const Values *gradsOf = nullptr;
  auto find = [&](const Values *in) -> const Gradients & {
    if (gradsOf != in) {
      gradsOf = in;
      grads = differentiate(test, in);
    }
    return grads;
  };
  tests.run(titleOf("attention_grad", test),
            makeCall(LibraryOp::AttentionGrad, type, test), shapes, 1, 1, 1,
            [&](const Values *in, int64_t i) { return find(in).query[i]; }, 0,
            Place::Apart, false,
            {[&](const Values *in, int64_t i) { return find(in).key[i]; },
             [&](const Values *in, int64_t i) { return find(in).value[i]; }});
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
         }) {
      runCase(tests, type, test);
      runGradCase(tests, type, test);
    }
  // Scores of 384 and of 320 MiB: batches, and groups, one part after the
  // other.
  runGradCase(tests, DType::F16, {3, 16, 16, 2048, 2048, 8, 8, true});
  runGradCase(tests, DType::F16,
              {1, 40, 40, 2048, 2048, 8, 8, false, {1, 1, 2048, 2048}});
}

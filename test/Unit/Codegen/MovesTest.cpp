//===- MovesTest.cpp - Chains of ops that move elements -------------------===//
//
// Random chains of reshapes, transposes, slices, pads, concats, ... in one
// group, at two batches where the first dimension depends on it, against the
// reference evaluator. Integers: every bit counts.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include "fusion/Reference/Evaluator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace fusion::test;
using namespace fusion::reference;

using Sizes = std::vector<int64_t>; ///< 0 stands for the batch

static std::string list(const Sizes &values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

static std::string type(const Sizes &sizes) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += (size ? std::to_string(size) : "?") + "x";
  return text + "i32>";
}

/// A module of one group: `ops` random moves behind each other.
static std::string makeChain(unsigned seed, bool dynamic) {
  std::mt19937 random(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  Sizes sizes = {dynamic ? 0 : 3, 4, 6, 10};
  std::string body, current = "%a";
  int count = 0;
  auto add = [&](const std::string &text, const Sizes &result) {
    std::string name = "%v" + std::to_string(count++);
    body += name + " = " + text + "\n";
    current = name;
    sizes = result;
  };
  std::string input = type(sizes);
  int ops = 2 + below(5);
  for (int i = 0; i < ops; ++i) {
    size_t rank = sizes.size();
    std::string from = type(sizes);
    switch (below(8)) {
    case 0: { // transpose
      Sizes permutation(rank), result(rank);
      for (size_t d = 0; d < rank; ++d)
        permutation[d] = d;
      std::shuffle(permutation.begin(), permutation.end(), random);
      for (size_t d = 0; d < rank; ++d)
        result[d] = sizes[permutation[d]];
      add("fusion.transpose " + current +
              " permutation = " + list(permutation) + " : " + from,
          result);
      break;
    }
    case 1: { // merge two neighbours
      if (rank < 2)
        break;
      size_t d = below(rank - 1);
      Sizes result = sizes;
      if (result[d] == 0 || result[d + 1] == 0)
        break;
      result[d] *= result[d + 1];
      result.erase(result.begin() + d + 1);
      add("fusion.reshape " + current + " : " + from + " to " + type(result),
          result);
      break;
    }
    case 2: { // split one
      size_t d = below(rank);
      if (rank > 5 || sizes[d] == 0 || sizes[d] % 2)
        break;
      Sizes result = sizes;
      result[d] /= 2;
      result.insert(result.begin() + d + below(2), 2);
      add("fusion.reshape " + current + " : " + from + " to " + type(result),
          result);
      break;
    }
    case 3: { // slice
      Sizes starts(rank, 0), limits = sizes, strides(rank, 1), result = sizes;
      for (size_t d = 0; d < rank; ++d) {
        if (sizes[d] == 0) {
          limits[d] = -1;
          continue;
        }
        starts[d] = below(std::min<int64_t>(sizes[d], 2));
        strides[d] = 1 + below(2);
        result[d] = (limits[d] - starts[d] + strides[d] - 1) / strides[d];
      }
      add("fusion.slice " + current + " starts = " + list(starts) +
              " limits = " + list(limits) + " strides = " + list(strides) +
              " : " + from,
          result);
      break;
    }
    case 4: { // pad
      Sizes low(rank, 0), high(rank, 0), result = sizes;
      for (size_t d = 0; d < rank; ++d) {
        if (sizes[d] == 0)
          continue;
        low[d] = below(3);
        high[d] = below(2);
        result[d] += low[d] + high[d];
      }
      add("fusion.pad " + current + ", %z low = " + list(low) +
              " high = " + list(high) + " : " + from + ", tensor<i32>",
          result);
      break;
    }
    case 5: { // concat with itself, or with its negation
      size_t d = below(rank);
      if (sizes[d] == 0 || sizes[d] > 40)
        break;
      std::string negated = "%n" + std::to_string(count);
      body += negated + " = fusion.neg " + current + " : " + from + "\n";
      Sizes result = sizes;
      result[d] *= 2;
      add("fusion.concat " + current + ", " + negated +
              " axis = " + std::to_string(d) + " : " + from + ", " + from,
          result);
      break;
    }
    case 6: { // reverse
      size_t d = below(rank);
      add("fusion.reverse " + current + " dims = [" + std::to_string(d) +
              "] : " + from,
          sizes);
      break;
    }
    default: { // broadcast along a new dimension
      if (rank > 5)
        break;
      size_t d = below(rank + 1);
      Sizes result = sizes, dims;
      result.insert(result.begin() + d, 3);
      for (size_t e = 0; e < rank; ++e)
        dims.push_back(e < d ? e : e + 1);
      add("fusion.broadcast " + current + " dims = " + list(dims) + " : " +
              from + " to " + type(result),
          result);
      break;
    }
    }
  }
  if (count == 0)
    add("fusion.abs " + current + " : " + type(sizes), sizes);
  std::string output = type(sizes);
  return "func.func @main(%x: " + input + ") -> " + output +
         (dynamic ? " attributes {fusion.batch = array<i64: 1, 8>}" : "") +
         " {\n" + "%r = fusion.group loop (%a = %x : " + input + ") -> " +
         output + " {\n" + "%z = fusion.constant dense<-7> : tensor<i32>\n" +
         body + "fusion.yield " + current + " : " + output +
         "\n}\nreturn %r : " + output + "\n}";
}

static void checkChain(unsigned seed, bool dynamic) {
  std::string text = makeChain(seed, dynamic);
  KernelRunner runner(text);
  ASSERT_TRUE(runner.ok()) << runner.error() << text;
  auto fresh = mlir::parseSourceString<mlir::ModuleOp>(text, &runner.context);
  auto main = fresh->lookupSymbol<mlir::func::FuncOp>("main");
  for (int64_t batch : {1, 3}) {
    int64_t leading = dynamic ? batch : 3;
    std::vector<int64_t> values(leading * 240);
    std::vector<int32_t> raw(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      raw[i] = static_cast<int32_t>(values[i] = i + 1);
    Tensor input = llvm::cantFail(
        Tensor::fromInts(ElementKind::I32, {leading, 4, 6, 10}, values));
    auto wanted = evaluate(main, {input});
    ASSERT_TRUE(static_cast<bool>(wanted))
        << llvm::toString(wanted.takeError()) << text;
    std::string want = wanted->front().toBytes();
    Bytes got = runner.run({toBytes(raw)}, batch)[0];
    auto have = fromBytes<int32_t>(got);
    auto expected = fromBytes<int32_t>(Bytes(want.begin(), want.end()));
    ASSERT_EQ(have.size(), expected.size()) << text;
    size_t at =
        std::mismatch(have.begin(), have.end(), expected.begin()).first -
        have.begin();
    EXPECT_EQ(at, have.size()) << "element " << at << " is " << have[at]
                               << ", not " << expected[at] << "\n"
                               << text;
  }
}

TEST(Moves, RandomChains) {
  for (unsigned seed = 0; seed < 60; ++seed)
    checkChain(seed, false);
}

TEST(Moves, RandomChainsOverTheBatch) {
  for (unsigned seed = 0; seed < 60; ++seed)
    checkChain(seed, true);
}

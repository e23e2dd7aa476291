//===- StrictTest.cpp - Grouping changes no bit ---------------------------===//
//
// Random graphs of elementwise ops, broadcasts, moves and reductions over one
// shape, compiled as one group and as a group an op: the bits must be the same,
// for every float type. Rows have awkward lengths.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace fusion::test;

namespace {
struct RandomGraph {
  std::string type, reduced;
  std::vector<std::string> lines; ///< "fusion.op %.., .. : type"
  std::vector<std::vector<int>> operands;
  std::vector<std::string> types; ///< of the values: inputs first
  int numInputs = 3;
};
} // namespace

static RandomGraph makeGraph(const std::string &element, bool reduces,
                             unsigned seed) {
  std::mt19937 random(seed);
  int columns = 5 + random() % 60, rows = 3 + random() % 5;
  std::string shape =
      std::to_string(rows) + "x" + std::to_string(columns) + "x";
  RandomGraph graph;
  graph.type = "tensor<" + shape + element + ">";
  graph.reduced = "tensor<" + std::to_string(rows) + "x" + element + ">";
  std::string vector =
      "tensor<" + std::to_string(columns) + "x" + element + ">";
  graph.types = {graph.type, graph.type, vector};
  auto pick = [&](const std::string &type) {
    std::vector<int> candidates;
    for (size_t i = 0; i < graph.types.size(); ++i)
      if (graph.types[i] == type)
        candidates.push_back(static_cast<int>(i));
    return candidates[random() % candidates.size()];
  };
  auto add = [&](std::string text, std::vector<int> operands,
                 std::string type) {
    graph.lines.push_back(text);
    graph.operands.push_back(operands);
    graph.types.push_back(type);
    return static_cast<int>(graph.types.size()) - 1;
  };
  add("fusion.broadcast $ dims = [1] : " + vector + " to " + graph.type, {2},
      graph.type);
  static const char *unary[] = {"neg",     "abs",  "exp",   "tanh",
                                "sigmoid", "relu", "sqrt",  "reciprocal",
                                "floor",   "silu", "log1p", "erf"};
  static const char *binary[] = {"add", "sub", "mul", "div", "max", "min"};
  int ops = 4 + random() % 6;
  for (int i = 0; i < ops; ++i) {
    int x = pick(graph.type), y = pick(graph.type);
    switch (random() % (reduces ? 6 : 4)) {
    case 0:
      add(std::string("fusion.") + unary[random() % 12] + " $ : " + graph.type,
          {x}, graph.type);
      break;
    case 1:
    case 2:
      add(std::string("fusion.") + binary[random() % 6] +
              " $, $ : " + graph.type,
          {x, y}, graph.type);
      break;
    case 3:
      if (!reduces)
        add("fusion.reverse $ dims = [1] : " + graph.type, {x}, graph.type);
      else
        add("fusion.mul $, $ : " + graph.type, {x, x}, graph.type);
      break;
    default: {
      static const char *kinds[] = {"sum", "mean", "max", "min"};
      int r = add(std::string("fusion.reduce ") + kinds[random() % 4] +
                      ", $ dims = [1] : " + graph.type,
                  {x}, graph.reduced);
      add("fusion.broadcast $ dims = [0] : " + graph.reduced + " to " +
              graph.type,
          {r}, graph.type);
    }
    }
  }
  return graph;
}

static std::string name(int value) { return "%v" + std::to_string(value); }

static std::string opText(const RandomGraph &graph, size_t line,
                          const std::string &prefix) {
  std::string text = graph.lines[line];
  for (int operand : graph.operands[line])
    text.replace(text.find('$'), 1, "%" + prefix + std::to_string(operand));
  return text;
}

static std::string makeModule(const RandomGraph &graph, bool fused,
                              bool reduces) {
  int last = static_cast<int>(graph.types.size()) - 1;
  std::string result = graph.types[last];
  std::string header = "func.func @main(";
  for (int i = 0; i < graph.numInputs; ++i)
    header += (i ? ", " : "") + name(i) + ": " + graph.types[i];
  header += ") -> " + result + " {\n";
  std::string body;
  std::string kind = reduces ? "row_reduce" : "loop";
  if (fused) {
    body = name(last) + " = fusion.group " + kind + " (";
    for (int i = 0; i < graph.numInputs; ++i)
      body += (i ? ", %a" : "%a") + std::to_string(i) + " = " + name(i) +
              " : " + graph.types[i];
    body += ") -> " + result + " {\n";
    for (size_t i = 0; i < graph.lines.size(); ++i)
      body += "%a" + std::to_string(graph.numInputs + i) + " = " +
              opText(graph, i, "a") + "\n";
    body += "fusion.yield %a" + std::to_string(last) + " : " + result + "\n}\n";
  } else {
    for (size_t i = 0; i < graph.lines.size(); ++i) {
      int value = graph.numInputs + static_cast<int>(i);
      std::string inputs, prefix = "b" + std::to_string(i) + "_";
      std::vector<int> seen;
      for (int operand : graph.operands[i]) {
        if (std::find(seen.begin(), seen.end(), operand) != seen.end())
          continue;
        seen.push_back(operand);
        inputs += (inputs.empty() ? "%" : ", %") + prefix +
                  std::to_string(operand) + " = " + name(operand) + " : " +
                  graph.types[operand];
      }
      body += name(value) + " = fusion.group fallback (" + inputs + ") -> " +
              graph.types[value] + " {\n%y = " + opText(graph, i, prefix) +
              "\nfusion.yield %y : " + graph.types[value] + "\n}\n";
    }
  }
  return header + body + "return " + name(last) + " : " + result + "\n}";
}

static size_t countElements(const std::string &type) {
  size_t count = 1;
  for (size_t at = type.find('<') + 1; isdigit(type[at]);) {
    count *= std::stoul(type.substr(at));
    at = type.find('x', at) + 1;
  }
  return count;
}

template <typename T>
static Bytes makeInput(size_t count, std::mt19937 &random) {
  std::vector<T> values(count);
  for (T &value : values)
    value =
        static_cast<T>(std::uniform_real_distribution<double>(-3, 3)(random));
  return toBytes(values);
}

static Bytes makeInput(const std::string &type, const std::string &element,
                       std::mt19937 &random) {
  size_t count = countElements(type);
  if (element == "f64")
    return makeInput<double>(count, random);
  if (element == "f32")
    return makeInput<float>(count, random);
  // Positive and negative 16-bit floats around 1.
  std::vector<uint16_t> bits(count);
  uint16_t one = element == "f16" ? 0x3c00 : 0x3f80;
  for (uint16_t &value : bits)
    value = static_cast<uint16_t>((one + random() % 256 - 128) |
                                  (random() % 2 << 15));
  return toBytes(bits);
}

/// NaNs are equal whatever their bits.
static bool sameBits(const Bytes &a, const Bytes &b,
                     const std::string &element) {
  auto isNan = [&](const Bytes &bytes, size_t i) {
    if (element == "f64")
      return std::isnan(fromBytes<double>(bytes)[i]);
    if (element == "f32")
      return std::isnan(fromBytes<float>(bytes)[i]);
    uint16_t bits = fromBytes<uint16_t>(bytes)[i] & 0x7fff;
    return bits > (element == "f16" ? 0x7c00 : 0x7f80);
  };
  size_t size = element == "f64" ? 8 : element == "f32" ? 4 : 2;
  for (size_t i = 0; i < a.size() / size; ++i)
    if (std::memcmp(&a[i * size], &b[i * size], size) != 0 &&
        !(isNan(a, i) && isNan(b, i)))
      return false;
  return a.size() == b.size();
}

class Strict : public ::testing::TestWithParam<std::string> {};

TEST_P(Strict, FusedEqualsUnfused) {
  std::string element = GetParam();
  for (unsigned seed = 0; seed < 20; ++seed)
    for (bool reduces : {false, true}) {
      RandomGraph graph = makeGraph(element, reduces, seed);
      std::string fusedText = makeModule(graph, true, reduces);
      std::string unfusedText = makeModule(graph, false, reduces);
      KernelRunner fused(fusedText), unfused(unfusedText);
      ASSERT_TRUE(fused.ok()) << fused.error() << fusedText;
      ASSERT_TRUE(unfused.ok()) << unfused.error() << unfusedText;
      EXPECT_EQ(fused.numKernels(), 1u);
      std::mt19937 random(seed);
      std::vector<Bytes> inputs;
      for (int i = 0; i < graph.numInputs; ++i)
        inputs.push_back(makeInput(graph.types[i], element, random));
      Bytes a = fused.run(inputs)[0], b = unfused.run(inputs)[0];
      EXPECT_TRUE(sameBits(a, b, element)) << fusedText;
      // In place, too.
      EXPECT_TRUE(sameBits(a, fused.run(inputs, 1, true)[0], element))
          << fusedText;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Strict,
                         ::testing::Values("f32", "f64", "f16", "bf16"),
                         [](const auto &info) { return info.param; });

TEST(Determinism, SameBytesTwice) {
  std::string text = makeModule(makeGraph("f32", true, 3), true, true);
  KernelRunner first(text), second(text);
  ASSERT_TRUE(first.ok()) << first.error();
  EXPECT_EQ(first.code(), second.code());
}

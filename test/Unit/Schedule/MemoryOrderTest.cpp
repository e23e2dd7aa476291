//===- MemoryOrderTest.cpp - Orders with a lower peak ---------------------===//
#include "MemoryOrder.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>
#include <vector>

using namespace fusion;

namespace {

/// Steps that read values of earlier ones; -1 bytes: nothing is made.
class Builder {
public:
  /// A step that reads the results of `reads` and makes `bytes` bytes.
  unsigned add(int64_t bytes, std::vector<unsigned> reads,
               bool isMovable = true) {
    unsigned step = graph.steps.size();
    graph.steps.emplace_back().isMovable = isMovable;
    for (unsigned read : reads) {
      graph.steps[step].before.push_back(read);
      graph.steps[read].behind.push_back(step);
      graph.values[read].readers.push_back(step);
    }
    OrderedValue value;
    value.bytes = bytes;
    value.producer = step;
    graph.values.push_back(value);
    return step;
  }

  OrderedSteps graph;
};

/// The most bytes alive at once, the obvious way.
int64_t getPeak(const OrderedSteps &graph, llvm::ArrayRef<unsigned> order) {
  std::vector<unsigned> at(order.size());
  for (unsigned i = 0; i < order.size(); ++i)
    at[order[i]] = i;
  int64_t peak = 0;
  for (unsigned i = 0; i < order.size(); ++i) {
    int64_t live = 0;
    for (const OrderedValue &value : graph.values) {
      unsigned last = at[value.producer];
      for (unsigned reader : value.readers)
        last = std::max(last, at[reader]);
      if (at[value.producer] <= i && i <= last)
        live += value.bytes;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

void expectLegal(const OrderedSteps &graph, const MemoryOrder &result) {
  std::vector<unsigned> at(graph.steps.size(), ~0u);
  for (unsigned i = 0; i < result.order.size(); ++i)
    at[result.order[i]] = i;
  ASSERT_EQ(result.order.size(), graph.steps.size());
  unsigned lastFixed = 0;
  for (unsigned step = 0; step < graph.steps.size(); ++step) {
    ASSERT_NE(at[step], ~0u);
    for (unsigned before : graph.steps[step].before)
      EXPECT_LT(at[before], at[step]);
    if (graph.steps[step].isMovable)
      continue;
    EXPECT_GE(at[step], lastFixed);
    lastFixed = at[step];
  }
  EXPECT_LE(result.peakAfter, result.peakBefore);
}

std::vector<unsigned> getOrder(const MemoryOrder &result) {
  return {result.order.begin(), result.order.end()};
}

} // namespace

TEST(MemoryOrder, ReadersBeforeThePeak) {
  Builder b;
  unsigned kept = b.add(100, {});
  unsigned small = b.add(1, {});
  unsigned peak = b.add(200, {small});
  unsigned copy = b.add(10, {kept}); // frees 100
  b.add(1, {peak, copy});
  MemoryOrder result = planMemoryOrder(b.graph);
  expectLegal(b.graph, result);
  EXPECT_EQ(getOrder(result), (std::vector<unsigned>{0, 1, 3, 2, 4}));
  // 100 + 1 + 200 at the step that makes 200; then 10 + 1 + 200, or 10 + 200 +
  // 1 at the last one.
  EXPECT_EQ(result.peakBefore, 310);
  EXPECT_EQ(result.peakAfter, 211);
  EXPECT_EQ(result.numMoved, 2u);
}

TEST(MemoryOrder, ProducerBehindThePeak) {
  Builder b;
  unsigned input = b.add(10, {});
  unsigned early = b.add(100, {input}); // read at the end
  unsigned large = b.add(200, {input});
  unsigned small = b.add(1, {large});
  b.add(1, {early, small});
  MemoryOrder result = planMemoryOrder(b.graph);
  expectLegal(b.graph, result);
  // Right behind the step that makes 200, all of it would be there still.
  EXPECT_EQ(getOrder(result), (std::vector<unsigned>{0, 2, 3, 1, 4}));
  EXPECT_EQ(result.peakBefore, 310);
  EXPECT_EQ(result.peakAfter, 211); // 10 + 200 + 1
}

TEST(MemoryOrder, ThePeakItselfBeforeWhatIsPinned) {
  // A weight's gradient and its reduction, which stays where it is, in front of
  // the step that frees the weight.
  Builder b;
  unsigned weight = b.add(100, {});
  unsigned gradient = b.add(10, {});
  unsigned product = b.add(100, {gradient});
  unsigned reduced = b.add(0, {product}, /*isMovable=*/false);
  unsigned frees = b.add(10, {weight, gradient});
  b.add(1, {product, reduced, frees});
  MemoryOrder result = planMemoryOrder(b.graph);
  expectLegal(b.graph, result);
  EXPECT_EQ(getOrder(result), (std::vector<unsigned>{0, 1, 4, 2, 3, 5}));
  EXPECT_EQ(result.peakBefore, 220);
  EXPECT_EQ(result.peakAfter, 120);
}

TEST(MemoryOrder, FixedStepsStay) {
  Builder b;
  unsigned kept = b.add(100, {}, /*isMovable=*/false);
  unsigned peak = b.add(200, {}, /*isMovable=*/false);
  unsigned copy = b.add(10, {kept}, /*isMovable=*/false);
  b.add(1, {peak, copy});
  MemoryOrder result = planMemoryOrder(b.graph);
  EXPECT_EQ(getOrder(result), (std::vector<unsigned>{0, 1, 2, 3}));
  EXPECT_EQ(result.peakAfter, result.peakBefore);
  EXPECT_EQ(result.numMoved, 0u);
}

TEST(MemoryOrder, BytesTakenOverCountOnce) {
  Builder b;
  unsigned x = b.add(100, {});
  unsigned y = b.add(100, {x});
  b.add(1, {y});
  EXPECT_EQ(planMemoryOrder(b.graph).peakBefore, 200);
  b.graph.values[y].over = x;
  EXPECT_EQ(planMemoryOrder(b.graph).peakBefore, 101);
}

TEST(MemoryOrder, RandomGraphsStayLegalAndTwiceIsOnce) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Builder b;
    for (unsigned step = 0; step < 60; ++step) {
      std::vector<unsigned> reads;
      for (unsigned i = 0; i < 3 && step > 0; ++i)
        if (unsigned read = random() % step;
            std::find(reads.begin(), reads.end(), read) == reads.end())
          reads.push_back(read);
      b.add(random() % 1000, reads, random() % 8 != 0);
    }
    MemoryOrder result = planMemoryOrder(b.graph);
    expectLegal(b.graph, result);
    std::vector<unsigned> same(b.graph.steps.size());
    for (unsigned i = 0; i < same.size(); ++i)
      same[i] = i;
    EXPECT_EQ(result.peakBefore, getPeak(b.graph, same)) << seed;
    EXPECT_EQ(result.peakAfter, getPeak(b.graph, result.order)) << seed;
    EXPECT_EQ(getOrder(planMemoryOrder(b.graph)), getOrder(result)) << seed;
  }
}

TEST(MemoryOrder, NothingAtAll) {
  MemoryOrder result = planMemoryOrder({});
  EXPECT_TRUE(result.order.empty());
  EXPECT_EQ(result.peakBefore, 0);
}

TEST(MemoryOrder, AHundredThousandSteps) {
  // Every tenth value waits for the end, so that there is always a move to try.
  Builder b;
  b.add(8, {});
  for (unsigned step = 1; step < 100000; ++step)
    b.add(step % 10 == 0 ? 64 : 8, {step - 1});
  MemoryOrder result = planMemoryOrder(b.graph);
  EXPECT_EQ(result.order.size(), 100000u);
  EXPECT_EQ(result.peakBefore, 72);
}

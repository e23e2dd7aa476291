//===- HorizontalTest.cpp - Runs horizontal kernels -----------------------===//
//
// Members of unequal sizes in one kernel: each element is written in exactly
// one unit, nothing beside the members' own bytes is touched, and the values
// are those of the members alone. All data are small integers.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include <gtest/gtest.h>

using namespace fusion::test;

namespace {

/// A member that sums the rows of a [rows, width] input. `rows` may be "?".
struct RowSum {
  std::string rows;
  int64_t width;

  std::string input() const {
    return "tensor<" + rows + "x" + std::to_string(width) + "xf32>";
  }
  std::string output() const { return "tensor<" + rows + "xf32>"; }
  int64_t rowsAt(int64_t batch) const {
    return rows == "?" ? batch : std::stoll(rows);
  }
};

std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

/// One horizontal group of the given sums.
std::string makeText(const std::vector<RowSum> &members) {
  std::vector<std::string> arguments, inputs, outputs, names, results;
  std::string body;
  for (size_t i = 0; i < members.size(); ++i) {
    std::string n = std::to_string(i), in = members[i].input(),
                out = members[i].output();
    arguments.push_back("%x" + n + ": " + in);
    inputs.push_back("%i" + n + " = %x" + n + " : " + in);
    outputs.push_back(out);
    names.push_back("%m" + n);
    results.push_back("%r#" + n);
    body += "%m" + n + " = fusion.group row_reduce (%a = %i" + n + " : " + in +
            ") -> " + out +
            " {\n  %s = fusion.reduce sum, %a dims = [1] : " + in +
            "\n  fusion.yield %s : " + out + "\n}\n";
  }
  std::string types = join(outputs);
  return "func.func @main(" + join(arguments) + ") -> (" + types +
         ") attributes {fusion.batch = array<i64: 1, 8>} {\n%r:" +
         std::to_string(members.size()) + " = fusion.group horizontal (" +
         join(inputs) + ") -> (" + types + ") {\n" + body + "fusion.yield " +
         join(names) + " : " + types + "\n}\nreturn " + join(results) + " : " +
         types + "\n}\n";
}

constexpr float kUntouched = -12345;
constexpr size_t kGuard = 64;

/// Buffers of a launch with guards around each output.
struct Buffers {
  Buffers(const std::vector<RowSum> &members, int64_t batch) {
    for (const RowSum &member : members) {
      int64_t rows = member.rowsAt(batch);
      std::vector<float> &input = inputs.emplace_back();
      for (int64_t i = 0; i < rows * member.width; ++i)
        input.push_back(static_cast<float>((i * 7 + member.width) % 11));
      outputs.emplace_back(rows + 2 * kGuard, kUntouched);
      std::vector<float> &want = expected.emplace_back();
      for (int64_t row = 0; row < rows; ++row) {
        want.push_back(0);
        for (int64_t i = 0; i < member.width; ++i)
          want.back() += input[row * member.width + i];
      }
    }
    for (size_t i = 0; i < members.size(); ++i) {
      pointers.push_back(inputs[i].data());
      pointers.push_back(outputs[i].data() + kGuard);
    }
  }

  /// How many elements differ from what they were; guards must not.
  size_t countWritten() {
    size_t written = 0;
    for (std::vector<float> &output : outputs)
      for (size_t i = 0; i < output.size(); ++i)
        if (output[i] != kUntouched) {
          EXPECT_TRUE(i >= kGuard && i + kGuard < output.size());
          ++written;
        }
    return written;
  }

  std::vector<std::vector<float>> inputs, outputs, expected;
  std::vector<void *> pointers;
};

/// The kernel that @main's group names.
std::string launchedKernel(KernelRunner &runner) {
  std::string text;
  runner.module->walk([&](mlir::Operation *op) {
    if (auto kernel = op->getAttrOfType<mlir::SymbolRefAttr>("kernel"))
      text = kernel.getLeafReference().str();
  });
  return text;
}

void expectEachOnce(const std::vector<RowSum> &members, int64_t batch) {
  KernelRunner runner(makeText(members));
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::string kernel = launchedKernel(runner);
  Buffers buffers(members, batch);
  size_t elements = 0;
  for (const auto &want : buffers.expected)
    elements += want.size();
  // Unit by unit: what one unit writes, no other does.
  std::vector<std::vector<int>> times;
  for (const auto &want : buffers.expected)
    times.emplace_back(want.size());
  int64_t units = runner.countUnits(kernel, batch);
  for (int64_t unit = 0; unit < units; ++unit) {
    Buffers fresh(members, batch);
    runner.callRange(kernel, fresh.pointers.data(), batch, unit, unit + 1);
    fresh.countWritten();
    for (size_t m = 0; m < members.size(); ++m)
      for (size_t i = 0; i < times[m].size(); ++i)
        times[m][i] += fresh.outputs[m][kGuard + i] != kUntouched;
  }
  for (size_t m = 0; m < members.size(); ++m)
    for (size_t i = 0; i < times[m].size(); ++i)
      EXPECT_EQ(times[m][i], 1) << "member " << m << ", element " << i;
  // In uneven ranges, the last one first.
  runner.call(kernel, buffers.pointers.data(), batch);
  EXPECT_EQ(buffers.countWritten(), elements);
  for (size_t m = 0; m < members.size(); ++m)
    for (size_t i = 0; i < buffers.expected[m].size(); ++i)
      EXPECT_EQ(buffers.outputs[m][kGuard + i], buffers.expected[m][i])
          << "member " << m << ", element " << i;
}

} // namespace

TEST(Horizontal, UnequalRowsAreWrittenOnce) {
  std::vector<RowSum> members;
  for (int64_t i = 0; i < 12; ++i)
    members.push_back({std::to_string(1 + i % 5), 1 + 37 * i * i});
  expectEachOnce(members, 1);
}

TEST(Horizontal, EmptyMembersAreSkipped) {
  expectEachOnce({{"0", 5}, {"3", 4}, {"2", 0}, {"0", 5}}, 1);
}

TEST(Horizontal, MembersDependOnTheBatch) {
  for (int64_t batch : {1, 3, 8})
    expectEachOnce({{"?", 5}, {"3", 300}, {"?", 70}}, batch);
}

TEST(Horizontal, EqualMembersAreRowsOfATable) {
  KernelRunner few(makeText(std::vector<RowSum>(4, {"4", 8})));
  KernelRunner many(makeText(std::vector<RowSum>(256, {"4", 8})));
  ASSERT_TRUE(few.ok() && many.ok()) << few.error() << many.error();
  EXPECT_EQ(few.numKernels(), 2u);
  EXPECT_EQ(many.numKernels(), 2u);
  // Forty bytes a member, and no code.
  EXPECT_LE(many.code().size(), few.code().size() + 252 * 40 + 4096);
  expectEachOnce(std::vector<RowSum>(20, {"2", 3}), 1);
}

TEST(Horizontal, MembersWorkInPlace) {
  std::string text = R"(
    func.func @main(%x: tensor<5xf32>, %y: tensor<40xf32>) -> (tensor<5xf32>, tensor<40xf32>) {
      %r:2 = fusion.group horizontal (%i = %x : tensor<5xf32>, %j = %y : tensor<40xf32>) -> (tensor<5xf32>, tensor<40xf32>) {
        %0 = fusion.group loop (%a = %i : tensor<5xf32>) -> tensor<5xf32> {
          %2 = fusion.add %a, %a : tensor<5xf32>
          fusion.yield %2 : tensor<5xf32>
        }
        %1 = fusion.group loop (%a = %j : tensor<40xf32>) -> tensor<40xf32> {
          %2 = fusion.add %a, %a : tensor<40xf32>
          fusion.yield %2 : tensor<40xf32>
        }
        fusion.yield %0, %1 : tensor<5xf32>, tensor<40xf32>
      }
      return %r#0, %r#1 : tensor<5xf32>, tensor<40xf32>
    })";
  KernelRunner runner(text);
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<float> x(5, 3), y(40, 7);
  for (bool inPlace : {false, true}) {
    auto results = runner.run({toBytes(x), toBytes(y)}, 1, inPlace);
    EXPECT_EQ(fromBytes<float>(results[0]), std::vector<float>(5, 6));
    EXPECT_EQ(fromBytes<float>(results[1]), std::vector<float>(40, 14));
  }
}

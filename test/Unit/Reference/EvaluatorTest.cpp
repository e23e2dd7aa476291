//===- EvaluatorTest.cpp - Groups, futures, donation, limits --------------===//
//
// What is not one op: structure, the batch, inputs that do not fit, and memory.
//
//===----------------------------------------------------------------------===//

#include "TestGraph.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/Builders.h"

#include <set>

using namespace fusion::reference;
using namespace fusion::reference::testing;

static void expectMessage(const Outcome &outcome, FailureKind kind,
                          std::initializer_list<const char *> parts) {
  EXPECT_EQ(static_cast<int>(outcome.kind), static_cast<int>(kind));
  for (const char *part : parts)
    EXPECT_NE(outcome.error.find(part), std::string::npos)
        << "'" << part << "' is not in: " << outcome.error;
}

// Every op of the dialect has a rule, or is one that the evaluator says it
// refuses: a new op without a rule fails here.
TEST(Evaluator, CoversTheDialect) {
  mlir::MLIRContext context;
  context.loadDialect<fusion::FusionDialect>();
  const std::set<std::string> refused = {
      "fusion.kernel_call",
      // Symbols and the program level.
      "fusion.parameter", "fusion.mesh", "fusion.program", "fusion.segment",
      "fusion.content", "fusion.port", "fusion.launch", "fusion.call",
      "fusion.copy", "fusion.collective", "fusion.record", "fusion.wait"};
  unsigned evaluated = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    std::string op = name.getStringRef().str();
    if (name.getDialectNamespace() != "fusion")
      continue;
    EXPECT_NE(canEvaluate(op), refused.count(op) > 0) << op;
    evaluated += canEvaluate(op);
  }
  EXPECT_GT(evaluated, 90u);
}

TEST(Evaluator, GroupsAndNestedGroups) {
  Outcome y = evaluateModule(R"(
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %a, %b = fusion.group horizontal (%p = %x : tensor<2xf32>, %q = %x : tensor<2xf32>)
          -> (tensor<2xf32>, tensor<2xf32>) {
        %0 = fusion.group loop (%m = %p : tensor<2xf32>) -> tensor<2xf32> {
          %n = fusion.neg %m : tensor<2xf32>
          fusion.yield %n : tensor<2xf32>
        }
        %1 = fusion.group loop (%m = %q : tensor<2xf32>) -> tensor<2xf32> {
          %n = fusion.add %m, %m : tensor<2xf32>
          fusion.yield %n : tensor<2xf32>
        }
        fusion.yield %0, %1 : tensor<2xf32>, tensor<2xf32>
      }
      return %a, %b : tensor<2xf32>, tensor<2xf32>
    })",
                             {f32({2}, {1, 2})});
  EXPECT_EQ(valuesOf(y[0]), (std::vector<double>{-1, -2}));
  EXPECT_EQ(valuesOf(y[1]), (std::vector<double>{2, 4}));
}

static const char *kAsync = R"(
  func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %f = fusion.async stream = 1 -> tensor<2xf32> {
      %0 = fusion.neg %x : tensor<2xf32>
      fusion.yield %0 : tensor<2xf32>
    }
    %a = fusion.await %f : !fusion.future<tensor<2xf32>>
    %b = AGAIN
    return %a, %b : tensor<2xf32>, tensor<2xf32>
  })";

static std::string asyncModule(const std::string &again) {
  std::string text = kAsync;
  return text.replace(text.find("AGAIN"), 5, again);
}

TEST(Evaluator, FuturesAreAwaitedOnce) {
  Outcome y = evaluateModule(asyncModule("fusion.add %a, %x : tensor<2xf32>"),
                             {f32({2}, {1, 2})});
  EXPECT_EQ(valuesOf(y[0]), (std::vector<double>{-1, -2}));
  EXPECT_EQ(valuesOf(y[1]), (std::vector<double>{0, 0}));
  expectMessage(
      evaluateFailing(
          asyncModule("fusion.await %f : !fusion.future<tensor<2xf32>>"),
          {f32({2}, {1, 2})}),
      FailureKind::Program, {"'fusion.await'", "awaited before"});
  expectMessage(evaluateFailing(R"(
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %f = fusion.async stream = 1 -> tensor<2xf32> {
        fusion.yield %x : tensor<2xf32>
      }
      return %x : tensor<2xf32>
    })",
                                {f32({2}, {1, 2})}),
                FailureKind::Program, {"'fusion.async'", "never awaited"});
}

static std::string donatingModule(const std::string &read,
                                  const std::string &other = "") {
  return "func.func @main(%w: tensor<2xf32> {fusion.donated = 0 : i64, "
         "fusion.name = \"weight\"}, %g: tensor<2xf32> {" +
         other +
         "}) -> (tensor<2xf32>, tensor<2xf32>) {\n"
         "  %v = fusion.reshape %w : tensor<2xf32> to tensor<2x1xf32>\n"
         "  %new = fusion.sub %w, %g : tensor<2xf32>\n" +
         read + "\n  return %new, %r : tensor<2xf32>, tensor<2xf32>\n}";
}

// The bytes are written when nothing reads them any more: who reads the
// argument behind the update, also through a view, gets its value. So does a
// compiled module.
TEST(Evaluator, DonatedArgumentsKeepTheirValue) {
  std::vector<Tensor> inputs = {f32({2}, {5, 6}), f32({2}, {1, 2})};
  for (const char *read :
       {"%r = fusion.neg %w : tensor<2xf32>",
        "%s = fusion.reshape %v : tensor<2x1xf32> to "
        "tensor<2xf32>\n%r = fusion.neg %s : tensor<2xf32>"}) {
    Outcome outcome = evaluateModule(donatingModule(read), inputs);
    EXPECT_EQ(valuesOf(outcome[0]), (std::vector<double>{4, 4}));
    EXPECT_EQ(valuesOf(outcome[1]), (std::vector<double>{-5, -6}));
  }
}

// The argument itself, behind views, and two that swap their values: a module
// copies the old values before it writes over them.
TEST(Evaluator, DonatedArgumentsMayBeOtherResults) {
  std::vector<Tensor> inputs = {f32({2}, {5, 6}), f32({2}, {1, 2})};
  Outcome outcome = evaluateModule(
      donatingModule("%r = fusion.reshape %v : tensor<2x1xf32> to "
                     "tensor<2xf32>"),
      inputs);
  EXPECT_EQ(valuesOf(outcome[0]), (std::vector<double>{4, 4}));
  EXPECT_EQ(valuesOf(outcome[1]), (std::vector<double>{5, 6}));
  Outcome swapped = evaluateModule(R"(
    func.func @main(%x: tensor<2xf32> {fusion.donated = 0 : i64}, %y: tensor<2xf32> {fusion.donated = 1 : i64}) -> (tensor<2xf32>, tensor<2xf32>) {
      return %y, %x : tensor<2xf32>, tensor<2xf32>
    })",
                                   inputs);
  EXPECT_EQ(valuesOf(swapped[0]), (std::vector<double>{1, 2}));
  EXPECT_EQ(valuesOf(swapped[1]), (std::vector<double>{5, 6}));
}

// What no compiled module can honour.
TEST(Evaluator, DonationsAreRefused) {
  std::vector<Tensor> inputs = {f32({2}, {5, 6}), f32({2}, {1, 2})};
  std::string read = "%r = fusion.neg %w : tensor<2xf32>";
  for (auto [donated, why] :
       {std::pair("2", "which does not exist"),
        std::pair("0", "which has the bytes of argument 'weight' already")})
    expectMessage(
        evaluateFailing(donatingModule(read, std::string("fusion.donated = ") +
                                                 donated + " : i64"),
                        inputs),
        FailureKind::Program, {why});
  expectMessage(evaluateFailing(R"(
    func.func @main(%x: tensor<2xf32> {fusion.donated = 0 : i64}) -> tensor<2x1xf32> {
      %r = fusion.reshape %x : tensor<2xf32> to tensor<2x1xf32>
      return %r : tensor<2x1xf32>
    })",
                                {inputs[0]}),
                FailureKind::Program, {"which has another type"});
}

TEST(Evaluator, BatchComesFromTheInputs) {
  std::string text = R"(
    func.func @main(%x: tensor<?x2xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<?xi32>)
        attributes {fusion.batch = array<i64: 1, 8>} {
      %flat = fusion.reshape %x : tensor<?x2xi32> to tensor<?xi32>
      %c = fusion.constant dense<[10, 20]> : tensor<2xi32>
      %b = fusion.broadcast %c dims = [1] {batch_scale = 1 : i64} : tensor<2xi32> to tensor<?x2xi32>
      %s = fusion.add %x, %b : tensor<?x2xi32>
      %i = fusion.iota axis = 0 {batch_scale = 2 : i64} : tensor<?xi32>
      %t = fusion.add %flat, %i : tensor<?xi32>
      return %flat, %s, %t : tensor<?xi32>, tensor<?x2xi32>, tensor<?xi32>
    })";
  Outcome y = evaluateModule(text, {i32({3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(shapeOf(y[0]), (std::vector<int64_t>{6}));
  EXPECT_EQ(intsOf(y[1]), (std::vector<int64_t>{11, 22, 13, 24, 15, 26}));
  EXPECT_EQ(intsOf(y[2]), (std::vector<int64_t>{1, 3, 5, 7, 9, 11}));
  expectMessage(
      evaluateFailing(text, {i32({9, 2}, std::vector<int64_t>(18, 0))}),
      FailureKind::Usage, {"batch 9", "1 to 8"});
}

// 2B meets B: legal types, no meaning.
TEST(Evaluator, UnlikeBatchesAreRefused) {
  expectMessage(
      evaluateFailing(R"(
    func.func @main(%x: tensor<?x2xi32>, %y: tensor<?xi32>) -> tensor<?xi32> {
      %0 = fusion.reshape %x : tensor<?x2xi32> to tensor<?xi32>
      %1 = fusion.add %0, %y : tensor<?xi32>
      return %1 : tensor<?xi32>
    })",
                      {i32({3, 2}, {1, 2, 3, 4, 5, 6}), i32({3}, {1, 2, 3})}),
      FailureKind::Program, {"'fusion.add'", "shape 3", "6"});
}

TEST(Evaluator, InputsMustFit) {
  std::string text = R"(
    func.func @main(%x: tensor<2x3xf32> {fusion.name = "image"}) -> tensor<2x3xf32> {
      return %x : tensor<2x3xf32>
    })";
  expectMessage(evaluateFailing(text, {f32({3, 2}, {1, 2, 3, 4, 5, 6})}),
                FailureKind::Usage, {"'image'", "f32 3x2", "f32 2x3"});
  expectMessage(evaluateFailing(text, {f64({2, 3}, {1, 2, 3, 4, 5, 6})}),
                FailureKind::Usage, {"'image'", "f64", "f32"});
  expectMessage(evaluateFailing(text, {}), FailureKind::Usage,
                {"takes 1 inputs, got 0"});
}

TEST(Evaluator, MemoryIsBounded) {
  std::string text = R"(
    func.func @main() -> tensor<1000000000000xf32> {
      %c = fusion.constant dense<1.0> : tensor<1000000000000xf32>
      return %c : tensor<1000000000000xf32>
    })";
  expectMessage(evaluateFailing(text, {}), FailureKind::Resources,
                {"'fusion.constant'", "1000000000000", "memory limit"});
  // Sizes that depend on the batch overflow only when it is known.
  std::string scaled = makeModule(
      "%x: tensor<?xi8>",
      "fusion.iota axis = 0 {batch_scale = 4611686018427387904 : i64} : "
      "tensor<?x8xi8>",
      "tensor<?x8xi8>");
  expectMessage(evaluateFailing(scaled, {ints(ElementKind::I8, {1}, {0})}),
                FailureKind::Resources,
                {"'fusion.iota'", "more elements than memory can address"});
  expectMessage(
      evaluateFailing(scaled, {ints(ElementKind::I8, {3}, {0, 0, 0})}),
      FailureKind::Resources, {"'fusion.iota'", "is no size"});
  Options small;
  small.memoryLimit = 100;
  std::string chain = R"(
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fusion.neg %x : tensor<4xf32>
      %1 = fusion.neg %0 : tensor<4xf32>
      %2 = fusion.neg %1 : tensor<4xf32>
      %3 = fusion.neg %2 : tensor<4xf32>
      %4 = fusion.neg %3 : tensor<4xf32>
      RETURN
    })";
  // 32 bytes each: three at a time fit only if values are freed.
  std::string freed = chain;
  freed.replace(freed.find("RETURN"), 6, "return %4 : tensor<4xf32>");
  EXPECT_EQ(valuesOf(evaluateModule(freed, {f32({4}, {1, 2, 3, 4})}, small)[0]),
            (std::vector<double>{-1, -2, -3, -4}));
  std::string kept = chain;
  kept.replace(kept.find("RETURN"), 6,
               "%5 = fusion.add %4, %0 : tensor<4xf32>\n"
               "%6 = fusion.add %5, %1 : tensor<4xf32>\n"
               "return %6 : tensor<4xf32>");
  expectMessage(evaluateFailing(kept, {f32({4}, {1, 2, 3, 4})}, small),
                FailureKind::Resources, {"memory limit"});
}

// Neither the walk nor the values recurse: 100,000 ops under any stack.
TEST(Evaluator, LongChain) {
  mlir::MLIRContext context;
  context.loadDialect<fusion::FusionDialect, mlir::func::FuncDialect>();
  mlir::OpBuilder builder(&context);
  mlir::Location loc = builder.getUnknownLoc();
  auto type = mlir::RankedTensorType::get({1}, builder.getI32Type());
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  builder.setInsertionPointToStart(module->getBody());
  auto function = mlir::func::FuncOp::create(
      builder, loc, "main", builder.getFunctionType({type}, {type}));
  mlir::Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  mlir::Value value = block->getArgument(0);
  mlir::Value one = fusion::ConstantOp::create(
      builder, loc, mlir::DenseElementsAttr::get(type, 1));
  for (int i = 0; i < 100000; ++i)
    value = fusion::AddOp::create(builder, loc, value, one);
  mlir::func::ReturnOp::create(builder, loc, value);
  auto results = evaluate(function, {i32({1}, {5})});
  ASSERT_TRUE(static_cast<bool>(results));
  EXPECT_EQ(intsOf(results->front())[0], 100005);
}

TEST(Evaluator, RefusesUserKernelsByName) {
  expectMessage(evaluateFailing(R"(
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = fusion.kernel_call "c" "scale2" "void scale2() {}" (%x) flops = 4 bytes = 32 : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    })",
                                {f32({4}, {1, 2, 3, 4})}),
                FailureKind::Program, {"'fusion.kernel_call'", "'scale2'"});
}

// Case: a cast down and up again is not nothing.
TEST(Evaluator, NarrowingCastsStay) {
  Outcome y = evaluateModule(R"(
    func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
      %0 = fusion.cast %x : tensor<1xf32> to tensor<1xbf16>
      %1 = fusion.cast %0 : tensor<1xbf16> to tensor<1xf32>
      return %1 : tensor<1xf32>
    })",
                             {f32({1}, {1.00390625})}); // 1 + 2^-8
  EXPECT_EQ(valuesOf(y[0])[0], 1);
}

// Ops inside of a group come before the group.
TEST(Evaluator, ObserverSeesEveryOp) {
  std::vector<std::string> seen;
  Options options;
  options.onResult = [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results,
                         int64_t rank) {
    EXPECT_EQ(rank, 0);
    EXPECT_EQ(results.size(), 1u);
    seen.push_back(op->getName().getStringRef().str());
  };
  evaluateModule(R"(
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %r = fusion.group loop (%a = %x : tensor<2xf32>) -> tensor<2xf32> {
        %0 = fusion.exp %a : tensor<2xf32>
        fusion.yield %0 : tensor<2xf32>
      }
      return %r : tensor<2xf32>
    })",
                 {f32({2}, {1, 2})}, options);
  EXPECT_EQ(seen, (std::vector<std::string>{"fusion.exp", "fusion.group"}));
}

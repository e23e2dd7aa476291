//===- RewriteOrder.cpp - A block in the order of a plan ------------------===//
//
// Collectives that a plan starts get an asynchronous region; what the plan
// awaits there is read from the await. Views and constants go in front of their
// first reader.
//
//===----------------------------------------------------------------------===//
#include "RewriteOrder.h"

using namespace mlir;
using namespace fusion;

namespace {

class Rewriter {
public:
  Rewriter(func::FuncOp function, const OverlapGraph &graph)
      : block(function.getBody().front()), graph(graph),
        builder(function.getContext()), asyncs(graph.size()) {}

  std::vector<AsyncOp> run(ArrayRef<OverlapItem> items);

private:
  void place(Operation *op);
  void start(unsigned node);
  void await(unsigned node);

  Block &block;
  const OverlapGraph &graph;
  OpBuilder builder;
  std::vector<AsyncOp> asyncs; ///< by node
  llvm::DenseSet<Operation *> placed;
};

} // namespace

/// Moves `op` to the end, behind the views and constants it reads.
void Rewriter::place(Operation *op) {
  SmallVector<Operation *> stack{op};
  while (!stack.empty()) {
    Operation *top = stack.back();
    size_t depth = stack.size();
    top->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        Operation *source = operand.getDefiningOp();
        if (source && source->getBlock() == &block && source != top &&
            OverlapGraph::isLazy(source) && !placed.contains(source))
          stack.push_back(source);
      }
    });
    if (stack.size() != depth)
      continue;
    stack.pop_back();
    if (placed.insert(top).second)
      top->moveBefore(block.getTerminator());
  }
}

void Rewriter::start(unsigned node) {
  Operation *op = graph[node].op;
  place(op);
  builder.setInsertionPoint(op);
  SmallVector<Type> types(op->getResultTypes());
  auto async = AsyncOp::create(builder, op->getLoc(),
                               FutureType::get(builder.getContext(), types),
                               builder.getI64IntegerAttr(graph[node].stream));
  Block &body = async.getBody().emplaceBlock();
  op->moveBefore(&body, body.end());
  // What only this one reads is awaited here.
  builder.setInsertionPoint(op);
  for (unsigned other : graph[node].before) {
    if (!graph[other].isChained)
      continue;
    Operation *source = graph[other].op;
    auto awaitOp =
        AwaitOp::create(builder, source->getLoc(), source->getResultTypes(),
                        asyncs[other].getFuture());
    Operation *yield = asyncs[other].getBody().front().getTerminator();
    source->replaceUsesWithIf(awaitOp.getValues(), [&](OpOperand &use) {
      return use.getOwner() != yield;
    });
  }
  builder.setInsertionPointToEnd(&body);
  YieldOp::create(builder, op->getLoc(), op->getResults());
  asyncs[node] = async;
}

void Rewriter::await(unsigned node) {
  Operation *op = graph[node].op;
  builder.setInsertionPoint(block.getTerminator());
  auto awaitOp = AwaitOp::create(builder, op->getLoc(), op->getResultTypes(),
                                 asyncs[node].getFuture());
  Operation *yield = asyncs[node].getBody().front().getTerminator();
  op->replaceUsesWithIf(awaitOp.getValues(), [&](OpOperand &use) {
    return use.getOwner() != yield;
  });
}

std::vector<AsyncOp> Rewriter::run(ArrayRef<OverlapItem> items) {
  for (const OverlapItem &item : items) {
    if (item.kind == OverlapItem::Start)
      start(item.node);
    else if (item.kind == OverlapItem::Await)
      await(item.node);
    else
      place(graph[item.node].op);
  }
  // What the function returns, and what nobody reads.
  SmallVector<Operation *> rest;
  for (Operation &op : block.without_terminator())
    if (OverlapGraph::isLazy(&op) && !placed.contains(&op))
      rest.push_back(&op);
  for (Operation *op : rest)
    place(op);
  return std::move(asyncs);
}

std::vector<AsyncOp> fusion::rewriteOrder(func::FuncOp function,
                                          const OverlapGraph &graph,
                                          ArrayRef<OverlapItem> items) {
  return Rewriter(function, graph).run(items);
}

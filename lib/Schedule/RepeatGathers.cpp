//===- RepeatGathers.cpp - Gather once more instead of keeping ------------===//
//
// A parameter that forward and backward read would stay gathered in between.
// Where the budget does not hold all that is kept so, the value whose next
// reader is furthest away is given up and gathered again for that reader (L. A.
// Belady, "A study of replacement algorithms", 1966).
//
//===----------------------------------------------------------------------===//
#include "PrefetchPlan.h"

#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;
using namespace fusion;

namespace {

/// Readers of a gather from `start` on get a gather of their own.
struct Repeat {
  const Gather *gather;
  unsigned start, end; ///< nodes, end exclusive
};

} // namespace

/// Decides in program order what is given up. `bound`: bytes to keep.
static std::vector<Repeat> findRepeats(const OverlapGraph &graph,
                                       ArrayRef<Gather> gathers,
                                       int64_t bound) {
  std::vector<SmallVector<unsigned, 2>> readAt(graph.size());
  for (auto [i, gather] : llvm::enumerate(gathers))
    for (unsigned reader : graph[gather.node].after)
      readAt[reader].push_back(i);
  constexpr unsigned kGone = UINT_MAX;
  std::vector<unsigned> uses(gathers.size()); // of its readers, met so far
  std::vector<unsigned> next(gathers.size(), kGone);
  std::vector<SmallVector<unsigned, 2>> starts(gathers.size());
  std::set<std::pair<unsigned, unsigned>> kept; // next reader, gather
  int64_t live = 0;
  for (unsigned id = 0; id < graph.size(); ++id) {
    for (unsigned i : readAt[id]) {
      if (next[i] == kGone) {
        starts[i].push_back(id);
        live += gathers[i].bytes;
      } else {
        kept.erase({next[i], i});
      }
    }
    while (live > bound && !kept.empty()) {
      unsigned furthest = std::prev(kept.end())->second;
      kept.erase(std::prev(kept.end()));
      next[furthest] = kGone;
      live -= gathers[furthest].bytes;
    }
    for (unsigned i : readAt[id]) {
      ArrayRef<unsigned> readers = graph[gathers[i].node].after;
      if (++uses[i] == readers.size()) {
        live -= gathers[i].bytes;
        continue;
      }
      next[i] = readers[uses[i]];
      kept.insert({next[i], i});
    }
  }
  std::vector<Repeat> repeats;
  for (auto [i, list] : llvm::enumerate(starts))
    for (size_t k = 1; k < list.size(); ++k)
      repeats.push_back({&gathers[i], list[k],
                         k + 1 < list.size() ? list[k + 1] : graph.size()});
  return repeats;
}

/// Lets `reader` read a clone instead of `gather`, through clones of the views
/// between them, which go into `views`.
static void redirect(Operation *reader, Operation *gather, Operation *clone,
                     IRMapping &mapping,
                     llvm::SmallSetVector<Operation *, 8> &views) {
  OpBuilder builder(reader);
  for (OpOperand &operand : reader->getOpOperands()) {
    SmallVector<Operation *> chain;
    Operation *op = operand.get().getDefiningOp();
    Value value = operand.get();
    while (op && OverlapGraph::isLazy(op) && op->getNumOperands() > 0) {
      chain.push_back(op);
      value = op->getOperand(
          isa<GroupOp>(op) ? cast<OpResult>(value).getResultNumber() : 0);
      op = value.getDefiningOp();
    }
    if (op != gather)
      continue;
    for (Operation *view : llvm::reverse(chain))
      if (!mapping.contains(view->getResult(0)))
        builder.clone(*view, mapping);
    operand.set(mapping.lookup(operand.get()));
    views.insert(chain.begin(), chain.end());
  }
}

/// A view that nobody reads any more would keep its gather to the end.
static void eraseUnread(ArrayRef<Operation *> views) {
  SmallVector<Operation *> order(views);
  llvm::sort(order,
             [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
  for (Operation *view : order)
    if (view->use_empty())
      view->erase();
}

unsigned fusion::repeatGathers(const OverlapGraph &graph,
                               ArrayRef<Gather> gathers, int64_t budget) {
  std::vector<int64_t> read(graph.size());
  int64_t least = 0;
  for (const Gather &gather : gathers)
    for (unsigned reader : graph[gather.node].after)
      least = std::max(least, read[reader] += gather.bytes);
  // Room to gather ahead of the next reader, if there is any.
  int64_t bound = std::max(least, budget - least);
  std::vector<Repeat> repeats = findRepeats(graph, gathers, bound);
  llvm::SmallSetVector<Operation *, 8> views;
  for (const Repeat &repeat : repeats) {
    Operation *gather = graph[repeat.gather->node].op;
    OpBuilder builder(graph[repeat.start].op);
    IRMapping mapping;
    Operation *clone = builder.clone(*gather, mapping);
    for (unsigned reader : graph[repeat.gather->node].after)
      if (reader >= repeat.start && reader < repeat.end)
        redirect(graph[reader].op, gather, clone, mapping, views);
  }
  eraseUnread(views.getArrayRef());
  return repeats.size();
}

//===- LiveBytes.cpp - Intermediate bytes alive along an order ------------===//
//
// See LiveBytes.h. One walk finds who reads what, one more the buffers. Before
// code is generated, what kernels compute in place is guessed from their kind
// and from shapes; behind it, it is known.
//
//===----------------------------------------------------------------------===//
#include "LiveBytes.h"

#include "fusion/Analysis/GroupViews.h"
#include "fusion/IR/TensorData.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Spans
//===----------------------------------------------------------------------===//

std::vector<NodeSpan> fusion::getSpans(const OverlapGraph &graph,
                                       ArrayRef<OverlapItem> items) {
  constexpr unsigned kNone = ~0u;
  std::vector<NodeSpan> spans(graph.size());
  std::vector<unsigned> awaited(graph.size(), kNone);
  for (auto [at, item] : llvm::enumerate(items)) {
    unsigned node = item.node;
    if (item.kind == OverlapItem::Await)
      awaited[node] = at;
    else
      spans[node].begin = spans[node].end = at;
    // The await of a region that was there before is a node.
    if (item.kind == OverlapItem::Run && isa<AwaitOp>(graph[node].op))
      for (unsigned region : graph[node].before)
        awaited[region] = at;
  }
  llvm::SmallDenseMap<unsigned, unsigned> ofStream;
  for (const OverlapItem &item : llvm::reverse(items)) {
    const OverlapNode &node = graph[item.node];
    if (item.kind != OverlapItem::Start &&
        !(item.kind == OverlapItem::Run && node.isRegion))
      continue;
    unsigned end = awaited[item.node];
    // Awaited in the region of the one that reads it.
    if (end == kNone)
      end = node.isChained ? spans[node.after.front()].end : items.size();
    unsigned &later = ofStream.try_emplace(node.stream, end).first->second;
    spans[item.node].end = later = std::min(later, end);
  }
  return spans;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// Makes the buffers of a graph.
class LiveBytes::Builder {
public:
  Builder(const OverlapGraph &graph, const StepPrices &prices,
          std::vector<Buffer> &buffers)
      : graph(graph), prices(prices), buffers(buffers) {}

  void run();

private:
  /// Calls for each op of a node that has values.
  void forEachOp(llvm::function_ref<void(Operation *, unsigned)> call);
  bool isView(Operation *op);
  Value baseOf(Value value);
  int64_t find(Value value) {
    auto it = bufferOf.find(baseOf(value));
    return it == bufferOf.end() ? -1 : it->second;
  }
  void touch(int64_t buffer, unsigned node) {
    SmallVectorImpl<unsigned> &nodes = buffers[buffer].nodes;
    if (nodes.empty() || nodes.back() != node)
      nodes.push_back(node);
  }
  SmallVector<int64_t> getInPlace(Operation *op) const;
  bool isReducedInPlace(Operation *op, Value operand, unsigned node);
  void findBuckets();
  void add(Operation *op, unsigned node);
  void join(Operation *pieces, unsigned node);

  const OverlapGraph &graph;
  const StepPrices &prices;
  std::vector<Buffer> &buffers;
  llvm::DenseMap<Operation *, bool> views;
  llvm::DenseMap<Value, int64_t> bufferOf; ///< by base
  llvm::DenseMap<Value, SmallVector<std::pair<unsigned, Operation *>, 2>>
      readers; ///< by base
  /// The caller's bytes; parts of a bucket, which are not computed in place.
  llvm::DenseSet<Value> returned, inBucket;
};

void LiveBytes::Builder::forEachOp(
    llvm::function_ref<void(Operation *, unsigned)> call) {
  for (unsigned node = 0; node < graph.size(); ++node) {
    Operation *op = graph[node].op;
    if (auto async = dyn_cast<AsyncOp>(op)) {
      for (Operation &inner : async.getBody().front().without_terminator())
        if (!OverlapGraph::isLazy(&inner) && !isa<AwaitOp>(inner))
          call(&inner, node);
    } else if (!isa<AwaitOp>(op) && !isView(op)) {
      call(op, node);
    }
  }
}

/// Whether the result has the bytes of the operand in its place.
bool LiveBytes::Builder::isView(Operation *op) {
  if (isa<ReshapeOp, RankSliceOp, AfterOp>(op))
    return true;
  auto group = dyn_cast<GroupOp>(op);
  if (!group || group.getKernelAttr())
    return false;
  auto [it, isNew] = views.try_emplace(op, group->hasAttr(kViewAttr));
  if (isNew && !it->second && !group->hasAttr(kPiecesAttr))
    it->second = findViewOffsets(group).has_value();
  return it->second;
}

/// The value whose bytes, or some of them, `value` has.
Value LiveBytes::Builder::baseOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (isView(op)) {
      value = op->getOperand(isa<GroupOp>(op) ? number : 0);
      continue;
    }
    auto await = dyn_cast<AwaitOp>(op);
    auto async = await ? await.getFuture().getDefiningOp<AsyncOp>() : AsyncOp();
    if (!async)
      break;
    value = async.getBody().front().getTerminator()->getOperand(number);
  }
  return value;
}

/// Pairs (output, input), of one group without members.
static void guessInPlace(GroupOp group, int64_t firstOutput, int64_t firstInput,
                         SmallVectorImpl<int64_t> &pairs) {
  if (group.getKind() != GroupKind::Loop &&
      group.getKind() != GroupKind::RowReduce)
    return;
  auto widthOf = [](RankedTensorType type) {
    return getElementBytes(type.getElementType());
  };
  for (auto [i, output] : llvm::enumerate(group.getYield().getValues()))
    for (BlockArgument argument : group.getBodyBlock()->getArguments()) {
      auto to = cast<RankedTensorType>(output.getType());
      auto from = cast<RankedTensorType>(argument.getType());
      if (to.getShape() == from.getShape() && widthOf(to) == widthOf(from))
        pairs.append({firstOutput + int64_t(i),
                      firstInput + int64_t(argument.getArgNumber())});
    }
}

SmallVector<int64_t> LiveBytes::Builder::getInPlace(Operation *op) const {
  SmallVector<int64_t> pairs;
  auto group = dyn_cast<GroupOp>(op);
  if (auto known = op->getAttrOfType<DenseI64ArrayAttr>("fusion.in_place")) {
    pairs.assign(known.asArrayRef().begin(), known.asArrayRef().end());
  } else if (group && !group.getKernelAttr() &&
             !group->hasAttr("fusion.call")) {
    int64_t firstOutput = 0, firstInput = 0;
    if (group.getKind() != GroupKind::Horizontal)
      guessInPlace(group, 0, 0, pairs);
    else
      for (auto member : group.getBodyBlock()->getOps<GroupOp>()) {
        guessInPlace(member, firstOutput, firstInput, pairs);
        firstOutput += member.getOutputs().size();
        firstInput += member.getInputs().size();
      }
  }
  return pairs;
}

/// Whether the results of `op` have the bytes of its operand: no one else reads
/// these behind it, but for other reductions, of other parts.
bool LiveBytes::Builder::isReducedInPlace(Operation *op, Value operand,
                                          unsigned node) {
  if (!isa<AllReduceOp, CollectiveBroadcastOp>(op))
    return false;
  int64_t buffer = find(operand);
  if (buffer < 0 || returned.contains(baseOf(operand)))
    return false;
  bool isPart = prices.getByteSize(operand) < buffers[buffer].bytes;
  return llvm::all_of(readers[baseOf(operand)], [&](auto &reader) {
    return reader.second == op || reader.first < node ||
           (isPart && isa<AllReduceOp>(reader.second));
  });
}

/// The parts of a bucket come one by one, and what a part is computed over may
/// be there long before; unless all take over sums that are there.
void LiveBytes::Builder::findBuckets() {
  forEachOp([&](Operation *op, unsigned) {
    if (!op->hasAttr("fusion.bucket"))
      return;
    SmallVector<Value> bases = llvm::map_to_vector(
        op->getOperands(), [&](Value operand) { return baseOf(operand); });
    if (!llvm::all_of(bases, [&](Value base) {
          Operation *producer = base.getDefiningOp();
          return producer &&
                 producer->hasAttrOfType<DenseI64ArrayAttr>("fusion.in_place");
        }))
      inBucket.insert(bases.begin(), bases.end());
  });
}

/// The operands lie in the result from the start.
void LiveBytes::Builder::join(Operation *pieces, unsigned node) {
  Value whole = pieces->getResult(0);
  Buffer joined;
  joined.bytes = returned.contains(whole) ? 0 : prices.getByteSize(whole);
  for (Value input : pieces->getOperands())
    if (int64_t buffer = find(input); buffer >= 0) {
      llvm::append_range(joined.nodes, buffers[buffer].nodes);
      buffers[buffer].bytes = 0;
    }
  joined.nodes.push_back(node);
  bufferOf[whole] = buffers.size();
  buffers.push_back(std::move(joined));
}

void LiveBytes::Builder::add(Operation *op, unsigned node) {
  for (Value operand : op->getOperands())
    if (int64_t buffer = find(operand); buffer >= 0)
      touch(buffer, node);
  if (op->hasAttr(kPiecesAttr) || isa<RankConcatOp>(op))
    return join(op, node);
  SmallVector<int64_t> pairs = getInPlace(op);
  llvm::SmallDenseSet<int64_t> taken; // by an output before
  for (OpResult result : op->getResults()) {
    if (!isa<RankedTensorType>(result.getType()))
      continue;
    unsigned number = result.getResultNumber();
    bool isReturned = returned.contains(result);
    if (!isReturned && number < op->getNumOperands() &&
        isReducedInPlace(op, op->getOperand(number), node)) {
      bufferOf[result] = find(op->getOperand(number));
      continue;
    }
    Buffer buffer;
    buffer.bytes = isReturned ? 0 : prices.getByteSize(result);
    buffer.nodes.push_back(node);
    for (size_t i = 0; i + 1 < pairs.size() && !inBucket.contains(result);
         i += 2) {
      if (pairs[i] != number || pairs[i + 1] >= op->getNumOperands())
        continue;
      int64_t over = find(op->getOperand(pairs[i + 1]));
      if (over < 0 || buffers[over].bytes != buffer.bytes ||
          !taken.insert(over).second)
        continue;
      buffer.over = over;
      break;
    }
    bufferOf[result] = buffers.size();
    buffers.push_back(std::move(buffer));
  }
}

void LiveBytes::Builder::run() {
  if (graph.size() == 0)
    return;
  for (Value value : graph[0].op->getBlock()->getTerminator()->getOperands())
    returned.insert(baseOf(value));
  forEachOp([&](Operation *op, unsigned node) {
    for (Value operand : op->getOperands())
      readers[baseOf(operand)].push_back({node, op});
  });
  findBuckets();
  forEachOp([&](Operation *op, unsigned node) { add(op, node); });
}

LiveBytes::LiveBytes(const OverlapGraph &graph, const StepPrices &prices) {
  Builder(graph, prices, buffers).run();
}

int64_t LiveBytes::getPeak(ArrayRef<NodeSpan> spans) const {
  std::vector<NodeSpan> lives;
  unsigned count = 0;
  for (const Buffer &buffer : buffers) {
    NodeSpan &life = lives.emplace_back(spans[buffer.nodes.front()]);
    for (unsigned node : buffer.nodes) {
      life.begin = std::min(life.begin, spans[node].begin);
      life.end = std::max(life.end, spans[node].end);
    }
    count = std::max(count, life.end + 1);
  }
  std::vector<int64_t> change(count + 1);
  for (auto [buffer, life] : llvm::zip_equal(buffers, lives)) {
    // Bytes that were there are counted once.
    bool isOver = buffer.over >= 0 && lives[buffer.over].end == life.begin;
    if (life.begin + isOver > life.end)
      continue;
    change[life.begin + isOver] += buffer.bytes;
    change[life.end + 1] -= buffer.bytes;
  }
  int64_t live = 0, peak = 0;
  for (int64_t each : change)
    peak = std::max(peak, live += each);
  return peak;
}

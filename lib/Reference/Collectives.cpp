//===- Collectives.cpp - Ops between ranks --------------------------------===//
//
// Every member of a group gets everybody's operands and computes its own result
// from them, in rank order: what a rank gets is a formula of what all had.
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"
#include "Scalars.h"

#include "llvm/Support/raw_ostream.h"

using namespace fusion;
using namespace fusion::reference;

namespace {
/// The ranks that an op's axes join, ascending.
struct Group {
  std::vector<int64_t> ranks;
  /// Their order: row-major over the axes as the op writes them, as places in
  /// `ranks`.
  std::vector<int64_t> order;
  int64_t position = 0; ///< of this rank in that order
};
} // namespace

/// Ranks are numbered row-major over the axes. The members are those that agree
/// with this rank on all other axes.
template <typename OpT>
static llvm::Expected<Group> getGroup(OpT op, const OpContext &context) {
  mlir::Operation *symbol =
      context.symbols ? context.symbols->lookup(op.getMesh()) : nullptr;
  auto mesh = llvm::dyn_cast_or_null<MeshOp>(symbol);
  if (!mesh)
    return failAt(op, FailureKind::Program,
                  "the module has no mesh @" + op.getMesh());
  llvm::ArrayRef<int64_t> sizes = mesh.getAxisSizes();
  int64_t total = *getNumElements(sizes);
  if (total != context.communicator->getRanks())
    return failAt(op, FailureKind::Usage,
                  "mesh @" + op.getMesh() + " has " + llvm::Twine(total) +
                      " ranks, the run has " +
                      llvm::Twine(context.communicator->getRanks()) +
                      "; run it on " + llvm::Twine(total) + " ranks");
  std::vector<bool> joined;
  for (auto name : mesh.getAxisNames().getAsRange<mlir::StringAttr>())
    joined.push_back(llvm::is_contained(op.getAxes(), name));

  Shape mine;
  int64_t rank = 0;
  forEachIndex(sizes, [&](llvm::ArrayRef<int64_t> at) {
    if (rank++ == context.rank)
      mine.assign(at.begin(), at.end());
  });
  Group group;
  rank = 0;
  forEachIndex(sizes, [&](llvm::ArrayRef<int64_t> at) {
    bool member = true;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      member &= joined[axis] || at[axis] == mine[axis];
    if (member) {
      int64_t place = 0;
      for (auto name : op.getAxes().template getAsRange<mlir::StringAttr>()) {
        size_t axis =
            llvm::find(mesh.getAxisNames(), name) - mesh.getAxisNames().begin();
        place = place * sizes[axis] + at[axis];
      }
      if (rank == context.rank)
        group.position = place;
      group.order.resize(
          std::max<size_t>(group.order.size(), static_cast<size_t>(place) + 1));
      group.order[place] = group.ranks.size();
      group.ranks.push_back(rank);
    }
    ++rank;
  });
  return group;
}

/// "fusion.all_gather dim 0 of f32 4x2, f32 4 on @m[dp, tp]".
template <typename OpT>
static std::string describe(OpT op, const llvm::Twine &detail, Tensors inputs) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << OpT::getOperationName() << " " << detail;
  llvm::StringRef separator = " of ";
  for (const Tensor &input : inputs) {
    os << separator << getName(input.getKind()) << " "
       << toString(input.getShape());
    separator = ", ";
  }
  os << " on @" << op.getMesh() << "[";
  separator = "";
  for (auto axis : op.getAxes().template getAsRange<mlir::StringAttr>()) {
    os << separator << axis.getValue();
    separator = ", ";
  }
  os << "]";
  return text;
}

/// Exchanges operands within the group, then makes each result by
/// `combine(what every member brought as this operand, place in the group)`.
template <typename OpT, typename Combine>
static Results exchange(OpT op, const llvm::Twine &detail, Tensors inputs,
                        const OpContext &context, Combine combine) {
  llvm::Expected<Group> group = getGroup(op, context);
  if (!group)
    return group.takeError();
  std::string where;
  llvm::raw_string_ostream os(where);
  if (auto file = op->getLoc()->template findInstanceOf<mlir::FileLineColLoc>())
    os << file.getFilename().getValue() << ":" << file.getLine() << ":"
       << file.getColumn();
  else
    os << op->getLoc();
  auto all = context.communicator->meet(
      context.rank, group->ranks, describe(op, detail, inputs), where, inputs);
  if (!all)
    return all.takeError();
  std::vector<Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<Tensor> operands;
    for (int64_t member : group->order)
      operands.push_back((**all)[member][i]);
    llvm::Expected<Tensor> result = combine(operands, group->position);
    if (!result)
      return result.takeError();
    results.push_back(std::move(*result));
  }
  return results;
}

//===----------------------------------------------------------------------===//
// What members do with the operands
//===----------------------------------------------------------------------===//

/// Part number `part` of `parts` equal ones along `dim`.
static llvm::Expected<Tensor> takePart(mlir::Operation *op, const Tensor &x,
                                       int64_t dim, int64_t part, int64_t parts,
                                       const OpContext &context) {
  if (x.getDim(dim) % parts != 0)
    return failAt(op, FailureKind::Program,
                  "dimension " + llvm::Twine(dim) + " of size " +
                      llvm::Twine(x.getDim(dim)) + " has no " +
                      llvm::Twine(parts) + " equal parts");
  Shape shape(x.getShape());
  shape[dim] /= parts;
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  if (!y)
    return y;
  int64_t to = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    Shape source(index);
    source[dim] += part * shape[dim];
    y->setFrom(to++, x, x.offsetOf(source));
  });
  return y;
}

/// The operands, which have one shape, one after the other along `dim`.
static llvm::Expected<Tensor> concatenate(Tensors operands, int64_t dim,
                                          const OpContext &context) {
  Shape shape(operands[0].getShape());
  int64_t size = shape[dim];
  shape[dim] *= operands.size();
  llvm::Expected<Tensor> y = context.allocate(operands[0].getKind(), shape);
  if (!y)
    return y;
  int64_t to = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    Shape source(index);
    const Tensor &operand = operands[index[dim] / size];
    source[dim] = index[dim] % size;
    y->setFrom(to++, operand, operand.offsetOf(source));
  });
  return y;
}

/// Element by element over the ranks in order; floats in f64, rounded once.
static llvm::Expected<Tensor> reduceRanks(ReduceKind kind, Tensors operands,
                                          const OpContext &context) {
  const Tensor &first = operands[0];
  llvm::Expected<Tensor> y =
      context.allocate(first.getKind(), first.getShape());
  if (!y)
    return y;
  auto combine = [kind](auto a, auto b) {
    switch (kind) {
    case ReduceKind::Max:
      return maximum(a, b);
    case ReduceKind::Min:
      return minimum(a, b);
    case ReduceKind::Prod:
      if constexpr (std::is_same_v<decltype(a), double>)
        return a * b;
      else
        return wrapMul(a, b);
    case ReduceKind::Sum:
    case ReduceKind::Mean:
      if constexpr (std::is_same_v<decltype(a), double>)
        return a + b;
      else
        return wrapAdd(a, b);
    }
    llvm_unreachable("covered above");
  };
  int64_t ranks = operands.size();
  bool mean = kind == ReduceKind::Mean;
  for (int64_t i = 0; i < y->getNumElements(); ++i) {
    if (first.isFloat()) {
      double sum = first.getFloat(i);
      for (const Tensor &operand : operands.drop_front())
        sum = combine(sum, operand.getFloat(i));
      y->setFloat(i, mean ? sum / static_cast<double>(ranks) : sum);
    } else {
      int64_t sum = first.getInt(i);
      for (const Tensor &operand : operands.drop_front())
        sum = combine(sum, operand.getInt(i));
      y->setInt(i, mean ? sum / ranks : sum);
    }
  }
  return y;
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

static llvm::Expected<Tensor> evaluateAxisIndex(AxisIndexOp op, Tensors,
                                                const OpContext &context) {
  llvm::Expected<Group> group = getGroup(op, context);
  if (!group)
    return group.takeError();
  llvm::Expected<Tensor> y = context.allocate(ElementKind::I64, {});
  if (y)
    y->setInt(0, group->position);
  return y;
}

/// Row i of the operands one after the other is row i + position * part of the
/// result, around.
static llvm::Expected<Tensor>
evaluateRankConcat(RankConcatOp op, Tensors inputs, const OpContext &context) {
  llvm::Expected<Group> group = getGroup(op, context);
  if (!group)
    return group.takeError();
  Shape shape(inputs[0].getShape());
  shape[0] = 0;
  for (const Tensor &input : inputs)
    shape[0] += input.getDim(0);
  llvm::Expected<Tensor> y = context.allocate(inputs[0].getKind(), shape);
  if (!y)
    return y;
  int64_t total = y->getNumElements();
  int64_t to = group->position * (total / int64_t(group->ranks.size()));
  for (const Tensor &input : inputs)
    for (int64_t i = 0; i < input.getNumElements(); ++i)
      y->setFrom(to++ % total, input, i);
  return y;
}

static llvm::Expected<Tensor> evaluateRankSlice(RankSliceOp op, Tensors inputs,
                                                const OpContext &context) {
  llvm::Expected<Group> group = getGroup(op, context);
  if (!group)
    return group.takeError();
  llvm::Expected<Tensor> y = context.allocate(
      inputs[0].getKind(), Shape(op.getResult().getType().getShape()));
  if (!y)
    return y;
  int64_t rowSize = 1;
  for (int64_t size : op.getResult().getType().getShape().drop_front())
    rowSize *= size;
  int64_t place = (group->position + int64_t(op.getShift())) %
                  static_cast<int64_t>(group->order.size());
  int64_t from = int64_t(op.getStart()) * rowSize + place * y->getNumElements();
  for (int64_t i = 0; i < y->getNumElements(); ++i)
    y->setFrom(i, inputs[0], from + i);
  return y;
}

static Results evaluateAllReduce(AllReduceOp op, Tensors inputs,
                                 const OpContext &context) {
  return exchange(op, stringifyReduceKind(op.getKind()), inputs, context,
                  [&](Tensors operands, int64_t) {
                    return reduceRanks(op.getKind(), operands, context);
                  });
}

static Results evaluateReduceScatter(ReduceScatterOp op, Tensors inputs,
                                     const OpContext &context) {
  return exchange(
      op,
      stringifyReduceKind(op.getKind()) + " dim " + llvm::Twine(op.getDim()),
      inputs, context,
      [&](Tensors operands, int64_t position) -> llvm::Expected<Tensor> {
        llvm::Expected<Tensor> whole =
            reduceRanks(op.getKind(), operands, context);
        if (!whole)
          return whole;
        return takePart(op, *whole, op.getDim(), position, operands.size(),
                        context);
      });
}

static Results evaluateAllGather(AllGatherOp op, Tensors inputs,
                                 const OpContext &context) {
  return exchange(op, "dim " + llvm::Twine(op.getDim()), inputs, context,
                  [&](Tensors operands, int64_t) {
                    return concatenate(operands, op.getDim(), context);
                  });
}

static Results evaluateAllToAll(AllToAllOp op, Tensors inputs,
                                const OpContext &context) {
  return exchange(
      op,
      "split_dim " + llvm::Twine(op.getSplitDim()) + " concat_dim " +
          llvm::Twine(op.getConcatDim()),
      inputs, context,
      [&](Tensors operands, int64_t position) -> llvm::Expected<Tensor> {
        std::vector<Tensor> received;
        for (const Tensor &operand : operands) {
          llvm::Expected<Tensor> part =
              takePart(op, operand, op.getSplitDim(), position, operands.size(),
                       context);
          if (!part)
            return part;
          received.push_back(std::move(*part));
        }
        return concatenate(received, op.getConcatDim(), context);
      });
}

static Results evaluateBroadcastFrom(CollectiveBroadcastOp op, Tensors inputs,
                                     const OpContext &context) {
  return exchange(op, "root " + llvm::Twine(op.getRoot()), inputs, context,
                  [&](Tensors operands, int64_t) -> llvm::Expected<Tensor> {
                    return operands[op.getRoot()];
                  });
}

static Results evaluatePermute(CollectivePermuteOp op, Tensors inputs,
                               const OpContext &context) {
  std::string pairs;
  for (auto [source, target] : llvm::zip(op.getSources(), op.getTargets()))
    pairs += (pairs.empty() ? "" : ", ") + std::to_string(source) + "->" +
             std::to_string(target);
  return exchange(
      op, pairs, inputs, context,
      [&](Tensors operands, int64_t position) -> llvm::Expected<Tensor> {
        for (auto [source, target] :
             llvm::zip(op.getSources(), op.getTargets()))
          if (target == position)
            return operands[source];
        return context.allocate(operands[0].getKind(), operands[0].getShape());
      });
}

void fusion::reference::addCollectiveRules(RuleTable &rules) {
  rules.add(evaluateAxisIndex);
  rules.add(evaluateRankConcat);
  rules.add(evaluateRankSlice);
  rules.add(evaluateAllReduce);
  rules.add(evaluateReduceScatter);
  rules.add(evaluateAllGather);
  rules.add(evaluateAllToAll);
  rules.add(evaluateBroadcastFrom);
  rules.add(evaluatePermute);
}

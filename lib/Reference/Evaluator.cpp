//===- Evaluator.cpp - One rank's walk through a function -----------------===//
//
// The loop over ops: read operands, apply the op's rule, check the results
// against their types, keep them until their last use. Futures are evaluated
// when they are started; donated arguments are poisoned when they are taken.
//
//===----------------------------------------------------------------------===//

#include "RankEvaluator.h"

using namespace fusion;
using namespace fusion::reference;

static llvm::Error locateError(mlir::Operation *op, llvm::Error error) {
  FailureKind kind;
  std::string message = takeMessage(std::move(error), kind);
  // A rule that used `failAt` has named the op already; running out of memory
  // is found deeper down.
  if (kind != FailureKind::Resources || message.find("'fusion.") == 0)
    return fail(kind, message);
  return failAt(op, kind, message);
}

/// A result must be what its type says; `?` may be any size.
static llvm::Error checkType(mlir::Operation *op, mlir::Type declared,
                             const Tensor &tensor) {
  auto type = llvm::dyn_cast<mlir::RankedTensorType>(declared);
  bool fits = type &&
              getElementKind(type.getElementType()) == tensor.getKind() &&
              type.getRank() == tensor.getRank();
  for (int64_t dim = 0; fits && dim < type.getRank(); ++dim)
    fits = type.isDynamicDim(dim) || type.getDimSize(dim) == tensor.getDim(dim);
  if (fits)
    return llvm::Error::success();
  return failAt(op, FailureKind::Program,
                "the result is " + getName(tensor.getKind()) + " " +
                    toString(tensor.getShape()) +
                    (type ? ", its type says " + toString(type.getShape())
                          : std::string(", its type is no ranked tensor")));
}

//===----------------------------------------------------------------------===//
// Donated arguments
//===----------------------------------------------------------------------===//

/// Finds, for each donated argument, the op that writes the result it is
/// donated to: behind views, and the async op behind an await.
llvm::Error RankEvaluator::findDonations(Tensors inputs) {
  mlir::Operation *terminator = function.getBody().front().getTerminator();
  for (mlir::BlockArgument argument : function.getArguments()) {
    auto index = function.getArgAttrOfType<mlir::IntegerAttr>(
        argument.getArgNumber(), FusionDialect::kDonatedAttr);
    if (!index)
      continue;
    int64_t result = index.getInt();
    std::string name = getArgumentName(function, argument.getArgNumber());
    if (result < 0 || result >= terminator->getNumOperands())
      return failAt(function, FailureKind::Program,
                    "argument '" + name + "' is donated to result " +
                        llvm::Twine(result) + ", which does not exist");
    mlir::Value value = terminator->getOperand(result);
    if (value.getType() != argument.getType())
      return failAt(function, FailureKind::Program,
                    "argument '" + name + "' is donated to result " +
                        llvm::Twine(result) + " of another type");
    while (auto view = value.getDefiningOp<ReshapeOp>())
      value = view.getInput();
    mlir::Operation *taker = value.getDefiningOp();
    if (auto await = llvm::dyn_cast_or_null<AwaitOp>(taker))
      taker = await.getFuture().getDefiningOp();
    views[argument] = argument;
    if (taker)
      takers[taker].push_back(argument);
  }
  return llvm::Error::success();
}

llvm::Error RankEvaluator::checkNotPoisoned(mlir::Operation *reader,
                                            mlir::Value value) {
  auto view = views.find(value);
  if (view == views.end())
    return llvm::Error::success();
  auto taken = poisoned.find(view->second);
  if (taken == poisoned.end())
    return llvm::Error::success();
  auto argument = llvm::cast<mlir::BlockArgument>(view->second);
  std::string what;
  llvm::raw_string_ostream os(what);
  os << "it reads argument '"
     << getArgumentName(function, argument.getArgNumber())
     << "', whose bytes were donated and written by '"
     << taken->second->getName() << "' at " << taken->second->getLoc()
     << "; read it before, or do not donate it";
  return failAt(reader, FailureKind::Program, what);
}

void RankEvaluator::poisonAfter(mlir::Operation *op) {
  auto it = takers.find(op);
  if (it == takers.end())
    return;
  for (mlir::Value argument : it->second)
    poisoned[argument] = op;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void RankEvaluator::define(mlir::Value value, Tensor tensor) {
  int64_t uses = std::distance(value.use_begin(), value.use_end());
  if (uses > 0)
    values[value] = {std::move(tensor), uses};
}

llvm::Expected<std::vector<Tensor>>
RankEvaluator::readOperands(mlir::Operation *op) {
  std::vector<Tensor> operands;
  operands.reserve(op->getNumOperands());
  for (mlir::Value operand : op->getOperands()) {
    if (llvm::Error error = checkNotPoisoned(op, operand))
      return std::move(error);
    auto it = values.find(operand);
    if (it == values.end())
      return failAt(op, FailureKind::Program, "an operand has no value");
    operands.push_back(it->second.tensor);
    if (--it->second.usesLeft == 0)
      values.erase(it);
  }
  return operands;
}

llvm::Error RankEvaluator::defineResults(mlir::Operation *op, Tensors results) {
  if (results.size() != op->getNumResults())
    return failAt(op, FailureKind::Program, "wrong number of results");
  for (auto [value, tensor] : llvm::zip_equal(op->getResults(), results)) {
    if (llvm::Error error = checkType(op, value.getType(), tensor))
      return error;
    define(value, tensor);
  }
  if (auto view = llvm::dyn_cast<ReshapeOp>(op)) {
    auto donated = views.find(view.getInput());
    if (donated != views.end()) {
      mlir::Value argument = donated->second;
      views[view.getResult()] = argument;
    }
  }
  if (options.onResult)
    options.onResult(op, results, context.rank);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Starts the region of a group or an async op.
llvm::Error RankEvaluator::enter(mlir::Operation *op) {
  mlir::Block &body = op->getRegion(0).front();
  if (llvm::isa<GroupOp>(op)) {
    llvm::Expected<std::vector<Tensor>> operands = readOperands(op);
    if (!operands)
      return operands.takeError();
    for (auto [argument, tensor] :
         llvm::zip_equal(body.getArguments(), *operands))
      define(argument, tensor);
  }
  frames.push_back({op, body.begin()});
  return llvm::Error::success();
}

/// Ends the innermost frame: `values` are the operands of its terminator.
llvm::Error RankEvaluator::leave(mlir::Operation *parent,
                                 std::vector<Tensor> results) {
  frames.pop_back();
  if (!parent) {
    returned = std::move(results);
    return llvm::Error::success();
  }
  if (auto async = llvm::dyn_cast<AsyncOp>(parent))
    futures[async.getFuture()].values = std::move(results);
  else if (llvm::Error error = defineResults(parent, results))
    return error;
  poisonAfter(parent);
  return llvm::Error::success();
}

llvm::Error RankEvaluator::await(mlir::Operation *op) {
  auto it = futures.find(op->getOperand(0));
  if (it == futures.end())
    return failAt(op, FailureKind::Program,
                  "the future was not started by a 'fusion.async'");
  if (it->second.awaitedBy) {
    std::string where;
    llvm::raw_string_ostream(where) << it->second.awaitedBy->getLoc();
    return failAt(op, FailureKind::Program,
                  "the future was awaited before, at " + where +
                      "; await it once and use the values");
  }
  it->second.awaitedBy = op;
  std::vector<Tensor> results = std::move(it->second.values);
  return defineResults(op, results);
}

llvm::Error RankEvaluator::evaluate(mlir::Operation *op) {
  if (llvm::isa<GroupOp, AsyncOp>(op))
    return enter(op);
  if (llvm::isa<AwaitOp>(op))
    return await(op);
  if (auto call = llvm::dyn_cast<KernelCallOp>(op))
    return failAt(op, FailureKind::Program,
                  "the user's kernel '" + call.getEntry() +
                      "' cannot be evaluated; replace it by ops of the "
                      "dialect");
  const RuleTable::Rule *rule = getRules().find(op->getName().getStringRef());
  if (!rule && !op->hasTrait<mlir::OpTrait::IsTerminator>())
    return failAt(op, FailureKind::Program,
                  "no op of the graph level; the evaluator takes the ops of "
                  "the fusion dialect before they are scheduled");
  llvm::Expected<std::vector<Tensor>> operands = readOperands(op);
  if (!operands)
    return operands.takeError();
  if (llvm::isa<mlir::func::ReturnOp, YieldOp>(op))
    return leave(frames.back().parent, std::move(*operands));
  if (!rule)
    return failAt(op, FailureKind::Program, "no way to end a region");
  Results results = (*rule)(op, *operands, context);
  if (!results)
    return locateError(op, results.takeError());
  if (llvm::Error error = defineResults(op, *results))
    return error;
  poisonAfter(op);
  return llvm::Error::success();
}

Results RankEvaluator::run(Tensors inputs) {
  if (llvm::Error error = findDonations(inputs))
    return std::move(error);
  for (auto [argument, tensor] :
       llvm::zip_equal(function.getArguments(), inputs))
    define(argument, tensor);
  frames.push_back({nullptr, function.getBody().front().begin()});
  while (!frames.empty()) {
    // The frame may move while the op is evaluated: step first.
    mlir::Operation *op = &*frames.back().next++;
    if (llvm::Error error = evaluate(op))
      return std::move(error);
  }
  for (auto &[value, future] : futures)
    if (!future.awaitedBy)
      return failAt(value.getDefiningOp(), FailureKind::Program,
                    "its future is never awaited; await it once");
  return std::move(returned);
}

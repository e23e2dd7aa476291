//===- Evaluator.cpp - One rank's walk through a function -----------------===//
//
// The loop over ops: read operands, apply the op's rule, check the results
// against their types, keep them until their last use. Futures are evaluated
// when they are started. Donated arguments keep their values, since a compiled
// module writes their bytes when nothing reads them any more; only donations
// that no module can honour are refused.
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

/// Refuses donations to a result that does not exist, has another type or two
/// donors.
llvm::Error RankEvaluator::checkDonations() {
  mlir::Operation *terminator = function.getBody().front().getTerminator();
  llvm::DenseMap<int64_t, unsigned> donorOf;
  for (mlir::BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto index = function.getArgAttrOfType<mlir::IntegerAttr>(
        number, FusionDialect::kDonatedAttr);
    if (!index)
      continue;
    int64_t result = index.getInt();
    auto refuse = [&](const llvm::Twine &why) {
      return failAt(function, FailureKind::Program,
                    "argument '" + getArgumentName(function, number) +
                        "' is donated to result " + llvm::Twine(result) + ", " +
                        why);
    };
    if (result < 0 || result >= terminator->getNumOperands())
      return refuse("which does not exist");
    if (terminator->getOperand(result).getType() != argument.getType())
      return refuse("which has another type");
    auto [donor, isNew] = donorOf.try_emplace(result, number);
    if (!isNew)
      return refuse("which has the bytes of argument '" +
                    getArgumentName(function, donor->second) + "' already");
  }
  return llvm::Error::success();
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
  else
    return defineResults(parent, results);
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

llvm::Error RankEvaluator::callKernel(mlir::Operation *op) {
  llvm::Expected<std::vector<Tensor>> operands = readOperands(op);
  if (!operands)
    return operands.takeError();
  llvm::Expected<std::vector<Tensor>> results =
      options.onKernelCall(op, *operands);
  if (!results)
    return locateError(op, results.takeError());
  return defineResults(op, *results);
}

llvm::Error RankEvaluator::evaluate(mlir::Operation *op) {
  if (llvm::isa<GroupOp, AsyncOp>(op))
    return enter(op);
  if (llvm::isa<AwaitOp>(op))
    return await(op);
  if (auto call = llvm::dyn_cast<KernelCallOp>(op)) {
    if (options.onKernelCall)
      return callKernel(op);
    return failAt(op, FailureKind::Program,
                  "the user's kernel '" + call.getEntry() +
                      "' cannot be evaluated; compile the model and run it "
                      "with fusion-run, or replace the kernel by ops of the "
                      "dialect");
  }
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
  return defineResults(op, *results);
}

Results RankEvaluator::run(Tensors inputs) {
  if (llvm::Error error = checkDonations())
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

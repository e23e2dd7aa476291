//===- Ranks.cpp - Runs a function on one or many ranks -------------------===//
//
// Checks inputs against the signature, gives each rank a thread, and chooses
// which of several errors to report: the cause, of the lowest rank.
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"
#include "Parameters.h"
#include "RankEvaluator.h"

#include <thread>

using namespace fusion;
using namespace fusion::reference;

static std::string getPortName(mlir::DictionaryAttr attributes,
                               llvm::StringRef fallback, unsigned index) {
  if (attributes)
    if (auto name =
            attributes.getAs<mlir::StringAttr>(FusionDialect::kNameAttr))
      return name.str();
  return (fallback + llvm::Twine(index)).str();
}

std::string fusion::reference::getArgumentName(mlir::func::FuncOp function,
                                               unsigned index) {
  return getPortName(function.getArgAttrDict(index), "arg", index);
}

std::string fusion::reference::getResultName(mlir::func::FuncOp function,
                                             unsigned index) {
  return getPortName(function.getResultAttrDict(index), "out", index);
}

bool fusion::reference::canEvaluate(llvm::StringRef opName) {
  if (opName == GroupOp::getOperationName() ||
      opName == AsyncOp::getOperationName() ||
      opName == AwaitOp::getOperationName() ||
      opName == YieldOp::getOperationName())
    return true;
  return getRules().find(opName) != nullptr;
}

llvm::Expected<int64_t>
fusion::reference::inferBatch(mlir::func::FuncOp function,
                              llvm::ArrayRef<Tensor> inputs,
                              int64_t defaultBatch) {
  if (inputs.size() != function.getNumArguments())
    return fail(FailureKind::Usage,
                "@" + function.getName() + " takes " +
                    llvm::Twine(function.getNumArguments()) + " inputs, got " +
                    llvm::Twine(inputs.size()));
  std::optional<int64_t> batch;
  std::string batchFrom;
  for (auto [i, input] : llvm::enumerate(inputs)) {
    std::string name = getArgumentName(function, i);
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(
        function.getArgument(i).getType());
    std::optional<ElementKind> kind =
        type ? getElementKind(type.getElementType()) : std::nullopt;
    if (!kind)
      return fail(FailureKind::Program, "input '" + name +
                                            "' is no ranked tensor of the "
                                            "dialect's element types");
    bool fits = *kind == input.getKind() && type.getRank() == input.getRank();
    for (int64_t dim = 0; fits && dim < type.getRank(); ++dim)
      fits =
          type.isDynamicDim(dim) || type.getDimSize(dim) == input.getDim(dim);
    if (!fits)
      return fail(FailureKind::Usage,
                  "input '" + name + "' is " + getName(input.getKind()) + " " +
                      toString(input.getShape()) + ", @" + function.getName() +
                      " takes " + getName(*kind) + " " +
                      toString(type.getShape()));
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      if (!type.isDynamicDim(dim))
        continue;
      if (batch && *batch != input.getDim(dim))
        return fail(FailureKind::Usage, "input '" + name + "' has batch " +
                                            llvm::Twine(input.getDim(dim)) +
                                            ", input '" + batchFrom + "' has " +
                                            llvm::Twine(*batch) +
                                            "; they must agree");
      batch = input.getDim(dim);
      batchFrom = name;
    }
  }
  int64_t result = batch.value_or(defaultBatch);
  auto bounds = function->getAttrOfType<mlir::DenseI64ArrayAttr>(
      FusionDialect::kBatchAttr);
  int64_t least = bounds ? bounds[0] : 1;
  int64_t most = bounds ? bounds[1] : std::numeric_limits<int64_t>::max();
  if (batch && (result < least || result > most))
    return fail(FailureKind::Usage,
                "input '" + batchFrom + "' has batch " + llvm::Twine(result) +
                    ", @" + function.getName() + " takes " +
                    llvm::Twine(least) +
                    (bounds ? " to " + llvm::Twine(most) : " or more"));
  return result;
}

/// Checks everything about one rank that needs no evaluation, and evaluates.
static Results runRank(mlir::func::FuncOp function, Tensors inputs,
                       const Options &options, OpContext context) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return fail(FailureKind::Program,
                "@" + function.getName() +
                    " has no body of one block; it cannot be evaluated");
  llvm::Expected<int64_t> batch = inferBatch(function, inputs, options.batch);
  if (!batch)
    return batch.takeError();
  context.batch = *batch;
  std::optional<mlir::SymbolTable> symbols;
  if (auto module = function->getParentOfType<mlir::ModuleOp>())
    symbols.emplace(module);
  context.symbols = symbols ? &*symbols : nullptr;
  return RankEvaluator(function, options, std::move(context)).run(inputs);
}

llvm::Expected<std::vector<std::vector<Tensor>>>
fusion::reference::evaluateRanks(llvm::ArrayRef<mlir::func::FuncOp> functions,
                                 llvm::ArrayRef<std::vector<Tensor>> inputs,
                                 const Options &options) {
  constexpr size_t kMaxRanks = 1024; // threads
  size_t ranks = functions.size();
  if (ranks == 0 || ranks > kMaxRanks || inputs.size() != ranks)
    return fail(FailureKind::Usage,
                "a run has 1 to " + llvm::Twine(kMaxRanks) +
                    " ranks, each with its inputs; got " + llvm::Twine(ranks) +
                    " ranks and inputs for " + llvm::Twine(inputs.size()));
  Communicator communicator(ranks, options.collectiveTimeout);
  ParameterStore parameters(options.moduleDirectory);
  OpContext context;
  context.memory = std::make_shared<MemoryBudget>(options.memoryLimit);
  context.communicator = &communicator;
  context.parameters = &parameters;

  std::vector<std::vector<Tensor>> results(ranks);
  std::vector<std::string> messages(ranks);
  std::vector<FailureKind> kinds(ranks, FailureKind::Program);
  std::vector<char> failed(ranks, false);
  auto runOne = [&](size_t rank) {
    OpContext own = context;
    own.rank = rank;
    Results result = runRank(functions[rank], inputs[rank], options, own);
    if (result) {
      results[rank] = std::move(*result);
      communicator.finish(rank);
    } else {
      failed[rank] = true;
      messages[rank] = takeMessage(result.takeError(), kinds[rank]);
      communicator.abort();
    }
  };
  if (ranks == 1) {
    runOne(0);
  } else {
    getRules(); // made before the threads start
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back(runOne, rank);
    for (std::thread &thread : threads)
      thread.join();
  }

  if (llvm::Error error = communicator.takeFailure())
    return std::move(error);
  for (size_t rank = 0; rank < ranks; ++rank)
    if (failed[rank] && kinds[rank] != FailureKind::PeerFailed)
      return fail(kinds[rank], ranks == 1 ? messages[rank]
                                          : "rank " + std::to_string(rank) +
                                                ": " + messages[rank]);
  return results;
}

Results fusion::reference::evaluate(mlir::func::FuncOp function,
                                    llvm::ArrayRef<Tensor> inputs,
                                    const Options &options) {
  std::vector<Tensor> copy(inputs.begin(), inputs.end());
  auto results = evaluateRanks(function, copy, options);
  if (!results)
    return results.takeError();
  return std::move(results->front());
}

//===- OpRules.h - One rule for each op -------------------------*- C++ -*-===//
//
// A rule computes the results of one op from its operands. Rules are kept in a
// table by op name; each family of ops fills in its own. A rule trusts the op's
// verifier for static shapes and checks what only runtime shapes can break.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_REFERENCE_OPRULES_H
#define FUSION_LIB_REFERENCE_OPRULES_H

#include "fusion/IR/FusionDialect.h"
#include "fusion/Reference/Tensor.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"

#include <functional>
#include <vector>

namespace fusion::reference {

class Communicator;
class ParameterStore;

using Tensors = llvm::ArrayRef<Tensor>;
using Results = llvm::Expected<std::vector<Tensor>>;

/// What a rule may ask about the run that its op is part of.
struct OpContext {
  int64_t batch = 1; ///< B
  int64_t rank = 0;
  std::shared_ptr<MemoryBudget> memory;
  Communicator *communicator = nullptr; ///< null outside of a run of ranks
  ParameterStore *parameters = nullptr; ///< null when there are none
  const mlir::SymbolTable *symbols = nullptr; ///< of the module

  llvm::Expected<Tensor> allocate(ElementKind kind,
                                  llvm::ArrayRef<int64_t> shape) const {
    return Tensor::create(kind, shape, memory);
  }
};

/// An error about `op`: its name and location, then the message.
llvm::Error failAt(mlir::Operation *op, FailureKind kind,
                   const llvm::Twine &message);

/// Fails with `Program` unless `got` equals `want`: for sizes that the types
/// leave open.
llvm::Error requireShape(mlir::Operation *op, llvm::StringRef what,
                         llvm::ArrayRef<int64_t> got,
                         llvm::ArrayRef<int64_t> want);

class RuleTable {
public:
  using Rule =
      std::function<Results(mlir::Operation *, Tensors, const OpContext &)>;

  /// The rule of an op with one result, or with any number.
  template <typename OpT>
  void add(llvm::Expected<Tensor> (*rule)(OpT, Tensors, const OpContext &)) {
    rules[OpT::getOperationName()] =
        [rule](mlir::Operation *op, Tensors inputs,
               const OpContext &context) -> Results {
      llvm::Expected<Tensor> result =
          rule(llvm::cast<OpT>(op), inputs, context);
      if (!result)
        return result.takeError();
      return std::vector<Tensor>{std::move(*result)};
    };
  }
  template <typename OpT>
  void add(Results (*rule)(OpT, Tensors, const OpContext &)) {
    rules[OpT::getOperationName()] = [rule](mlir::Operation *op, Tensors inputs,
                                            const OpContext &context) {
      return rule(llvm::cast<OpT>(op), inputs, context);
    };
  }
  void add(llvm::StringRef name, Rule rule) { rules[name] = std::move(rule); }

  /// The rule, or null.
  const Rule *find(llvm::StringRef name) const {
    auto it = rules.find(name);
    return it == rules.end() ? nullptr : &it->second;
  }

private:
  llvm::StringMap<Rule> rules;
};

/// The table of all ops, made at the first call.
const RuleTable &getRules();

void addElementwiseRules(RuleTable &rules);
void addActivationRules(RuleTable &rules);
void addSelectRules(RuleTable &rules);
void addRandomRules(RuleTable &rules);
void addShapeRules(RuleTable &rules);
void addIndexingRules(RuleTable &rules);
void addReductionRules(RuleTable &rules);
void addMatmulRules(RuleTable &rules);
void addConvRules(RuleTable &rules);
void addPoolRules(RuleTable &rules);
void addNormalizationRules(RuleTable &rules);
void addSoftmaxRules(RuleTable &rules);
void addAttentionRules(RuleTable &rules);
void addConstantRules(RuleTable &rules);
void addCollectiveRules(RuleTable &rules);

} // namespace fusion::reference

#endif // FUSION_LIB_REFERENCE_OPRULES_H

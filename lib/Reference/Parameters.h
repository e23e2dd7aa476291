//===- Parameters.h - The values of a module's parameters -------*- C++ -*-===//
#ifndef FUSION_LIB_REFERENCE_PARAMETERS_H
#define FUSION_LIB_REFERENCE_PARAMETERS_H

#include "OpRules.h"
#include "SafeTensors.h"

#include <mutex>

namespace fusion::reference {

/// A tensor with the elements of a dense, splat or resource attribute. Errors
/// are about `op`.
llvm::Expected<Tensor> readElements(mlir::Operation *op,
                                    mlir::ElementsAttr value,
                                    const OpContext &context);

/// Loads parameters; keeps the files open that it has seen. Thread safe.
class ParameterStore {
public:
  explicit ParameterStore(std::string directory)
      : directory(std::move(directory)) {}

  llvm::Expected<Tensor> load(ParameterOp parameter, const OpContext &context);

private:
  std::string directory; ///< empty: files are refused
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<SafeTensorsFile>> files;
};

} // namespace fusion::reference

#endif // FUSION_LIB_REFERENCE_PARAMETERS_H

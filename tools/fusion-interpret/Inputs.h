//===- Inputs.h - Where the arguments come from -----------------*- C++ -*-===//
#ifndef FUSION_TOOLS_FUSION_INTERPRET_INPUTS_H
#define FUSION_TOOLS_FUSION_INTERPRET_INPUTS_H

#include "fusion/Reference/Evaluator.h"

#include <map>
#include <optional>
#include <set>

namespace fusion::interpret {

/// File name, without a folder, of a tensor's .npy file: letters, digits, `.`,
/// `_` and `-` of its name stay, all else becomes `_`.
std::string getFileName(llvm::StringRef tensorName);

/// The inputs that the command line names, and how the others are made.
class Inputs {
public:
  /// `name=path`, or `name@rank=path` for one rank. Fails with `Usage`.
  llvm::Error addFile(llvm::StringRef specification);

  /// All members of an .npz file. Fails with `Usage`.
  llvm::Error addArchive(llvm::StringRef path);

  /// Files named after the inputs in a folder.
  void setDirectory(std::string path) { directory = std::move(path); }

  /// Inputs that are not named are random: floats in [-1, 1), integers in
  /// [0, 8), from Philox with this key, different for each input and rank.
  void setSeed(uint64_t value) { seed = value; }

  /// The arguments of `function` on `rank`; `batch` is the size of each `?` of
  /// a random one. Fails with `Usage`, naming the input.
  llvm::Expected<std::vector<reference::Tensor>>
  collect(mlir::func::FuncOp function, int64_t rank, int64_t batch,
          std::shared_ptr<reference::MemoryBudget> budget);

  /// Fails with `Usage` if an input was named that no rank has taken.
  llvm::Error checkAllTaken() const;

private:
  llvm::Expected<reference::Tensor>
  makeRandom(mlir::RankedTensorType type, uint32_t number, int64_t rank,
             int64_t batch, std::shared_ptr<reference::MemoryBudget> budget);

  std::map<std::string, std::string> files;   ///< name or name@rank -> path
  std::map<std::string, std::string> members; ///< name -> bytes of an .npy
  std::set<std::string> taken;
  std::string directory;
  std::optional<uint64_t> seed;
};

} // namespace fusion::interpret

#endif // FUSION_TOOLS_FUSION_INTERPRET_INPUTS_H

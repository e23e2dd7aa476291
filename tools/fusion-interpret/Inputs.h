//===- Inputs.h - Where the arguments come from -----------------*- C++ -*-===//
#ifndef FUSION_TOOLS_FUSION_INTERPRET_INPUTS_H
#define FUSION_TOOLS_FUSION_INTERPRET_INPUTS_H

#include "fusion/Reference/Evaluator.h"

#include <map>
#include <optional>
#include <set>

namespace fusion::interpret {

/// File name, without a folder, of a tensor's .npy file: its name, with what a
/// path would misread percent-encoded, as fusion-run does.
std::string getFileName(llvm::StringRef tensorName);

/// The inputs that the command line names, and how the others are made.
class Inputs {
public:
  /// `name=path`, or `name@rank=path` for one rank. Fails with `Usage`.
  llvm::Error addFile(llvm::StringRef specification);

  /// All members of an .npz file. Fails with `Usage`.
  llvm::Error addArchive(llvm::StringRef path);

  /// The files that `collect` may read for `function`.
  std::vector<std::string> getPaths(mlir::func::FuncOp function) const;

  /// Files named after the inputs in a folder.
  void setDirectory(std::string path) { directory = std::move(path); }

  /// Inputs that are not named are random: floats are the integers -4..4 (sums
  /// stay exact), integers 0..3, i1 0 or 1. They follow from the seed, the name
  /// and the rank; on rank 0 they are those of fusion-run.
  void setSeed(uint64_t value) { seed = value; }

  /// The arguments of `function` on `rank`; `batch` is the size of each `?` of
  /// a random one, 0 the largest that the function takes. Fails with `Usage`,
  /// naming the input.
  llvm::Expected<std::vector<reference::Tensor>>
  collect(mlir::func::FuncOp function, int64_t rank, int64_t batch,
          std::shared_ptr<reference::MemoryBudget> budget);

  /// Fails with `Usage` if an input was named that no rank has taken.
  llvm::Error checkAllTaken() const;

private:
  llvm::Expected<reference::Tensor>
  makeRandom(mlir::RankedTensorType type, llvm::StringRef name, int64_t rank,
             int64_t batch, std::shared_ptr<reference::MemoryBudget> budget);

  std::map<std::string, std::string> files;   ///< name or name@rank -> path
  std::map<std::string, std::string> members; ///< name -> bytes of an .npy
  std::set<std::string> taken;
  std::string directory, archive;
  std::optional<uint64_t> seed;
};

} // namespace fusion::interpret

#endif // FUSION_TOOLS_FUSION_INTERPRET_INPUTS_H

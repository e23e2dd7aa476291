//===- Observers.h - What is written down on the way ------------*- C++ -*-===//
//
// Counts of evaluations, and every op's results as files: to see how often an
// op is evaluated, and to find the first op at which two runs differ.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_TOOLS_FUSION_INTERPRET_OBSERVERS_H
#define FUSION_TOOLS_FUSION_INTERPRET_OBSERVERS_H

#include "fusion/Reference/Evaluator.h"

#include <map>
#include <mutex>

namespace fusion::interpret {

/// Number of evaluations and of result elements by op name. Thread safe.
class Counts {
public:
  void note(mlir::Operation *op, llvm::ArrayRef<reference::Tensor> results);
  void print(llvm::raw_ostream &os) const;

private:
  struct Entry {
    uint64_t evaluations = 0, elements = 0;
  };
  std::mutex mutex;
  std::map<std::string, Entry> entries;
};

/// Writes the results of every op as `NNNNNN_op.npy`, and `index.txt` with a
/// line for each: number, op, type, location. Thread safe.
class Dump {
public:
  /// With `perRank`, each rank has a folder `rankN`.
  Dump(std::string directory, bool perRank)
      : directory(std::move(directory)), perRank(perRank) {}

  void note(mlir::Operation *op, llvm::ArrayRef<reference::Tensor> results,
            int64_t rank);

  /// Writes the index; the first error of any file.
  llvm::Error finish();

private:
  std::string folderOf(int64_t rank) const;

  std::string directory;
  bool perRank;
  std::mutex mutex;
  std::map<int64_t, std::string> indexOfRank;
  std::map<int64_t, uint64_t> opsOfRank;
  std::string firstError;
};

} // namespace fusion::interpret

#endif // FUSION_TOOLS_FUSION_INTERPRET_OBSERVERS_H

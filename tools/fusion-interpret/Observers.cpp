//===- Observers.cpp - What is written down on the way --------------------===//

#include "Observers.h"

#include "fusion/Reference/Npy.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"

using namespace fusion::interpret;
using namespace fusion::reference;

void Counts::note(mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
  std::lock_guard<std::mutex> lock(mutex);
  Entry &entry = entries[op->getName().getStringRef().str()];
  ++entry.evaluations;
  for (const Tensor &result : results)
    entry.elements += result.getNumElements();
}

void Counts::print(llvm::raw_ostream &os) const {
  os << llvm::left_justify("op", 32) << " evaluations      elements\n";
  for (const auto &[name, entry] : entries)
    os << llvm::left_justify(name, 32)
       << llvm::format(" %11llu  %12llu\n",
                       static_cast<unsigned long long>(entry.evaluations),
                       static_cast<unsigned long long>(entry.elements));
}

std::string Dump::folderOf(int64_t rank) const {
  llvm::SmallString<128> folder(directory);
  if (perRank)
    llvm::sys::path::append(folder, "rank" + llvm::Twine(rank));
  return folder.str().str();
}

void Dump::note(mlir::Operation *op, llvm::ArrayRef<Tensor> results,
                int64_t rank) {
  std::string stem;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!firstError.empty())
      return;
    llvm::raw_string_ostream(stem)
        << llvm::format("%06llu_",
                        static_cast<unsigned long long>(opsOfRank[rank]++))
        << op->getName();
    llvm::raw_string_ostream index(indexOfRank[rank]);
    for (const Tensor &result : results)
      index << stem << " " << getName(result.getKind()) << " "
            << toString(result.getShape()) << " " << op->getLoc() << "\n";
  }
  std::string folder = folderOf(rank);
  std::string error;
  if (std::error_code code = llvm::sys::fs::create_directories(folder))
    error = "cannot make the folder '" + folder + "': " + code.message();
  for (size_t i = 0; error.empty() && i < results.size(); ++i) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(
        path, results.size() == 1 ? stem + ".npy"
                                  : stem + "_" + std::to_string(i) + ".npy");
    if (llvm::Error failure = writeNpy(path, results[i]))
      error = llvm::toString(std::move(failure));
  }
  if (error.empty())
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (firstError.empty())
    firstError = error;
}

llvm::Error Dump::finish() {
  for (const auto &[rank, index] : indexOfRank) {
    if (!firstError.empty())
      break;
    llvm::SmallString<128> path(folderOf(rank));
    llvm::sys::path::append(path, "index.txt");
    std::error_code error;
    llvm::raw_fd_ostream os(path, error);
    if (!error) {
      os << index;
      os.flush();
      error = os.error();
      os.clear_error();
    }
    if (error)
      firstError = ("cannot write '" + path + "': " + error.message()).str();
  }
  if (firstError.empty())
    return llvm::Error::success();
  return fail(FailureKind::Resources, firstError);
}

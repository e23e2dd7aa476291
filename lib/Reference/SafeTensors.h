//===- SafeTensors.h - Parameters in safetensors files ----------*- C++ -*-===//
//
// Reads single tensors of a file whose content is not trusted: the path stays
// inside the model's folder, the header is bounded, and every offset is checked
// against the file's size.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_REFERENCE_SAFETENSORS_H
#define FUSION_LIB_REFERENCE_SAFETENSORS_H

#include "fusion/Reference/Tensor.h"

#include <map>
#include <string>

namespace fusion::reference {

class SafeTensorsFile {
public:
  /// Opens `path`, relative to the folder `directory`; no component may be `..`
  /// or a symbolic link. Fails with `Program`.
  static llvm::Expected<std::unique_ptr<SafeTensorsFile>>
  open(llvm::StringRef directory, llvm::StringRef path);

  ~SafeTensorsFile();

  /// The tensor of that key, which must have the kind and shape given, and, if
  /// `sha256` is not empty, bytes of that hash (64 hexadecimal digits).
  llvm::Expected<Tensor> read(llvm::StringRef key, ElementKind kind,
                              llvm::ArrayRef<int64_t> shape,
                              llvm::StringRef sha256,
                              std::shared_ptr<MemoryBudget> budget) const;

private:
  struct Entry {
    std::string type;
    Shape shape;
    uint64_t begin, end; ///< bytes, from the start of the data
  };

  SafeTensorsFile(int fd, std::string name) : fd(fd), name(std::move(name)) {}
  llvm::Error readHeader();
  llvm::Error failure(const llvm::Twine &message) const;

  int fd;
  std::string name;
  uint64_t dataStart = 0, dataSize = 0;
  std::map<std::string, Entry> entries;
};

} // namespace fusion::reference

#endif // FUSION_LIB_REFERENCE_SAFETENSORS_H

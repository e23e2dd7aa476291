//===- Parameters.h - Reading the bytes of parameters -----------*- C++ -*-===//
//
// A `fusion.parameter` says where its bytes are; this reads them: an attribute,
// or a key of a safetensors file beside the module. Files are mapped, not
// copied, and everything read from one is checked before it is used.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_PARAMETERS_H
#define FUSION_IR_PARAMETERS_H

#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/TensorData.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <string>

namespace llvm {
class MemoryBuffer;
} // namespace llvm

namespace fusion {

/// Folder of the file that the module was read from, which parameters' paths
/// are relative to; `.` if the module came from a pipe or from memory. A
/// non-empty `override` wins.
std::string getParameterFolder(mlir::ModuleOp module,
                               llvm::StringRef override = "");

/// Maps `folder/path`, a regular file. `path` must be relative and stay inside
/// the folder; symbolic links are refused. `what` names the kind of file in
/// errors.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
openModelFile(llvm::StringRef folder, llvm::StringRef path,
              llvm::StringRef what);

/// The header of a mapped safetensors file, checked: each tensor lies inside
/// the file and its size is that of its type and shape.
class SafetensorsFile {
public:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    uint64_t begin; ///< First byte, from the start of the file.
    uint64_t end;   ///< One past the last byte.
  };

  /// Maps `folder/path`. `path` must be relative and stay inside the folder;
  /// symbolic links are refused. Errors name the file and the fault.
  static llvm::Expected<std::shared_ptr<const SafetensorsFile>>
  open(llvm::StringRef folder, llvm::StringRef path);
  ~SafetensorsFile();

  /// Entry of a key, or null.
  const Entry *find(llvm::StringRef key) const;
  llvm::ArrayRef<char> getBytes(const Entry &entry) const;

private:
  SafetensorsFile();
  llvm::Error parse(llvm::StringRef name);

  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::map<std::string, Entry, std::less<>> entries;
};

/// Reads parameters and constants of one module. Files stay mapped, and a
/// parameter is checked against its hash once.
class ParameterReader {
public:
  /// `folder` as from getParameterFolder.
  explicit ParameterReader(std::string folder) : folder(std::move(folder)) {}

  /// Elements of a parameter, `const` or `state`. The error names the
  /// parameter, the file and the fault.
  llvm::Expected<TensorData> read(ParameterOp parameter);

private:
  llvm::Expected<TensorData> readFile(ParameterOp parameter);

  std::string folder;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>, std::less<>>
      files;
  std::map<std::string, TensorData, std::less<>> cache;
};

/// Reads values that are known at compile time: `fusion.constant` and
/// `fusion.get_parameter` of a `const` parameter.
class ConstantReader {
public:
  ConstantReader(mlir::ModuleOp module, std::string folder);

  /// Elements of `value`, or nullopt; `reason` then says why, as a phrase
  /// to put behind the name of the value and a colon.
  std::optional<TensorData> read(mlir::Value value,
                                 std::string *reason = nullptr);

  /// Whether `value` is known, without reading any file.
  bool isConstant(mlir::Value value) const;

  /// Parameter that `value` reads, or null.
  ParameterOp getParameter(mlir::Value value) const;

  /// Makes a parameter that was added to the module known here.
  void add(ParameterOp parameter);

private:
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> parameters;
  ParameterReader reader;
};

} // namespace fusion

#endif // FUSION_IR_PARAMETERS_H

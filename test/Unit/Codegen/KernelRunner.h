//===- KernelRunner.h - Compiles and runs groups in a test ------*- C++ -*-===//
//
// A model text whose @main is groups over its arguments: compiled by the
// codegen phase, loaded into this process and called on plain buffers. Units
// are run in uneven ranges from the last to the first, so that code which
// relies on their order fails.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_TEST_UNIT_CODEGEN_KERNELRUNNER_H
#define FUSION_TEST_UNIT_CODEGEN_KERNELRUNNER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace fusion::test {

using Bytes = std::vector<uint8_t>;

template <typename T> Bytes toBytes(const std::vector<T> &values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty())
    std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T> std::vector<T> fromBytes(const Bytes &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty())
    std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class KernelRunner {
public:
  /// Compiles `text` for `cpu`. On failure `error()` says why.
  explicit KernelRunner(const std::string &text,
                        const std::string &cpu = "native");
  ~KernelRunner();
  KernelRunner(const KernelRunner &) = delete;
  KernelRunner &operator=(const KernelRunner &) = delete;

  bool ok() const { return handle != nullptr; }
  const std::string &error() const { return message; }
  size_t numKernels() const { return kernelCount; }
  const Bytes &code() const { return native; }

  /// Runs the groups of @main in order at batch `batch` and returns @main's
  /// results. With `inPlace`, outputs take the bytes of inputs where the group
  /// allows it and the input is not read again.
  std::vector<Bytes> run(const std::vector<Bytes> &inputs, int64_t batch = 1,
                         bool inPlace = false);

  /// Runs one kernel; returns its number of units.
  int64_t call(const std::string &name, void *const *buffers, int64_t batch);
  /// The units of one kernel, and units [begin, end) of it.
  int64_t countUnits(const std::string &name, int64_t batch);
  void callRange(const std::string &name, void *const *buffers, int64_t batch,
                 int64_t begin, int64_t end);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;

private:
  void *handle = nullptr;
  std::string message;
  Bytes native;
  size_t kernelCount = 0;
};

} // namespace fusion::test

#endif // FUSION_TEST_UNIT_CODEGEN_KERNELRUNNER_H

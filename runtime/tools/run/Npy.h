//===- Npy.h - Tensors in .npy and .npz files -------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_NPY_H
#define FUSION_RUNTIME_TOOLS_RUN_NPY_H

#include "ModuleData.h"
#include "Status.h"

#include <map>
#include <string>
#include <vector>

namespace fusion::rt {

/// A dense row-major tensor in memory.
///
/// `descr` strings: f8 f4 f2 i1 i4 i8 (little-endian) and b1 are the element
/// types of that name. bf16 has none in NumPy: it travels as '<u2' or '<V2',
/// 16-bit patterns.
struct Tensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

/// Parses the bytes of a .npy file (format 1.0 or 2.0). Only numeric types in C
/// or Fortran order; object arrays and anything else is refused. `name` is for
/// messages. Errors are `Usage`.
Expected<Tensor> parseNpy(const uint8_t *data, size_t size,
                          const std::string &name);

/// The bytes of a .npy file (format 1.0, C order).
std::vector<uint8_t> encodeNpy(const Tensor &tensor);

Expected<Tensor> readNpyFile(const std::string &path);

/// Reads all members `NAME.npy` of a .npz file (a zip archive; stored or
/// deflated). Errors are `Usage`.
Expected<std::map<std::string, Tensor>> readNpzFile(const std::string &path);

/// The bytes of a whole regular file. Errors: `Usage`, `Resources`.
Expected<std::vector<uint8_t>> readWholeFile(const std::string &path);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_NPY_H

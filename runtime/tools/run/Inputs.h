//===- Inputs.h - Which tensors a run gets ----------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_INPUTS_H
#define FUSION_RUNTIME_TOOLS_RUN_INPUTS_H

#include "ModuleData.h"
#include "Npy.h"
#include "Options.h"

namespace fusion::rt {

/// The inputs of one run in port order and the batch size they imply.
struct RunInputs {
  int64_t batch = 1;
  std::vector<Tensor> tensors;
  /// Of --steps, by input: its tensors from the second step on, or none.
  std::vector<std::vector<Tensor>> later;
};

/// Reads, makes and checks all inputs. Errors are `Usage` and name the input
/// with what was expected and what was given.
/// Of a program with a mesh those of `rank`: files hold tensors over all ranks,
/// or by NAME@R one rank's.
Expected<RunInputs> collectInputs(const Program &program,
                                  const RunOptions &options, uint32_t rank);

/// A tensor of this type at `batch`, filled from `seed` as --help says; the
/// same seed and name give the same values everywhere.
Tensor randomTensor(const TensorDesc &desc, int64_t batch, uint64_t seed);

/// The concrete shape at `batch`.
std::vector<int64_t> shapeAt(const std::vector<Affine> &shape, int64_t batch);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_INPUTS_H

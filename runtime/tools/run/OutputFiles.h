//===- OutputFiles.h - Where results are, and what is expected --*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_OUTPUTFILES_H
#define FUSION_RUNTIME_TOOLS_RUN_OUTPUTFILES_H

#include "ModuleData.h"
#include "Npy.h"
#include "Ranks.h"

namespace fusion::rt {

/// The file of an output: its name with everything that a path would
/// misread percent-encoded.
std::string outputFile(const std::string &tensor);

/// Where a rank's files are.
std::string rankFolder(const std::string &directory, const RankContext *rank);

/// `Usage` if it is unclear what the outputs of a job are to be compared with:
/// there are files of ranks beside one over all ranks, or of more ranks than
/// the job has. One of them is of another run. Nothing is checked if
/// `directory` is empty or there are no ranks.
Status checkExpected(const Program &program, const std::string &directory,
                     const RankContext *rank);

/// What an output is compared with: the file of the rank, or its shard of the
/// file over all ranks.
Expected<Tensor> readExpected(const Program &program, const Port &port,
                              const std::string &directory,
                              const RankContext *rank);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_OUTPUTFILES_H

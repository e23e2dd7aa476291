//===- LibraryCalls.cpp - Contractions that a CUDA library does -----------===//
//
// See LibraryCalls.h.
//
//===----------------------------------------------------------------------===//
#include "LibraryCalls.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

Expected<std::unique_ptr<CudaLibraries>> CudaLibraries::open(const Driver &) {
  return Status(Code::Environment,
                "this runtime calls no CUDA library; compile the model again");
}

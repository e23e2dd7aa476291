//===- Driver.h - One compilation from text to artifact ---------*- C++ -*-===//
//
// What fusion-compile and the C API share: parse, run the phases, build the
// module's bytes. Nothing is printed and no file is written, except a
// reproducer.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PIPELINES_DRIVER_H
#define FUSION_PIPELINES_DRIVER_H

#include "fusion/Pipelines/CommandLine.h"

#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>
#include <vector>

namespace fusion {

/// The outcome of one compilation.
struct Compilation {
  int code = 0;            ///< exit code of the command-line contract
  std::string messages;    ///< errors and warnings, as printed
  std::string explanation; ///< what --explain prints
  /// The module's bytes, or the IR's text with --stop-after.
  std::vector<uint8_t> artifact;
};

/// Compiles `source` (text or bytecode; its identifier is the path that
/// messages and the parameters' folder go by).
Compilation compile(std::unique_ptr<llvm::MemoryBuffer> source,
                    const CommandLine &line);

} // namespace fusion

#endif // FUSION_PIPELINES_DRIVER_H

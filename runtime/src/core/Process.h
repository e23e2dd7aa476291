//===- Process.h - What every tool's process owes its user ------*- C++ -*-===//
//
// Standard descriptors that are open, and temporary files that don't outlive a
// signal. Used by the tools; a library that others load calls neither.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_PROCESS_H
#define FUSION_RUNTIME_CORE_PROCESS_H

#include <string>
#include <vector>

namespace fusion::rt {

/// Makes sure descriptors 0 to 2 are open, so that no file of ours takes their
/// numbers: a closed one becomes /dev/null, read-only, so that printing to a
/// closed stdout is still an error.
void openStandardDescriptors();

/// Removes the temporary file of an atomic write that is under way in this
/// process, if there is one. For signal handlers that end the process.
void removeTemporaryFile();

/// Tells `removeTemporaryFile` the path (null: none). The text must live until
/// the next call. One write at a time is known; more are simply not.
void setTemporaryFile(const char *path);

/// The first of `outputs` that is the same file as one of `inputs`, through
/// links of either kind too, or an empty text. A path that is no file is equal
/// to none, and neither is an empty one.
std::string findOverwritten(const std::vector<std::string> &outputs,
                            const std::vector<std::string> &inputs);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_PROCESS_H

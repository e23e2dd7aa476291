//===- Process.h - What every tool's process owes its user ------*- C++ -*-===//
//
// Standard descriptors that are open, and temporary files that don't outlive a
// signal. Used by the tools; a library that others load calls neither.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_PROCESS_H
#define FUSION_RUNTIME_CORE_PROCESS_H

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

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_PROCESS_H

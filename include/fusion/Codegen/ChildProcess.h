//===- ChildProcess.h - Another program, run to its end ---------*- C++ -*-===//
#ifndef FUSION_CODEGEN_CHILDPROCESS_H
#define FUSION_CODEGEN_CHILDPROCESS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace fusion {

/// How a program ended.
struct ChildResult {
  enum Kind {
    Exited,     ///< `status` is its exit status
    Signaled,   ///< `status` is the signal that ended it
    NotStarted, ///< the file can't be executed, see `error`
    TimedOut,   ///< it ran too long and was ended
    TooMuch,    ///< it printed too much and was ended
    NoResources ///< no memory, process or descriptor, see `error`
  } kind = NotStarted;
  int status = 0;
  std::string error;
  std::string output, messages; ///< what it printed to stdout and to stderr
};

/// Runs the executable at `path` with the arguments, the first of which is its
/// name, and `input` on stdin. No shell; of the environment it gets PATH, HOME,
/// TMPDIR and LD_LIBRARY_PATH, and LC_ALL=C; its folder is `/`. It is a process
/// group of its own, which is killed when it runs longer than
/// `timeoutSeconds`. Uses no pipes and no files with names. Thread safe.
ChildResult runChild(llvm::StringRef path,
                     llvm::ArrayRef<std::string> arguments,
                     llvm::StringRef input, unsigned timeoutSeconds);

/// Kills the programs that runChild is running in this process. Async-signal
/// safe: for handlers that end the process.
void killChildren();

} // namespace fusion

#endif // FUSION_CODEGEN_CHILDPROCESS_H

//===- ToolProcess.h - How a tool's process ends ----------------*- C++ -*-===//
#ifndef FUSION_PIPELINES_TOOLPROCESS_H
#define FUSION_PIPELINES_TOOLPROCESS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/InitLLVM.h"

namespace fusion {

/// Sets up the process of a command-line tool; make one first thing in `main`.
///
/// SIGINT, SIGTERM and SIGHUP (unless ignored, as under nohup) remove a
/// temporary file that is being written, kill what runChild runs, say so on
/// stderr and exit with 128 + n at once. A closed pipe ends the tool quietly by
/// SIGPIPE; a file size limit is an error of the write. Without memory, for the
/// stack too, it ends with `Resources`, after a crash with `Internal`.
/// Descriptors 0 to 2 are open afterwards.
class ToolProcess {
public:
  ToolProcess(int &argc, char **&argv);
  ~ToolProcess();

  /// Flushes stdout and gives the exit code of a tool that did its work: 0, or
  /// `Resources` with an error on stderr if what it printed got lost.
  int finish();

private:
  /// Whether each of the stop signals was ignored before LLVM took it.
  struct Ignored {
    Ignored();
    bool flags[3];
  };
  Ignored ignored;
  llvm::InitLLVM init;
};

/// Has LLVM's command line answer `--version` with the program's name and
/// Fusion's version. A ToolProcess does so.
void setToolVersion(llvm::StringRef program);

/// Says what the calling thread does from now on, as a clause ("the pass 'x'
/// ran"), for the message of a crash; nothing if empty. Long texts are cut.
void setActivity(llvm::StringRef clause);

/// What else the message of any crash of this process says, as in "with 'a.so'
/// loaded"; nothing if empty. Long texts are cut.
void setCrashNote(llvm::StringRef note);

/// Has `hook` called with the reason before a fatal error of LLVM on this
/// thread ends the process; it need not return. Null takes it away.
void setFatalErrorHook(void (*hook)(const char *reason));

} // namespace fusion

#endif // FUSION_PIPELINES_TOOLPROCESS_H

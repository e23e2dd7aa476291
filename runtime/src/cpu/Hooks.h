//===- Hooks.h - Entries a preloaded library can see ------------*- C++ -*-===//
//
// A library given in LD_PRELOAD that defines these functions sees every kernel,
// library call and copy as it happens, so that launches can be counted by
// something that is not part of this project:
//
//   void fusion_rt_on_launch(const char *name, long long begin, long long end,
//                            int isTail);   // a kernel starts on its units
//   void fusion_rt_on_call(const char *name); // a library primitive; those of
//                                 // one command may come from several threads
//   void fusion_rt_on_copy(const char *name, long long bytes);
//   void fusion_rt_on_collective(const char *name); // from its stream's thread
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CPU_HOOKS_H
#define FUSION_RUNTIME_CPU_HOOKS_H

namespace fusion::rt {

/// The functions found; null where nobody defines one.
struct Hooks {
  void (*onLaunch)(const char *, long long, long long, int) = nullptr;
  void (*onCall)(const char *) = nullptr;
  void (*onCopy)(const char *, long long) = nullptr;
  void (*onCollective)(const char *) = nullptr;
};

/// Looks the functions up in the process.
Hooks findHooks();

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_HOOKS_H

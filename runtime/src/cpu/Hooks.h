//===- Hooks.h - Entries a preloaded library can see ------------*- C++ -*-===//
//
// Undefined weak functions: a library given in LD_PRELOAD that defines them
// sees every kernel, library call and copy as it happens, so that launches can
// be counted by something that is not part of this project.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CPU_HOOKS_H
#define FUSION_RUNTIME_CPU_HOOKS_H

extern "C" {
/// A kernel starts on units [begin, end); `isTail` if it is a call's epilogue.
__attribute__((weak, visibility("default"))) void
fusion_rt_on_launch(const char *name, long long begin, long long end,
                    int isTail);
/// A library primitive starts.
__attribute__((weak, visibility("default"))) void
fusion_rt_on_call(const char *name);
/// A copy of `bytes` starts.
__attribute__((weak, visibility("default"))) void
fusion_rt_on_copy(const char *name, long long bytes);
}

#endif // FUSION_RUNTIME_CPU_HOOKS_H

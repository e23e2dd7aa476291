//===- HostMemory.h - What memory a process can have ------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_SESSION_HOSTMEMORY_H
#define FUSION_RUNTIME_SESSION_HOSTMEMORY_H

#include <cstdint>
#include <string>

namespace fusion::rt {

/// The most bytes this process can have before the kernel kills it: memory and
/// swap of the machine, or less by a limit of its control groups (v1 or v2, its
/// own or one above). 0 if the system doesn't say. `root` stands before the
/// paths of /proc and /sys, for tests.
uint64_t hostMemoryLimit(const std::string &root = {});

} // namespace fusion::rt

#endif // FUSION_RUNTIME_SESSION_HOSTMEMORY_H

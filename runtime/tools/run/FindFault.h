//===- FindFault.h - Which command a GPU failed at --------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_FINDFAULT_H
#define FUSION_RUNTIME_TOOLS_RUN_FINDFAULT_H

#include "Status.h"

namespace fusion::rt {

/// The error `failure` of a run in which a GPU was lost, with the command that
/// it is about, if that can be found in a few seconds: a process of its own
/// does the same with --find-fault. The arguments are those of `main`.
Status findFault(int argc, char **argv, const Status &failure);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_FINDFAULT_H

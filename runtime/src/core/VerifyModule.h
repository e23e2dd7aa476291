//===- VerifyModule.h - Whether a module means something --------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CORE_VERIFYMODULE_H
#define FUSION_RUNTIME_CORE_VERIFYMODULE_H

#include "ModuleData.h"
#include "Status.h"

namespace fusion::rt {

/// Checks a whole module: names, shapes, segments, commands, library calls,
/// kernels, imports, then `verifySchedule`. `constantsSize` is the size of the
/// constants (which a `ModuleView` keeps outside the struct). Errors are
/// `BadProgram` and name the command; `Resources` if memory runs out.
Status verifyModule(const Module &module, uint64_t constantsSize);

/// Checks one library call: ranks, attributes, the relation of its shapes at
/// every batch in [minBatch, maxBatch], and that each operand is as large as
/// its shape says. `name` is the command's.
Status verifyLibraryCall(const LibraryCall &call,
                         const std::vector<Operand> &operands,
                         const std::string &name, int64_t minBatch,
                         int64_t maxBatch);

/// At most 16 axes and 1,024 ranks, distinct names.
Status verifyMesh(const Mesh &mesh);

/// The sharding and the global shape of a port of a verified mesh.
Status verifySharding(const Mesh &mesh, const Port &port, int64_t maxBatch);

/// One collective on a verified mesh: axes, dimensions, and that each operand
/// is as large as its shape says.
Status verifyCollective(const Command &command, const Mesh &mesh,
                        int64_t minBatch, int64_t maxBatch);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_VERIFYMODULE_H

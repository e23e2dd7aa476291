//===- Shards.h - Cutting tensors for ranks ---------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_SHARDS_H
#define FUSION_RUNTIME_TOOLS_RUN_SHARDS_H

#include "ModuleData.h"
#include "Npy.h"

namespace fusion::rt {

/// The shape over all ranks of a port whose local shape is `local`.
std::vector<int64_t> globalShape(const Mesh &mesh, const Port &port,
                                 const std::vector<int64_t> &local);

/// The part of a tensor over all ranks that `rank` holds; zeros where its shard
/// is padded. `Usage`: the port's sharding does not cut this shape.
Expected<Tensor> cutShard(const Mesh &mesh, const Port &port,
                          const Tensor &whole, uint32_t rank);

/// Makes zeros of the bytes of a local tensor that are padding.
void clearPadding(const Mesh &mesh, const Port &port, uint32_t rank,
                  Tensor &local);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_SHARDS_H

//===- Mesh.h - Which ranks work together -----------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CORE_MESH_H
#define FUSION_RUNTIME_CORE_MESH_H

#include "ModuleData.h"

#include <cstdint>
#include <vector>

namespace fusion::rt {

/// The ranks of a verified mesh; 1 without axes.
uint32_t rankCount(const Mesh &mesh);

/// The product of the sizes of `axes`.
uint32_t groupSize(const Mesh &mesh, const std::vector<uint32_t> &axes);

/// The number of `rank` along `axes`, row-major in the order written.
uint32_t positionOn(const Mesh &mesh, const std::vector<uint32_t> &axes,
                    uint32_t rank);

/// The ranks that agree with `rank` on all axes but `axes`, by their position.
std::vector<uint32_t> groupOf(const Mesh &mesh,
                              const std::vector<uint32_t> &axes, uint32_t rank);

/// What a rank holds of one dimension of a port: elements [start, start + size)
/// of the whole tensor, then padding up to the local size.
struct Shard {
  int64_t start = 0, size = 0, local = 0;
};

/// The shard of dimension `dim` of `port` on `rank` where the local size is
/// `local`.
Shard shardOf(const Mesh &mesh, const Port &port, size_t dim, int64_t local,
              uint32_t rank);

/// The size of dimension `dim` over all ranks.
int64_t globalSize(const Mesh &mesh, const Port &port, size_t dim,
                   int64_t local);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_MESH_H

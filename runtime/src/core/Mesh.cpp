//===- Mesh.cpp - Which ranks work together -------------------------------===//
//
// Ranks and positions are mixed-radix numbers over axes. Meshes are verified:
// at most 1,024 ranks, so nothing here wraps.
//
//===----------------------------------------------------------------------===//
#include "Mesh.h"

#include <algorithm>

using namespace fusion::rt;

uint32_t fusion::rt::rankCount(const Mesh &mesh) {
  uint32_t count = 1;
  for (const auto &axis : mesh.axes)
    count *= axis.second;
  return count;
}

uint32_t fusion::rt::groupSize(const Mesh &mesh,
                               const std::vector<uint32_t> &axes) {
  uint32_t count = 1;
  for (uint32_t axis : axes)
    count *= mesh.axes[axis].second;
  return count;
}

/// How far apart two ranks are that are neighbours on `axis`.
static uint32_t strideOf(const Mesh &mesh, uint32_t axis) {
  uint32_t stride = 1;
  for (size_t i = axis + 1; i < mesh.axes.size(); ++i)
    stride *= mesh.axes[i].second;
  return stride;
}

uint32_t fusion::rt::positionOn(const Mesh &mesh,
                                const std::vector<uint32_t> &axes,
                                uint32_t rank) {
  uint32_t position = 0;
  for (uint32_t axis : axes) {
    uint32_t size = mesh.axes[axis].second;
    position = position * size + rank / strideOf(mesh, axis) % size;
  }
  return position;
}

std::vector<uint32_t> fusion::rt::groupOf(const Mesh &mesh,
                                          const std::vector<uint32_t> &axes,
                                          uint32_t rank) {
  uint32_t first = rank;
  for (uint32_t axis : axes)
    first -= rank / strideOf(mesh, axis) % mesh.axes[axis].second *
             strideOf(mesh, axis);
  std::vector<uint32_t> ranks(groupSize(mesh, axes));
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    uint32_t rest = i, member = first;
    for (size_t a = axes.size(); a-- > 0;) {
      uint32_t size = mesh.axes[axes[a]].second;
      member += rest % size * strideOf(mesh, axes[a]);
      rest /= size;
    }
    ranks[i] = member;
  }
  return ranks;
}

int64_t fusion::rt::globalSize(const Mesh &mesh, const Port &port, size_t dim,
                               int64_t local) {
  if (dim < port.globalShape.size())
    return port.globalShape[dim];
  return dim < port.sharding.size()
             ? local * int64_t(groupSize(mesh, port.sharding[dim]))
             : local;
}

Shard fusion::rt::shardOf(const Mesh &mesh, const Port &port, size_t dim,
                          int64_t local, uint32_t rank) {
  int64_t global = globalSize(mesh, port, dim, local), position = 0;
  if (dim < port.sharding.size())
    position = positionOn(mesh, port.sharding[dim], rank);
  int64_t start = std::min(position * local, global);
  return {start, std::min(local, global - start), local};
}

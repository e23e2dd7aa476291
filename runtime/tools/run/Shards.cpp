//===- Shards.cpp - Cutting tensors for ranks -----------------------------===//
//
// Row by row: the last dimension is copied at once.
//
//===----------------------------------------------------------------------===//
#include "Shards.h"
#include "Checked.h"
#include "Mesh.h"
#include "Text.h"

#include <cstring>

using namespace fusion::rt;

std::vector<int64_t>
fusion::rt::globalShape(const Mesh &mesh, const Port &port,
                        const std::vector<int64_t> &local) {
  std::vector<int64_t> shape;
  for (size_t d = 0; d < local.size(); ++d)
    shape.push_back(globalSize(mesh, port, d, local[d]));
  return shape;
}

static std::string sizesText(const std::vector<int64_t> &sizes) {
  std::vector<Affine> dims;
  for (int64_t size : sizes)
    dims.push_back({0, size});
  return shapeText(dims);
}

/// Calls `visit(offset in local, offset in whole, elements)` for each row of
/// the shard; scalars are one row.
template <typename Visit>
static void forRows(const std::vector<Shard> &shards,
                    const std::vector<int64_t> &whole, Visit visit) {
  size_t rank = shards.size();
  if (rank == 0)
    return visit(0, 0, 1);
  for (const Shard &shard : shards)
    if (shard.size == 0)
      return;
  std::vector<int64_t> index(rank);
  while (true) {
    int64_t local = 0, global = 0;
    for (size_t d = 0; d < rank; ++d) {
      local = local * shards[d].local + index[d];
      global = global * whole[d] + shards[d].start + index[d];
    }
    visit(local, global, shards[rank - 1].size);
    size_t d = rank - 1;
    while (d-- > 0) {
      if (++index[d] < shards[d].size)
        break;
      index[d] = 0;
    }
    if (d == size_t(-1))
      return;
  }
}

Expected<Tensor> fusion::rt::cutShard(const Mesh &mesh, const Port &port,
                                      const Tensor &whole, uint32_t rank) {
  size_t dims = port.tensor.shape.size();
  auto misfit = [&] {
    std::string wanted;
    if (!port.globalShape.empty())
      wanted = ", expected " + sizesText(port.globalShape) + " over all ranks";
    return Status(Code::Usage, "'" + escape(port.tensor.name) + "': shape " +
                                   sizesText(whole.shape) +
                                   " can't be cut in shards of " +
                                   shapeText(port.tensor.shape) + wanted);
  };
  if (whole.shape.size() != dims)
    return misfit();
  std::vector<Shard> shards;
  Tensor local;
  local.dtype = whole.dtype;
  for (size_t d = 0; d < dims; ++d) {
    int64_t parts = d < port.sharding.size()
                        ? int64_t(groupSize(mesh, port.sharding[d]))
                        : 1;
    int64_t size;
    if (!port.globalShape.empty()) {
      if (whole.shape[d] != port.globalShape[d])
        return misfit();
      size = port.tensor.shape[d].base;
    } else {
      if (whole.shape[d] % parts != 0)
        return misfit();
      size = whole.shape[d] / parts;
    }
    local.shape.push_back(size);
    shards.push_back(shardOf(mesh, port, d, size, rank));
  }
  std::vector<Affine> sizes;
  for (int64_t size : local.shape)
    sizes.push_back({0, size});
  auto bytes = byteCount(sizes, local.dtype, 1);
  if (!bytes)
    return misfit();
  uint64_t width = elementSize(local.dtype);
  local.bytes.resize(*bytes);
  forRows(shards, whole.shape, [&](int64_t to, int64_t from, int64_t count) {
    std::memcpy(&local.bytes[uint64_t(to) * width],
                &whole.bytes[uint64_t(from) * width], uint64_t(count) * width);
  });
  return local;
}

void fusion::rt::clearPadding(const Mesh &mesh, const Port &port, uint32_t rank,
                              Tensor &local) {
  if (port.globalShape.empty())
    return;
  std::vector<Shard> shards;
  for (size_t d = 0; d < local.shape.size(); ++d)
    shards.push_back(shardOf(mesh, port, d, local.shape[d], rank));
  uint64_t width = elementSize(local.dtype);
  std::vector<uint8_t> kept(local.bytes.size());
  forRows(shards, port.globalShape, [&](int64_t to, int64_t, int64_t count) {
    std::memcpy(&kept[uint64_t(to) * width], &local.bytes[uint64_t(to) * width],
                uint64_t(count) * width);
  });
  local.bytes = std::move(kept);
}

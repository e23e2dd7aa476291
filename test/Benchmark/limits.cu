//===- limits.cu - What one hand-written launch reaches -------------------===//
//
// The kernels that bound the rows of fusion-bench, and those that measure a device
// for its file: copies, independent adds and LayerNorms in one launch, chains of
// multiply-adds, a launch that waits for the one before. Written by hand for
// sm_80 and up, with 16-byte accesses, and launched through the driver from the
// cubin (fusion_compiler/bench/limits.py knows names, parameters and grids).
//
//   nvcc -cubin -arch=sm_90 -O3 -o limits.cubin limits.cu
//
//===----------------------------------------------------------------------===//
#include <cuda_bf16.h>
#include <stdint.h>

constexpr int kThreads = 256;
constexpr int kMembers = 16;

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// A block copies 4 * kThreads vectors; all four loads of a thread are in flight.
extern "C" __global__ void __launch_bounds__(kThreads)
    copy_blocks(const uint4 *in, uint4 *out, int64_t vectors) {
  int64_t first = int64_t(blockIdx.x) * 4 * kThreads + threadIdx.x;
  uint4 held[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * kThreads < vectors)
      held[i] = __ldcs(in + first + i * kThreads);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * kThreads < vectors)
      __stcs(out + first + i * kThreads, held[i]);
}

/// The blocks there are walk over all vectors: how many units fill the memory?
extern "C" __global__ void __launch_bounds__(1024)
    copy_units(const uint4 *in, uint4 *out, int64_t vectors) {
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    uint4 a = in[i], b = in[i + stride];
    uint4 c = in[i + 2 * stride], d = in[i + 3 * stride];
    out[i] = a;
    out[i + stride] = b;
    out[i + 2 * stride] = c;
    out[i + 3 * stride] = d;
  }
  for (; i < vectors; i += stride)
    out[i] = in[i];
}

//===----------------------------------------------------------------------===//
// Independent adds: a row of blocks a member
//===----------------------------------------------------------------------===//

struct AddTable {
  const float4 *a[kMembers], *b[kMembers];
  float4 *out[kMembers];
};

extern "C" __global__ void __launch_bounds__(kThreads)
    add_members(const __grid_constant__ AddTable table, int64_t vectors) {
  int member = blockIdx.y;
  const float4 *a = table.a[member], *b = table.b[member];
  float4 *out = table.out[member];
  int64_t first = int64_t(blockIdx.x) * 2 * kThreads + threadIdx.x;
  float4 x[2], y[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (first + i * kThreads < vectors) {
      x[i] = __ldcs(a + first + i * kThreads);
      y[i] = __ldcs(b + first + i * kThreads);
    }
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (first + i * kThreads < vectors)
      __stcs(out + first + i * kThreads,
             make_float4(x[i].x + y[i].x, x[i].y + y[i].y, x[i].z + y[i].z,
                         x[i].w + y[i].w));
}

//===----------------------------------------------------------------------===//
// Independent LayerNorms of bf16 rows
//===----------------------------------------------------------------------===//

struct NormTable {
  const uint4 *in[kMembers], *scale[kMembers], *bias[kMembers];
  uint4 *out[kMembers];
};

static __device__ float2 unpack(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&pair));
}

static __device__ uint32_t pack(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t *>(&pair);
}

/// The sum over `Team` threads, which lie together; every thread gets it.
template <int Team> static __device__ float sumOfTeam(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  if constexpr (Team > 32) {
    __shared__ float parts[kThreads / 32];
    __syncthreads(); // the last sum has been read
    if (threadIdx.x % 32 == 0)
      parts[threadIdx.x / 32] = value;
    __syncthreads();
    const float *team = parts + threadIdx.x / Team * (Team / 32);
    value = 0;
#pragma unroll
    for (int i = 0; i < Team / 32; ++i)
      value += team[i];
  }
  return value;
}

/// `Team` threads hold a row of Team * Vectors * 8 numbers in registers, scale and
/// bias for all of their rows; the next row is on its way while one is reduced.
template <int Vectors, int Team>
static __device__ void normRows(const NormTable &table, int rows) {
  constexpr int kTeams = kThreads / Team;
  constexpr int kWidth = Vectors * Team;
  int member = blockIdx.y, lane = threadIdx.x % Team;
  const uint4 *in = table.in[member] + lane;
  uint4 *out = table.out[member] + lane;
  uint4 scale[Vectors], bias[Vectors], held[Vectors], next[Vectors];
  int row = blockIdx.x * kTeams + threadIdx.x / Team;
  auto load = [&](int at) {
    if (at < rows)
#pragma unroll
      for (int i = 0; i < Vectors; ++i)
        next[i] = __ldcs(in + int64_t(at) * kWidth + i * Team);
  };
#pragma unroll
  for (int i = 0; i < Vectors; ++i)
    next[i] = make_uint4(0, 0, 0, 0);
  load(row);
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    scale[i] = table.scale[member][lane + i * Team];
    bias[i] = table.bias[member][lane + i * Team];
  }
  // All teams of a block take as many turns: sums have barriers.
  int step = gridDim.x * kTeams;
  for (int first = blockIdx.x * kTeams; first < rows; first += step) {
#pragma unroll
    for (int i = 0; i < Vectors; ++i)
      held[i] = next[i];
    load(row + step);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      float2 a = unpack(held[i].x), b = unpack(held[i].y);
      float2 c = unpack(held[i].z), d = unpack(held[i].w);
      sum += ((a.x + a.y) + (b.x + b.y)) + ((c.x + c.y) + (d.x + d.y));
    }
    float mean = sumOfTeam<Team>(sum) / (kWidth * 8), squares = 0;
    auto square = [&](uint32_t pair) {
      float2 x = unpack(pair);
      squares += (x.x - mean) * (x.x - mean) + (x.y - mean) * (x.y - mean);
    };
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      square(held[i].x);
      square(held[i].y);
      square(held[i].z);
      square(held[i].w);
    }
    float factor =
        rsqrtf(sumOfTeam<Team>(squares) / (kWidth * 8) + 1e-5f);
    auto norm = [&](uint32_t pair, uint32_t by, uint32_t plus) {
      float2 x = unpack(pair), s = unpack(by), b = unpack(plus);
      return pack((x.x - mean) * factor * s.x + b.x,
                  (x.y - mean) * factor * s.y + b.y);
    };
    if (row < rows)
#pragma unroll
      for (int i = 0; i < Vectors; ++i) {
        uint4 y;
        y.x = norm(held[i].x, scale[i].x, bias[i].x);
        y.y = norm(held[i].y, scale[i].y, bias[i].y);
        y.z = norm(held[i].z, scale[i].z, bias[i].z);
        y.w = norm(held[i].w, scale[i].w, bias[i].w);
        __stcs(out + int64_t(row) * kWidth + i * Team, y);
      }
    row += step;
  }
}

#define NORM_KERNEL(VECTORS, TEAM)                                             \
  extern "C" __global__ void __launch_bounds__(kThreads)                       \
      norm_##VECTORS##x##TEAM(const __grid_constant__ NormTable table,         \
                              int rows) {                                      \
    normRows<VECTORS, TEAM>(table, rows);                                      \
  }
NORM_KERNEL(3, 32)  // rows of 768
NORM_KERNEL(4, 32)  // rows of 1024
NORM_KERNEL(2, 64)  // rows of 1024
NORM_KERNEL(4, 128) // rows of 4096
NORM_KERNEL(2, 256) // rows of 4096

//===----------------------------------------------------------------------===//
// Figures of a device
//===----------------------------------------------------------------------===//

/// Nothing but a launch.
extern "C" __global__ void empty() {}

/// One read and one write that the next launch depends on.
extern "C" __global__ void increment(int *counter) {
  if (threadIdx.x == 0 && blockIdx.x == 0)
    *counter += 1;
}

/// 8 * 2 * turns operations a thread, in eight independent chains.
template <typename T> static __device__ void multiplyAdd(T *out, int turns) {
  T sums[8], by = T(0.999), plus = T(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    sums[i] = T(i);
#pragma unroll 8
  for (int turn = 0; turn < turns; ++turn)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      sums[i] = fma(sums[i], by, plus);
  T total = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    total += sums[i];
  if (total == T(-1)) // never: the sums must not be dropped
    out[0] = total;
}
extern "C" __global__ void __launch_bounds__(kThreads)
    multiply_add_f32(float *out, int turns) {
  multiplyAdd(out, turns);
}
extern "C" __global__ void __launch_bounds__(kThreads)
    multiply_add_f64(double *out, int turns) {
  multiplyAdd(out, turns);
}

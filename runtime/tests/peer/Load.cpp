//===- Load.cpp - Matmuls to run beside collectives -----------------------===//
#include "Load.h"

#include <cstdio>

using namespace fusion::rt;
using namespace fusion::rt::test;

Load::Load(const DeviceRank &device, int64_t m, int64_t n, int64_t k)
    : device(device) {
  auto opened = CudaLibraries::open(device.driver);
  if (!opened)
    return;
  libraries = std::move(*opened);
  LibraryCall product;
  product.op = LibraryOp::MatMul;
  product.dtype = DType::BF16;
  product.inputShape = {{0, m}, {0, k}};
  product.weightShape = {{0, k}, {0, n}};
  product.outputShape = {{0, m}, {0, n}};
  auto planned = libraries->plan(product, 1);
  if (!planned) {
    std::fprintf(stderr, "note: no load: %s\n",
                 planned.status().message().c_str());
    return;
  }
  call = std::move(*planned);
  // Random bits of moderate size: zeros would let the clocks rise.
  std::vector<uint16_t> values(size_t(std::max(m, n) * std::max(k, n)));
  uint32_t state = 1;
  for (uint16_t &value : values) {
    state = state * 1664525 + 1013904223;
    value = uint16_t(0x3f00 | (state >> 31 << 15) | (state >> 20 & 0xff));
  }
  for (int64_t size : {m * k, k * n, m * n}) {
    memory.push_back(device.allocate(uint64_t(size) * 2));
    device.upload(memory.back(), values.data(), uint64_t(size) * 2);
  }
  memory.push_back(device.allocate(call->workspace() + 256));
}

Load::~Load() {
  call.reset();
  libraries.reset();
  for (char *each : memory)
    device.driver.memFree(deviceAddress(each));
}

void Load::enqueue(CUstream stream) {
  if (!call)
    return;
  void *operands[] = {memory[0], memory[1], memory[2]};
  mustBe(call->enqueue(stream, operands, memory[3]), "matmul");
}

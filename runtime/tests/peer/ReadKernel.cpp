//===- ReadKernel.cpp - A kernel that reads where it is told --------------===//
#include "ReadKernel.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::test;

static constexpr unsigned kThreads = 512, kMostBlocks = 1024;

/// Each thread takes every so many loads: $-signs stand for what differs.
static const char *const kPtx = R"(//
.version 7.0
.target sm_70
.address_size 64
.visible .entry fusion_peer_read$NAME(.param .u64 to, .param .u64 from, .param .u64 count)
{
  .reg .pred %p;
  .reg .b32 %thread, %block, %size, %grid, %a, %b, %c, %d;
  .reg .b64 %to, %from, %count, %index, %step, %offset, %at;
  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  ld.param.u64 %count, [count];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %grid, %nctaid.x;
  mul.wide.u32 %index, %block, %size;
  cvt.u64.u32 %offset, %thread;
  add.u64 %index, %index, %offset;
  mul.wide.u32 %step, %grid, %size;
NEXT:
  setp.ge.u64 %p, %index, %count;
  @%p bra LEAVE;
  shl.b64 %offset, %index, $SHIFT;
  add.u64 %at, %from, %offset;
  ld.global.nc$TYPE $VALUE, [%at];
  add.u64 %at, %to, %offset;
  st.global$TYPE [%at], $VALUE;
  add.u64 %index, %index, %step;
  bra NEXT;
LEAVE:
  ret;
}
)";

ReadKernel::ReadKernel(const DeviceRank &device, bool vectors)
    : device(device), width(vectors ? 16 : 4) {
  std::string text = kPtx;
  auto set = [&](const std::string &name, const std::string &value) {
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, name.size(), value);
  };
  set("$NAME", vectors ? "4" : "");
  set("$SHIFT", vectors ? "4" : "2");
  set("$TYPE", vectors ? ".v4.u32" : ".u32");
  set("$VALUE", vectors ? "{%a, %b, %c, %d}" : "%a");
  device.check(
      device.driver.moduleLoad(&module, text.c_str(), 0, nullptr, nullptr),
      "cuModuleLoadDataEx");
  device.check(device.driver.moduleGetFunction(&function, module,
                                               vectors ? "fusion_peer_read4"
                                                       : "fusion_peer_read"),
               "cuModuleGetFunction");
}

ReadKernel::~ReadKernel() { device.driver.moduleUnload(module); }

void ReadKernel::enqueue(char *to, const char *from, uint64_t bytes,
                         CUstream stream) const {
  uint64_t count = bytes / width;
  void *parameters[] = {&to, &from, &count};
  auto blocks = unsigned(
      std::min<uint64_t>(kMostBlocks, (count + kThreads - 1) / kThreads));
  CUlaunchConfig config{blocks, 1, 1, kThreads, 1, 1, 0, stream, nullptr, 0};
  if (count > 0)
    device.check(
        device.driver.launchKernelEx(&config, function, parameters, nullptr),
        "cuLaunchKernelEx");
}

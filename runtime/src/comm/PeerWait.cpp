//===- PeerWait.cpp - Waiting by a kernel that spins ----------------------===//
#include "PeerWait.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;
using namespace fusion::rt::peer;

/// A thread a word; those without a bit leave. The load acquires at the scope
/// of the system: another GPU writes the word after the bytes it speaks of.
static const char *const kPtx = R"(//
.version 7.0
.target sm_70
.address_size 64
.visible .entry fusion_peer_wait(.param .u64 words, .param .u64 mask)
{
  .reg .pred %p;
  .reg .b32 %lane, %value;
  .reg .b64 %base, %bits, %offset;
  ld.param.u64 %base, [words];
  ld.param.u64 %bits, [mask];
  cvta.to.global.u64 %base, %base;
  mov.u32 %lane, %tid.x;
  shr.u64 %bits, %bits, %lane;
  and.b64 %bits, %bits, 1;
  setp.eq.u64 %p, %bits, 0;
  @%p bra LEAVE;
  mul.wide.u32 %offset, %lane, 4;
  add.s64 %base, %base, %offset;
SPIN:
  ld.acquire.sys.global.u32 %value, [%base];
  setp.ne.u32 %p, %value, 1;
  @%p bra SPIN;
  st.relaxed.sys.global.u32 [%base], 0;
LEAVE:
  ret;
}
)";

Expected<std::unique_ptr<SpinKernel>> SpinKernel::load(const Driver &driver) {
  std::unique_ptr<SpinKernel> kernel(new SpinKernel(driver));
  FUSION_RT_TRY(
      kernel->code.load(kPtx, "fusion_peer_wait", "the kernel that waits"));
  return kernel;
}

Status SpinKernel::enqueue(CUdeviceptr words, uint64_t mask,
                           CUstream stream) const {
  void *parameters[] = {&words, &mask};
  CUlaunchConfig config{1, 1, 1, 64, 1, 1, 0, stream, nullptr, 0};
  return driver.check(
      driver.launchKernelEx(&config, code.get(), parameters, nullptr),
      "cuLaunchKernelEx of the kernel that waits");
}

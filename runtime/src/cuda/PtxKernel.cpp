//===- PtxKernel.cpp - A kernel of the runtime's own ----------------------===//
#include "PtxKernel.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

Status PtxKernel::load(const char *ptx, const char *name, const char *what) {
  CUresult loaded = driver.moduleLoad(&module, ptx, 0, nullptr, nullptr);
  if (loaded != kSuccess)
    module = nullptr; // what a failed call leaves there is no module
  FUSION_RT_TRY(driver.check(
      loaded, (std::string("cuModuleLoadDataEx of ") + what).c_str()));
  return driver.check(driver.moduleGetFunction(&function, module, name),
                      "cuModuleGetFunction");
}

PtxKernel::~PtxKernel() {
  if (module)
    driver.moduleUnload(module);
}

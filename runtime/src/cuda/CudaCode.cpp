//===- CudaCode.cpp - The kernels of a module, on a GPU -------------------===//
//
// Machine code where it fits the GPU, else the PTX beside it, which the driver
// compiles.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"
#include "Text.h"

#include <cstdlib>
#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

Status CudaExecutor::loadKernels() {
  const Module &module = view.module;
  if (module.kernels.empty())
    return {};
  int major = 0, minor = 0;
  FUSION_RT_TRY(
      driver->check(driver->deviceGetAttribute(&major, kAttributeMajor, device),
                    "cuDeviceGetAttribute"));
  FUSION_RT_TRY(
      driver->check(driver->deviceGetAttribute(&minor, kAttributeMinor, device),
                    "cuDeviceGetAttribute"));
  int wanted = std::atoi(module.target.c_str() + std::strlen("cuda:sm_"));
  int have = major * 10 + minor;
  char name[256] = "";
  driver->deviceGetName(name, sizeof(name), device);
  std::string what =
      "'" + std::string(name) + "' (sm_" + std::to_string(have) + ")";
  if (have < wanted)
    return Status(Code::Environment, "the module is for " + module.target +
                                         ", the GPU is an older " + what +
                                         "; compile with --target=cuda:sm_" +
                                         std::to_string(have));
  // Machine code runs on its own generation; for a later one the driver
  // compiles the PTX.
  bool fits = !module.deviceCode.empty() && have / 10 == wanted / 10;
  CUresult result;
  if (fits) {
    result = driver->moduleLoad(&code, module.deviceCode.data(), 0, nullptr,
                                nullptr);
    fits = result != kErrorNoBinary;
    if (fits)
      FUSION_RT_TRY(driver->check(result, "cuModuleLoadDataEx"));
  }
  if (!fits) {
    std::string text(module.ptx.begin(), module.ptx.end());
    std::vector<char> log(8192);
    int keys[] = {5, 6}; // error log buffer, its size
    void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
    result = driver->moduleLoad(&code, text.c_str(), 2, keys, values);
    if (result == kErrorPtxVersion)
      return Status(Code::Environment,
                    "the module's PTX is newer than the driver, which supports "
                    "CUDA " +
                        versionText(driver->version) +
                        "; update the driver, or compile with a ptxas for " +
                        what);
    if (result != kSuccess)
      return Status(Code::Environment,
                    "the driver can't compile the module's PTX for " + what +
                        ": " + driver->describe(result) + ": " +
                        escape(log.data(), 1000) +
                        "; update the driver, or compile for this GPU");
  }
  for (const Kernel &kernel : module.kernels) {
    CUfunction function = nullptr;
    result = driver->moduleGetFunction(&function, code, kernel.symbol.c_str());
    if (result != kSuccess)
      return Status(Code::Rejected, "the device code has no kernel '" +
                                        escape(kernel.symbol) +
                                        "'; compile the model again");
    functions.push_back(function);
  }
  return {};
}

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

/// "8.0" of ".version 8.0"; "?" if PTX does not say.
static std::string ptxVersion(const std::string &text) {
  const char key[] = "\n.version ";
  size_t at = text.find(key);
  if (at == std::string::npos)
    return "?";
  at += std::strlen(key);
  return escape(
      text.substr(at, text.find_first_not_of("0123456789.", at) - at));
}

Status CudaExecutor::loadPtx(const std::string &gpu) {
  std::string text(view.module.ptx.begin(), view.module.ptx.end());
  std::vector<char> log(8192);
  int keys[] = {5, 6}; // error log buffer, its size
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  CUresult result = driver->moduleLoad(&code, text.c_str(), 2, keys, values);
  if (result == kErrorPtxVersion)
    return Status(Code::Environment,
                  "the module's PTX is of version " + ptxVersion(text) +
                      ", newer than the driver, which supports CUDA " +
                      versionText(driver->version) +
                      "; update the driver, or compile with a ptxas for " +
                      gpu);
  if (result == kErrorNoBinary || result == kErrorInvalidPtx)
    return Status(Code::Rejected,
                  "the driver can't compile the module's PTX for " + gpu +
                      ": " + driver->describe(result) + ": " +
                      escape(log.data(), 1000) +
                      "; compile the model for this GPU");
  return driver->check(result, "compiling the module's PTX");
}

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
    return Status(
        Code::Rejected,
        "the module has sm_" + std::to_string(wanted) + ", the GPU is " + what +
            "; compile with --target=cuda:sm_" + std::to_string(have));
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
    FUSION_RT_TRY(loadPtx(what));
  }
  for (const Kernel &kernel : module.kernels) {
    CUfunction function = nullptr;
    result = driver->moduleGetFunction(&function, code, kernel.symbol.c_str());
    if (result == kErrorNotFound)
      return Status(Code::Rejected, "the device code has no kernel '" +
                                        escape(kernel.symbol) +
                                        "'; compile the model again");
    FUSION_RT_TRY(driver->check(result, "cuModuleGetFunction"));
    functions.push_back(function);
  }
  return {};
}

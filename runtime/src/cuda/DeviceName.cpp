//===- DeviceName.cpp - Which GPU a rank has ------------------------------===//
//
// Two ranks must not have one GPU, whatever numbers they know it by.
//
//===----------------------------------------------------------------------===//
#include "DeviceCommunicator.h"
#include "Driver.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

Expected<std::string> fusion::rt::deviceName(int device) {
  auto driver = Driver::open();
  if (!driver)
    return driver.status();
  int count = 0;
  FUSION_RT_TRY(
      (*driver)->check((*driver)->deviceGetCount(&count), "cuDeviceGetCount"));
  if (device < 0 || device >= count)
    return Status(Code::Usage,
                  "there is no GPU " + std::to_string(device) +
                      " for this rank, the driver shows " +
                      std::to_string(count) +
                      ", from 0 on; give fewer ranks, or name each one's GPU "
                      "with --device");
  CUdevice handle = 0;
  CUuuid uuid{};
  FUSION_RT_TRY(
      (*driver)->check((*driver)->deviceGet(&handle, device), "cuDeviceGet"));
  FUSION_RT_TRY((*driver)->check((*driver)->deviceGetUuid(&uuid, handle),
                                 "cuDeviceGetUuid"));
  // As nvidia-smi -L has it.
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", uuid.bytes[i]);
    text += (i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "");
    text += digits;
  }
  return text;
}

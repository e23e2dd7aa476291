//===- DnnApi.cpp - The entries of cuDNN's graph API ----------------------===//
//
// See DnnApi.h.
//
//===----------------------------------------------------------------------===//
#include "DnnApi.h"

#include "SharedLibrary.h"

#include <utility>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

static Status load(DnnApi &api) {
  auto library = openShared("cuDNN 9", {"libcudnn.so.9"});
  if (!library)
    return library.status();
#define FUSION_DNN_LOAD(name, symbol, ...)                                     \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(*library, symbol));    \
  if (!api.name)                                                               \
    return Status(Code::Environment,                                           \
                  "libcudnn.so.9 has no " symbol "; install cuDNN 9 again");
  FUSION_DNN_ENTRIES(FUSION_DNN_LOAD)
#undef FUSION_DNN_LOAD
  api.errorString = reinterpret_cast<decltype(api.errorString)>(
      dlsym(*library, "cudnnGetErrorString"));
  api.version = reinterpret_cast<decltype(api.version)>(
      dlsym(*library, "cudnnGetVersion"));
  return {};
}

Expected<const DnnApi *> DnnApi::open() {
  struct Opened {
    DnnApi api;
    Status status;
    Opened() : status(load(api)) {}
  };
  static Opened opened;
  if (!opened.status.ok())
    return opened.status;
  return static_cast<const DnnApi *>(&opened.api);
}

Status DnnApi::check(int status, const char *entry) const {
  if (status == 0)
    return {};
  // 3000 to 3999: not supported; 4003 and 4004: no memory of host or device.
  const char *text = errorString ? errorString(status) : nullptr;
  return Status(status / 1000 == 3                 ? Code::Rejected
                : status == 4003 || status == 4004 ? Code::Resources
                                                   : Code::Environment,
                std::string(entry) + " failed: " +
                    (text ? text : "status " + std::to_string(status)));
}

DnnObject::DnnObject(const DnnApi &api, DnnKind kind) : api(&api) {
  error = api.check(api.createDescriptor(int(kind), &descriptor),
                    "cudnnBackendCreateDescriptor");
}

DnnObject &DnnObject::operator=(DnnObject &&other) {
  std::swap(api, other.api);
  std::swap(descriptor, other.descriptor);
  std::swap(error, other.error);
  return *this;
}

DnnObject::~DnnObject() {
  if (descriptor)
    api->destroyDescriptor(descriptor);
}

void DnnObject::set(int attribute, int type, int64_t count,
                    const void *values) {
  if (!error.ok())
    return;
  error = api->check(api->set(descriptor, attribute, type, count, values),
                     "cudnnBackendSetAttribute");
  if (!error.ok())
    error = Status(error.code(), error.message() + " (attribute " +
                                     std::to_string(attribute) + ")");
}

Status DnnObject::finish() {
  FUSION_RT_TRY(error);
  return api->check(api->finalize(descriptor), "cudnnBackendFinalize");
}

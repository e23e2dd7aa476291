//===- Dnn.cpp - The handle of cuDNN --------------------------------------===//
//
// See Dnn.h. What is planned with it has files of its own.
//
//===----------------------------------------------------------------------===//
#include "Dnn.h"

#include "DnnApi.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

Expected<std::unique_ptr<Dnn>> Dnn::open() {
  auto api = DnnApi::open();
  if (!api)
    return api.status();
  std::unique_ptr<Dnn> result(new Dnn);
  result->api = *api;
  FUSION_RT_TRY((*api)->check((*api)->create(&result->handle), "cudnnCreate"));
  return result;
}

Dnn::~Dnn() {
  if (handle)
    api->destroy(handle);
}

//===- SideStreams.cpp - Parallel branches of one stream's work -----------===//
//
// See SideStreams.h.
//
//===----------------------------------------------------------------------===//
#include "SideStreams.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

SideStreams::~SideStreams() {
  for (CUevent event : events)
    driver.eventDestroy(event);
  for (CUstream stream : streams)
    driver.streamDestroy(stream);
}

Status SideStreams::reserve(size_t branches) {
  while (branches > 1 && events.size() < branches) {
    CUevent event = nullptr;
    FUSION_RT_TRY(driver.check(driver.eventCreate(&event, kEventDisableTiming),
                               "cuEventCreate"));
    events.push_back(event);
  }
  while (streams.size() + 1 < branches) {
    CUstream stream = nullptr;
    FUSION_RT_TRY(driver.check(driver.streamCreate(&stream, kStreamNonBlocking),
                               "cuStreamCreate"));
    streams.push_back(stream);
  }
  return {};
}

Status SideStreams::fork(CUstream stream, size_t branches) {
  if (branches < 2)
    return {};
  FUSION_RT_TRY(
      driver.check(driver.eventRecord(events[0], stream), "cuEventRecord"));
  for (size_t i = 1; i < branches; ++i)
    FUSION_RT_TRY(
        driver.check(driver.streamWaitEvent(streams[i - 1], events[0], 0),
                     "cuStreamWaitEvent"));
  return {};
}

Status SideStreams::join(CUstream stream, size_t branches) {
  for (size_t i = 1; i < branches; ++i) {
    FUSION_RT_TRY(driver.check(driver.eventRecord(events[i], streams[i - 1]),
                               "cuEventRecord"));
    FUSION_RT_TRY(driver.check(driver.streamWaitEvent(stream, events[i], 0),
                               "cuStreamWaitEvent"));
  }
  return {};
}

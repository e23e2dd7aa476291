//===- Streams.cpp - A thread for each further stream ---------------------===//
//
// One lock for all: streams meet at collectives, a few times a millisecond.
//
//===----------------------------------------------------------------------===//
#include "Streams.h"

#include <chrono>
#include <new>
#include <pthread.h>

using namespace fusion::rt;

Streams::Streams(uint32_t streams, uint32_t events) : recorded(events) {
  for (uint32_t stream = 1; stream < streams; ++stream)
    threads.emplace_back([this, stream] { work(stream); });
}

Streams::~Streams() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void Streams::finish(const Status &status) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!status.ok() && !failed) {
    failed = true;
    first = status;
  }
  --running;
  changed.notify_all();
}

/// Other exceptions end the process: nothing here throws them.
static Status callBody(const std::function<Status(uint32_t)> &body,
                       uint32_t stream) {
  try {
    return body(stream);
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources,
                  "out of memory on stream " + std::to_string(stream));
  }
}

void Streams::work(uint32_t stream) {
  std::string name = "stream " + std::to_string(stream);
  pthread_setname_np(pthread_self(), name.c_str());
  uint64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ending || generation != seen; });
    if (ending)
      return;
    seen = generation;
    lock.unlock();
    finish(callBody(*body, stream));
    lock.lock();
  }
}

Status Streams::run(const std::function<Status(uint32_t)> &newBody) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    recorded.assign(recorded.size(), 0);
    failed = false;
    first = Status();
    body = &newBody;
    running = uint32_t(threads.size()) + 1;
    ++generation;
  }
  changed.notify_all();
  finish(callBody(newBody, 0));
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return running == 0; });
  return first;
}

void Streams::record(uint32_t event) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ++recorded[event];
  }
  changed.notify_all();
}

Status Streams::wait(uint32_t event, uint32_t times,
                     const volatile std::sig_atomic_t *stop) {
  std::unique_lock<std::mutex> lock(mutex);
  auto isOver = [&] { return failed || recorded[event] >= times; };
  while (!isOver()) {
    if (stop && *stop)
      return Status(Code::Internal, "interrupted");
    changed.wait_for(lock, std::chrono::milliseconds(50), isOver);
  }
  return failed ? Status(Code::Internal, "another stream failed") : Status();
}

//===- FakeDevice.cpp - The device behind the tests' driver ---------------===//
//
// See FakeDevice.h, and FakeCuda.h for what the tests ask of it.
//
//===----------------------------------------------------------------------===//
#include "FakeDevice.h"
#include "FakeCuda.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

State &test::state() {
  static State *shared = [] {
    auto *made = new State; // outlives every static of the process
    const char *text = std::getenv("FUSION_FAKE_CUDA");
    std::istringstream words(text ? text : "");
    for (std::string word; std::getline(words, word, ',');) {
      std::string key = word.substr(0, word.find('='));
      int64_t value = std::atoll(word.c_str() + word.find('=') + 1);
      if (key.compare(0, 2, "cu") == 0)
        made->failures[key] = {0, int(value)};
      else
        made->settings[key] = value;
    }
    made->isStrict = text != nullptr;
    if (made->settings["hang"])
      std::atexit([] { // the real one's exit waits too
        while (state().isHung)
          sleep(1);
      });
    return made;
  }();
  return *shared;
}

thread_local std::vector<CUcontext> fusion::rt::test::pushed;

CUcontext test::theContext() { return reinterpret_cast<CUcontext>(0x1000); }

CUresult test::enter(const char *entry, bool needsContext) {
  State &fake = state();
  ++fake.counts[entry];
  ++fake.counts["all"];
  auto failure = fake.failures.find(entry);
  if (failure != fake.failures.end() && failure->second.first-- == 0) {
    CUresult result = failure->second.second;
    fake.failures.erase(failure);
    if (result >= 700 && result < 720)
      fake.isLost = fake.isTold = true;
    return result;
  }
  if (needsContext && pushed.empty())
    return kInvalidContext;
  if (!fake.isLost || !needsContext)
    return kSuccess;
  if (fake.isTold && fake.isStrict)
    std::abort();
  fake.isTold = true;
  return kIllegalAddress;
}

bool test::drain() {
  State &fake = state();
  while (!fake.isHung && !fake.pending.empty()) {
    CUresult result = fake.pending.front().act();
    if (result == kErrorNotReady)
      return false;
    fake.pending.pop_front();
    if (result != kSuccess)
      fake.isLost = true; // found when somebody waits
  }
  return !fake.isHung;
}

void test::waitForDevice() {
  while (!drain())
    usleep(1000);
}

Allocation *test::find(CUdeviceptr address, uint64_t size, uint64_t &offset) {
  State &fake = state();
  auto next = fake.memory.upper_bound(address);
  if (next == fake.memory.begin())
    return nullptr;
  --next;
  offset = address - next->first;
  uint64_t all = next->second.size;
  return offset <= all && size <= all - offset ? &next->second : nullptr;
}

char *test::bytesAt(CUdeviceptr address, uint64_t size) {
  uint64_t offset = 0;
  Allocation *memory = find(address, size, offset);
  if (!memory)
    state().isLost = true;
  return memory ? memory->bytes.get() + offset : nullptr;
}

CUresult test::submit(CUstream stream, Step step) {
  State &fake = state();
  if (stream && !fake.streams.count(stream))
    return 400; // invalid handle
  Capture *capture = fake.capture.get();
  if (capture && capture->clocks.count(stream)) {
    ++capture->clocks[stream][stream];
    step.after = capture->last[stream];
    capture->steps.push_back(std::move(step));
    capture->last[stream] = {
        reinterpret_cast<CUgraphNode>(capture->steps.size())};
    return kSuccess;
  }
  CUresult result =
      drain() || fake.pending.empty() ? step.act() : kErrorNotReady;
  if (result != kErrorNotReady)
    return result;
  fake.pending.push_back(std::move(step));
  return kSuccess;
}

bool test::invalidates(CUstream stream) {
  Capture *capture = state().capture.get();
  if (!capture || !capture->clocks.count(stream))
    return false;
  capture->isInvalid = true;
  return true;
}

CUresult test::copyBytes(CUdeviceptr target, CUdeviceptr source,
                         uint64_t size) {
  char *to = bytesAt(target, size), *from = bytesAt(source, size);
  if (!to || !from)
    return kIllegalAddress;
  // A word that another process waits for is written once: the library stores
  // four bytes twice, and the second time after the other has set it back.
  uint32_t word;
  if (size == sizeof(word) && target % sizeof(word) == 0) {
    std::memcpy(&word, from, sizeof(word));
    storeWord(to, word);
  } else {
    std::memmove(to, from, size);
  }
  return kSuccess;
}

CUresult test::copyRows(const CUcopy2D &copy) {
  if (copy.sourceType != kMemory2DDevice ||
      copy.targetType != kMemory2DDevice || copy.sourcePitch < copy.width ||
      copy.targetPitch < copy.width || copy.sourceX || copy.sourceY ||
      copy.targetX || copy.targetY)
    return kInvalidValue;
  for (size_t row = 0; row < copy.height; ++row)
    if (CUresult result =
            copyBytes(copy.target + row * copy.targetPitch,
                      copy.source + row * copy.sourcePitch, copy.width))
      return result;
  return kSuccess;
}

CUresult test::fill(CUdeviceptr target, const void *value, uint64_t size,
                    uint64_t count) {
  char *to = bytesAt(target, size * count);
  if (!to)
    return kIllegalAddress;
  for (uint64_t i = 0; i < count; ++i)
    std::memcpy(to + i * size, value, size);
  return kSuccess;
}

CUdeviceptr test::addAllocation(Allocation allocation) {
  allocation.reserved = (allocation.size + 4095) / 4096 * 4096;
  void *address = mmap(nullptr, allocation.reserved, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return 0;
  auto pointer = reinterpret_cast<CUdeviceptr>(address);
  if (!allocation.isForeign)
    state().used += allocation.size;
  state().memory[pointer] = std::move(allocation);
  return pointer;
}

CUdeviceptr test::allocate(uint64_t size, int device) {
  Allocation made;
  made.bytes.reset(new char[size], std::default_delete<char[]>());
  // Not zeros: whatever is left unwritten shows.
  std::memset(made.bytes.get(), 0xff, size);
  made.size = size;
  made.device = device;
  return addAllocation(std::move(made));
}

bool test::release(CUdeviceptr pointer) {
  auto known = state().memory.find(pointer);
  if (known == state().memory.end())
    return false;
  if (!known->second.isForeign)
    state().used -= known->second.size;
  if (known->second.file >= 0)
    close(known->second.file);
  munmap(reinterpret_cast<void *>(pointer), known->second.reserved);
  state().memory.erase(known);
  return true;
}

CUresult test::compute(const std::string &name,
                       const std::vector<CUdeviceptr> &operands,
                       uint64_t count) {
  std::vector<float *> at;
  for (CUdeviceptr operand : operands)
    at.push_back(reinterpret_cast<float *>(bytesAt(operand, count * 4)));
  if (std::count(at.begin(), at.end(), nullptr))
    return kIllegalAddress;
  for (uint64_t i = 0; i < count; ++i) {
    if (name == "relu")
      at[1][i] = std::max(at[0][i], 0.0f);
    else if (name == "add")
      at[2][i] = at[0][i] + at[1][i];
    else if (name == "twice")
      at[0][i] *= 2;
    else if (name == "exponential")
      at[1][i] = std::exp(at[0][i]);
    else
      at[1][i] = std::numeric_limits<float>::quiet_NaN();
  }
  return kSuccess;
}

static uint64_t scrambled(int64_t number) {
  uint64_t bits = uint64_t(number) * 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 32) * 0xd6e8feb86659fd93;
  return bits ^ bits >> 32;
}

/// Does what can be done of `steps`, but passes over some now and then if
/// "jitter" is set: the next call goes on.
static CUresult runReady(std::vector<Step> &steps, std::vector<bool> &isDone) {
  State &fake = state();
  int64_t &jitter = fake.settings["jitter"];
  bool isAll = true, progresses = true;
  auto isReady = [&](const Step &step) {
    for (CUgraphNode node : step.after)
      if (!isDone[reinterpret_cast<uintptr_t>(node) - 1])
        return false;
    return true;
  };
  while (progresses && !fake.isHung) {
    progresses = false;
    isAll = true;
    for (size_t i = 0; i < steps.size() && !fake.isHung; ++i) {
      if (isDone[i])
        continue;
      if (steps[i].isGone) {
        isDone[i] = progresses = true;
        continue;
      }
      uint64_t random = jitter == 0 ? ~uint64_t(0) : scrambled(jitter++);
      if (random >> 58 == 0)
        usleep(random >> 20 & 63);
      bool passesOver = (random & 3) == 0;
      CUresult result =
          passesOver || !isReady(steps[i]) ? kErrorNotReady : steps[i].act();
      if (result == kErrorNotReady) {
        isAll = false;
        continue;
      }
      isDone[i] = progresses = true;
      if (result != kSuccess)
        fake.isLost = true; // found when somebody waits
    }
  }
  return isAll && !fake.isHung ? kSuccess : kErrorNotReady;
}

CUresult test::runSteps(const FakeGraph &graph) {
  state().clock += 0.05;
  auto run = [steps = graph.steps,
              isDone = std::vector<bool>(graph.steps.size())]() mutable {
    return runReady(steps, isDone);
  };
  state().pending.push_back({"graph", run});
  drain();
  return kSuccess;
}

void test::storeWord(char *word, uint32_t value) {
  __atomic_store_n(reinterpret_cast<uint32_t *>(word), value, __ATOMIC_RELEASE);
}

bool test::isWord(const char *word, uint32_t value) {
  return __atomic_load_n(reinterpret_cast<const uint32_t *>(word),
                         __ATOMIC_ACQUIRE) == value;
}

CUresult test::runKernel(const std::string &name,
                         const std::vector<CUdeviceptr> &operands,
                         uint64_t count) {
  State &fake = state();
  int64_t number = int64_t(++fake.kernels);
  if (number == fake.settings["hang"]) {
    fake.isHung = true;
    return kSuccess;
  }
  if (number == fake.settings["fault"] ||
      compute(name, operands, count) != kSuccess)
    fake.isLost = true; // found when somebody waits
  return kSuccess;
}

//===----------------------------------------------------------------------===//
// For the tests
//===----------------------------------------------------------------------===//

void fakeCudaReset() {
  State &fake = state();
  fake.counts.clear();
  fake.failures.clear();
  fake.kernels = 0;
  fake.isLost = fake.isHung = fake.isTold = false;
  fake.settings["hang"] = fake.settings["fault"] = 0;
  fake.capture.reset();
  fake.pending.clear();
}
uint64_t fakeCudaCount(const char *entry) { return state().counts[entry]; }
void fakeCudaFail(const char *entry, uint64_t skipped, int result) {
  state().failures[entry] = {skipped, result};
}
void fakeCudaSet(const char *key, int64_t value) {
  state().settings[key] = value;
}
int64_t fakeCudaLive(const char *kind) {
  if (!std::strcmp(kind, "memory"))
    return int64_t(state().memory.size());
  if (!std::strcmp(kind, "pushed"))
    return int64_t(pushed.size());
  return state().live[kind];
}
void fakeCudaForget() {
  State &fake = state();
  while (!fake.memory.empty())
    release(fake.memory.begin()->first);
  for (CUstream stream : fake.streams)
    delete reinterpret_cast<char *>(stream);
  for (auto *set : {&fake.graphs, &fake.executables}) {
    for (FakeGraph *graph : *set)
      delete graph;
    set->clear();
  }
  fake.streams.clear();
  fake.live.clear();
}
void *fakeCudaAllocate(uint64_t size, int device) {
  return reinterpret_cast<void *>(allocate(size, device));
}
void fakeCudaFree(void *pointer) {
  release(reinterpret_cast<CUdeviceptr>(pointer));
}
void fakeCudaWrite(void *device, const void *host, uint64_t size) {
  std::memcpy(bytesAt(reinterpret_cast<CUdeviceptr>(device), size), host, size);
}
void *fakeCudaBytes(void *address) {
  uint64_t offset = 0;
  Allocation *memory = find(reinterpret_cast<CUdeviceptr>(address), 0, offset);
  return memory ? memory->bytes.get() + offset : address;
}
int fakeCudaSpend(void *stream, double millis) {
  return submit(static_cast<CUstream>(stream), {"time", [=] {
                                                  state().clock += millis;
                                                  return kSuccess;
                                                }});
}
int fakeCudaSubmit(void *stream, const std::function<int()> &act) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return submit(static_cast<CUstream>(stream), {"other", act, true});
}
void fakeCudaRead(void *host, const void *device, uint64_t size) {
  std::memcpy(host, bytesAt(reinterpret_cast<CUdeviceptr>(device), size), size);
}

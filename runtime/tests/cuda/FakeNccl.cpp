//===- FakeNccl.cpp - NCCL between processes without GPUs, for tests ------===//
//
// libnccl.so.2 with the entries that the runtime uses, on the tests' CUDA
// driver. Ranks are processes; what they tell each other are files in a folder
// that the communicator's id names. A group of calls is one step on a stream:
// it posts what this rank sends and is done once it finds what others sent.
// Communicators are nonblocking: what is asked of them is in progress until
// they have been asked about it, and a call before that is refused. The process
// dies if a communicator is destroyed while a graph knows it.
//
// FUSION_FAKE_NCCL: "init-hang" (no communicator comes up), "error=N" (the N-th
// group of calls fails by itself), "memory" (none is left for a communicator),
// "old" (version 2.17), "most=N" (a communicator that may take other than N
// multiprocessors is refused).
//
//===----------------------------------------------------------------------===//
#include "FakeCuda.h"
#include "NcclApi.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt::cuda;

namespace {

constexpr int kUsage = 5, kBusy = 600, kBroken = 719;

struct Call {
  enum Kind { AllReduce, AllGather, ReduceScatter, Broadcast, Send, Receive };
  Kind kind;
  const void *input;
  void *output;
  size_t count;
  int type, op, peer;
};

bool isSet(const char *what) {
  const char *text = std::getenv("FUSION_FAKE_NCCL");
  return text && std::strstr(text, what);
}

size_t sizeOf(int type) {
  return type == kNcclI8                         ? 1
         : type == kNcclF16 || type == kNcclBF16 ? 2
         : type == kNcclI64 || type == kNcclF64  ? 8
                                                 : 4;
}

template <typename T>
void combine(const std::vector<std::string> &inputs, size_t first, size_t count,
             int op, void *output) {
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      T value;
      std::memcpy(&value, inputs[rank].data() + (first + i) * sizeof(T),
                  sizeof(T));
      double x = double(value);
      sum = rank == 0         ? x
            : op == kNcclProd ? sum * x
            : op == kNcclMax  ? std::max(sum, x)
            : op == kNcclMin  ? std::min(sum, x)
                              : sum + x;
    }
    if (op == kNcclAverage)
      sum /= double(inputs.size());
    T result = T(sum);
    std::memcpy(static_cast<char *>(output) + i * sizeof(T), &result,
                sizeof(T));
  }
}

} // namespace

namespace fusion::rt::cuda {

/// A communicator; a graph's steps hold its `known`.
struct ncclComm {
  std::string folder;
  int rank, size;
  bool isUp = false, isFinal = false, isBusy = false;
  int error = 0;
  uint64_t collectives = 0;
  std::vector<std::string> posted, older;           ///< by the last groups
  std::map<std::pair<int, int>, uint64_t> messages; ///< by sender, receiver
  std::shared_ptr<int> known = std::make_shared<int>(0);

  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }
  void post(const std::string &name, const std::string &bytes) const {
    std::string made = path("." + name + "." + std::to_string(rank));
    std::ofstream(made, std::ios::binary) << bytes;
    std::rename(made.c_str(), path(name).c_str());
  }
  bool find(const std::string &name, std::string &bytes) const {
    std::ifstream file(path(name), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    return file.is_open();
  }
  bool areAll(const std::string &name) const {
    for (int each = 0; each < size; ++each)
      if (access(path(name + std::to_string(each)).c_str(), F_OK) != 0)
        return false;
    return true;
  }
};

} // namespace fusion::rt::cuda

namespace {

/// The calls of a group under way on a stream.
struct Group {
  ncclComm *comm;
  std::shared_ptr<int> known;
  std::vector<Call> calls;
  bool isPosted = false;
  std::vector<std::string> names; ///< by call: of its files

  void post();
  int finish();
  int run() {
    if (comm->error)
      return kBusy; // the kernels of a broken communicator never end
    if (!isPosted)
      post();
    int result = finish();
    if (result != kBusy)
      isPosted = false; // a graph may do it again
    return result;
  }
};

thread_local int depth = 0;
thread_local std::vector<std::pair<ncclComm *, Call>> queued;
thread_local void *queuedStream = nullptr;
std::string lastText;

} // namespace

void Group::post() {
  isPosted = true;
  names.clear();
  bool isAll = std::any_of(calls.begin(), calls.end(), [](const Call &call) {
    return call.kind != Call::Send && call.kind != Call::Receive;
  });
  if (isAll) {
    // All ranks have done what was before the last group of all.
    for (const std::string &name : comm->older)
      unlink(comm->path(name).c_str());
    comm->older = std::move(comm->posted);
    comm->posted.clear();
  }
  for (const Call &call : calls) {
    auto *input = static_cast<const char *>(
        fakeCudaBytes(const_cast<void *>(call.input)));
    size_t size = call.count * sizeOf(call.type);
    if (call.kind == Call::Send || call.kind == Call::Receive) {
      bool isSend = call.kind == Call::Send;
      int from = isSend ? comm->rank : call.peer,
          to = isSend ? call.peer : comm->rank;
      names.push_back("m" + std::to_string(from) + "." + std::to_string(to) +
                      "." + std::to_string(comm->messages[{from, to}]++));
      if (isSend)
        comm->post(names.back(), {input, size});
      continue;
    }
    names.push_back("c" + std::to_string(comm->collectives++) + ".");
    if (call.kind == Call::ReduceScatter)
      size *= size_t(comm->size);
    std::string name = names.back() + std::to_string(comm->rank);
    comm->post(name, {input, size});
    comm->posted.push_back(name);
  }
}

int Group::finish() {
  for (size_t i = 0; i < calls.size(); ++i) {
    bool isThere = calls[i].kind == Call::Send ? true
                   : calls[i].kind == Call::Receive
                       ? access(comm->path(names[i]).c_str(), F_OK) == 0
                       : comm->areAll(names[i]);
    if (!isThere)
      return kBusy;
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call &call = calls[i];
    auto *output = static_cast<char *>(fakeCudaBytes(call.output));
    size_t size = call.count * sizeOf(call.type);
    if (call.kind == Call::Send)
      continue;
    if (call.kind == Call::Receive) {
      std::string bytes;
      if (!comm->find(names[i], bytes) || bytes.size() != size)
        return kBroken;
      unlink(comm->path(names[i]).c_str());
      std::memcpy(output, bytes.data(), size);
      continue;
    }
    std::vector<std::string> inputs(size_t(comm->size));
    for (size_t rank = 0; rank < inputs.size(); ++rank)
      if (!comm->find(names[i] + std::to_string(rank), inputs[rank]) ||
          inputs[rank].size() != inputs[0].size())
        return kBroken;
    if (call.kind == Call::Broadcast)
      std::memcpy(output, inputs[size_t(call.peer)].data(), size);
    for (size_t rank = 0; call.kind == Call::AllGather && rank < inputs.size();
         ++rank)
      std::memcpy(output + rank * size, inputs[rank].data(), size);
    if (call.kind != Call::AllReduce && call.kind != Call::ReduceScatter)
      continue;
    size_t first =
        call.kind == Call::ReduceScatter ? size_t(comm->rank) * call.count : 0;
    auto each = call.type == kNcclF32   ? combine<float>
                : call.type == kNcclF64 ? combine<double>
                : call.type == kNcclI32 ? combine<int32_t>
                : call.type == kNcclI64 ? combine<int64_t>
                : call.type == kNcclI8  ? combine<int8_t>
                                        : nullptr;
    if (!each)
      return kBroken;
    each(inputs, first, call.count, call.op, output);
  }
  return 0;
}

static int add(Call call, NcclComm comm, CUstream stream) {
  if (depth == 0 || !comm->isUp || comm->isBusy || comm->isFinal ||
      (!queued.empty() &&
       (queued[0].first != comm || queuedStream != stream))) {
    lastText = "a call outside its group, or before the last one is done";
    return kUsage;
  }
  queued.emplace_back(comm, call);
  queuedStream = stream;
  return 0;
}

extern "C" {

int ncclGetVersion(int *version) {
  *version = isSet("old") ? 21705 : 22809;
  return 0;
}
const char *ncclGetErrorString(int result) {
  return result == kUsage ? "invalid usage" : "an error of the tests";
}
const char *ncclGetLastError(NcclComm) { return lastText.c_str(); }
int ncclGetUniqueId(NcclId *id) {
  const char *base = std::getenv("TMPDIR");
  std::string name = std::string(base ? base : "/tmp") + "/fake-nccl-XXXXXX";
  if (name.size() >= sizeof(id->bytes) || !mkdtemp(&name[0]))
    return 2;
  std::memset(id, 0, sizeof(*id));
  std::strcpy(id->bytes, name.c_str());
  return 0;
}
int ncclCommInitRankConfig(NcclComm *comm, int size, NcclId id, int rank,
                           NcclConfig *config) {
  if (config->magic != 0xcafebeef || config->blocking != 0 || rank >= size)
    return kUsage;
  if (isSet("memory")) {
    lastText = "Cuda failure 2 'out of memory'";
    return kNcclCudaError;
  }
  const char *text = std::getenv("FUSION_FAKE_NCCL");
  const char *most = text ? std::strstr(text, "most=") : nullptr;
  if (most && config->maxBlocks != std::atoi(most + 5)) {
    lastText = "the wrong number of multiprocessors";
    return kUsage;
  }
  *comm = new ncclComm{id.bytes, rank, size};
  (*comm)->post("i" + std::to_string(rank), "");
  return kNcclInProgress;
}
int ncclCommGetAsyncError(NcclComm comm, int *error) {
  *error = comm->error;
  if (comm->error)
    return 0;
  if (comm->isFinal) {
    *error = comm->areAll("f") ? 0 : kNcclInProgress;
  } else if (!comm->isUp) {
    comm->isUp = !isSet("init-hang") && comm->areAll("i");
    *error = comm->isUp ? 0 : kNcclInProgress;
  } else if (comm->isBusy) {
    comm->isBusy = false;
    *error = kNcclInProgress;
  }
  return 0;
}
int ncclCommFinalize(NcclComm comm) {
  comm->isFinal = true;
  comm->post("f" + std::to_string(comm->rank), "");
  return kNcclInProgress;
}
int ncclCommDestroy(NcclComm comm) {
  if (!comm->isFinal || comm->known.use_count() != 1) {
    std::fprintf(stderr, "a graph knows this communicator\n");
    std::abort();
  }
  delete comm;
  return 0;
}
int ncclCommAbort(NcclComm comm) {
  comm->error = kNcclRemoteError;
  return 0;
}
int ncclGroupStart() {
  ++depth;
  return 0;
}
int ncclGroupEnd() {
  if (--depth > 0 || queued.empty())
    return 0;
  ncclComm *comm = queued[0].first;
  auto group = std::make_shared<Group>();
  group->comm = comm;
  group->known = comm->known;
  for (auto &[each, call] : queued)
    group->calls.push_back(call);
  queued.clear();
  static int groups = 0;
  const char *text = std::getenv("FUSION_FAKE_NCCL");
  const char *error = text ? std::strstr(text, "error=") : nullptr;
  if (error && ++groups == std::atoi(error + 6)) {
    lastText = "the network is gone";
    comm->error = kNcclRemoteError;
    return kNcclInProgress;
  }
  comm->isBusy = true;
  int result = fakeCudaSubmit(queuedStream, [group] { return group->run(); });
  return result ? kNcclCudaError : kNcclInProgress;
}
int ncclAllReduce(const void *input, void *output, size_t count, int type,
                  int op, NcclComm comm, CUstream stream) {
  return add({Call::AllReduce, input, output, count, type, op, 0}, comm,
             stream);
}
int ncclAllGather(const void *input, void *output, size_t count, int type,
                  NcclComm comm, CUstream stream) {
  return add({Call::AllGather, input, output, count, type, 0, 0}, comm, stream);
}
int ncclReduceScatter(const void *input, void *output, size_t count, int type,
                      int op, NcclComm comm, CUstream stream) {
  return add({Call::ReduceScatter, input, output, count, type, op, 0}, comm,
             stream);
}
int ncclBroadcast(const void *input, void *output, size_t count, int type,
                  int root, NcclComm comm, CUstream stream) {
  return add({Call::Broadcast, input, output, count, type, 0, root}, comm,
             stream);
}
int ncclSend(const void *input, size_t count, int type, int peer, NcclComm comm,
             CUstream stream) {
  return add({Call::Send, input, nullptr, count, type, 0, peer}, comm, stream);
}
int ncclRecv(void *output, size_t count, int type, int peer, NcclComm comm,
             CUstream stream) {
  return add({Call::Receive, nullptr, output, count, type, 0, peer}, comm,
             stream);
}

} // extern "C"

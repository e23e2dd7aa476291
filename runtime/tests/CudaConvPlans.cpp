//===- CudaConvPlans.cpp - What cuDNN offers for a few convolutions -------===//
//
// `fusionrt-cuda-conv-plans [LIST]` plans a convolution with bias and relu in
// every way that keeps our promises, in the order of cuDNN's heuristics, and
// prints the time of each, and whether a NaN of the image comes through. The
// first is what a module runs. A line of LIST reads: dtype N C H W O KH KW low
// high stride groups, where low and high are the padding, or: dtype attention B
// H G S T D causal; without LIST the three convolutions of the suite `seed2`
// are taken. Eight sets of operands take turns, so that none is found in the
// cache.
//
//===----------------------------------------------------------------------===//
#include "Dnn.h"
#include "FloatBits.h"
#include "SideStreams.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

constexpr int kSets = 8, kRounds = 9;

struct Case {
  std::string text;
  LibraryCall call;
};

DType typeOf(const std::string &name) {
  return name == "f32" ? DType::F32 : name == "bf16" ? DType::BF16 : DType::F16;
}

bool parseAttention(const std::string &line, LibraryCall &call) {
  std::istringstream in(line);
  std::string dtype, op;
  int64_t b, h, g, s, t, d, causal;
  if (!(in >> dtype >> op >> b >> h >> g >> s >> t >> d >> causal) ||
      op != "attention")
    return false;
  call.op = LibraryOp::Attention;
  call.dtype = typeOf(dtype);
  call.inputShape = call.outputShape = {{0, b}, {0, h}, {0, s}, {0, d}};
  call.weightShape = {{0, b}, {0, g}, {0, t}, {0, d}};
  call.scale = 0.125;
  call.causal = causal != 0;
  return true;
}

bool parse(const std::string &line, Case &result) {
  result.text = line;
  if (parseAttention(line, result.call))
    return true;
  std::istringstream in(line);
  std::string dtype;
  int64_t n, c, h, w, o, kh, kw, low, high, step, groups;
  if (!(in >> dtype >> n >> c >> h >> w >> o >> kh >> kw >> low >> high >>
        step >> groups))
    return false;
  LibraryCall &call = result.call;
  call.dtype = typeOf(dtype);
  call.hasBias = call.channelsLast = call.weightsLast = true;
  call.activation = Activation::Relu;
  call.inputShape = {{0, n}, {0, c}, {0, h}, {0, w}};
  call.weightShape = {{0, o}, {0, c / groups}, {0, kh}, {0, kw}};
  call.outputShape = {{0, n},
                      {0, o},
                      {0, (h + low + high - kh) / step + 1},
                      {0, (w + low + high - kw) / step + 1}};
  call.strides = {step, step};
  call.dilations = {1, 1};
  call.padLow = {low, low};
  call.padHigh = {high, high};
  call.groups = groups;
  return true;
}

class Bench {
public:
  Status open();
  Status run(const Case &test);

private:
  Expected<CUdeviceptr> allocate(uint64_t size) {
    CUdeviceptr address = 0;
    FUSION_RT_TRY(
        driver->check(driver->memAlloc(&address, size + 256), "cuMemAlloc"));
    memory.push_back(address);
    return address;
  }
  /// A tensor of small integers, the first element a NaN or not.
  Expected<CUdeviceptr> fill(const std::vector<Affine> &shape, DType type,
                             bool hasNan);
  Status time(DnnCall &call, const std::vector<void *> &operands,
              const LibraryCall &what, double &us, bool &keepsNan);

  const Driver *driver = nullptr;
  CUstream stream = nullptr;
  CUevent before = nullptr, after = nullptr;
  std::unique_ptr<SideStreams> sides;
  std::unique_ptr<BlasLt> blas;
  std::unique_ptr<Dnn> dnn;
  std::vector<CUdeviceptr> memory;
};

} // namespace

Status Bench::open() {
  auto opened = Driver::open();
  if (!opened)
    return opened.status();
  driver = *opened;
  CUdevice device = 0;
  CUcontext context = nullptr;
  FUSION_RT_TRY(driver->check(driver->deviceGet(&device, 0), "cuDeviceGet"));
  FUSION_RT_TRY(driver->check(driver->primaryContextRetain(&context, device),
                              "cuDevicePrimaryCtxRetain"));
  FUSION_RT_TRY(
      driver->check(driver->contextPush(context), "cuCtxPushCurrent"));
  FUSION_RT_TRY(driver->check(driver->streamCreate(&stream, kStreamNonBlocking),
                              "cuStreamCreate"));
  for (CUevent *event : {&before, &after})
    FUSION_RT_TRY(
        driver->check(driver->eventCreate(event, 0), "cuEventCreate"));
  sides = std::make_unique<SideStreams>(*driver);
  auto openedBlas = BlasLt::open(*sides, nullptr);
  if (!openedBlas)
    return openedBlas.status();
  blas = std::move(*openedBlas);
  auto openedDnn = Dnn::open();
  if (!openedDnn)
    return openedDnn.status();
  dnn = std::move(*openedDnn);
  return {};
}

Expected<CUdeviceptr> Bench::fill(const std::vector<Affine> &shape, DType type,
                                  bool hasNan) {
  static std::mt19937 random(7);
  uint64_t element = type == DType::F32 ? 4 : 2, count = 1;
  for (Affine size : shape)
    count *= uint64_t(size.base);
  std::vector<char> bytes(count * element);
  for (uint64_t i = 0; i < count; ++i)
    storeNumber(bytes.data() + i * element, type, int(random() % 5) - 2);
  if (hasNan) // all bits: a NaN in each type
    std::fill(bytes.begin(), bytes.begin() + long(element), char(-1));
  auto address = allocate(bytes.size());
  if (!address)
    return address;
  FUSION_RT_TRY(driver->check(
      driver->copyToDevice(*address, bytes.data(), bytes.size(), stream),
      "cuMemcpyHtoD"));
  FUSION_RT_TRY(
      driver->check(driver->streamSynchronize(stream), "cuStreamSynchronize"));
  return *address;
}

Status Bench::time(DnnCall &call, const std::vector<void *> &operands,
                   const LibraryCall &what, double &us, bool &keepsNan) {
  auto workspace = allocate(call.workspace());
  if (!workspace)
    return workspace.status();
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  FUSION_RT_TRY(
      driver->check(driver->streamBeginCapture(stream, kCaptureThreadLocal),
                    "cuStreamBeginCapture"));
  Status enqueued;
  for (int set = 0; set < kSets && enqueued.ok(); ++set)
    enqueued = call.enqueue(stream, operands.data() + set * 4,
                            reinterpret_cast<void *>(*workspace));
  CUresult ended = driver->streamEndCapture(stream, &graph);
  FUSION_RT_TRY(enqueued);
  FUSION_RT_TRY(driver->check(ended, "cuStreamEndCapture"));
  FUSION_RT_TRY(driver->check(driver->graphInstantiate(&executable, graph, 0),
                              "cuGraphInstantiate"));
  std::vector<float> times;
  for (int round = -2; round < kRounds; ++round) {
    constexpr int kLaunches = 10;
    driver->eventRecord(before, stream);
    for (int i = 0; i < kLaunches; ++i)
      FUSION_RT_TRY(driver->check(driver->graphLaunch(executable, stream),
                                  "cuGraphLaunch"));
    driver->eventRecord(after, stream);
    FUSION_RT_TRY(driver->check(driver->streamSynchronize(stream),
                                "cuStreamSynchronize"));
    float ms = 0;
    driver->eventElapsedTime(&ms, before, after);
    if (round >= 0)
      times.push_back(ms * 1000 / (kLaunches * kSets));
  }
  std::sort(times.begin(), times.end());
  us = times[times.size() / 2];
  char first[8] = {};
  FUSION_RT_TRY(driver->check(
      driver->copyToHost(first, reinterpret_cast<CUdeviceptr>(operands[3]),
                         sizeof(first), stream),
      "cuMemcpyDtoH"));
  FUSION_RT_TRY(
      driver->check(driver->streamSynchronize(stream), "cuStreamSynchronize"));
  keepsNan = isNanAt(first, what.dtype);
  driver->graphExecDestroy(executable);
  driver->graphDestroy(graph);
  return {};
}

Status Bench::run(const Case &test) {
  const LibraryCall &call = test.call;
  bool isAttention = call.op == LibraryOp::Attention;
  std::vector<void *> operands;
  for (int set = 0; set < kSets; ++set)
    for (auto *shape :
         {&call.inputShape, &call.weightShape,
          (const std::vector<Affine> *)nullptr, &call.outputShape}) {
      // A bias, or the value, which is like the key.
      std::vector<Affine> bias = {call.outputShape[1]};
      if (isAttention)
        bias = call.weightShape;
      auto address = fill(shape ? *shape : bias, call.dtype,
                          shape == &call.inputShape && set == 0);
      if (!address)
        return address.status();
      operands.push_back(reinterpret_cast<void *>(*address));
    }
  Status status;
  // At last the first plan again, for weights that it has to lay out.
  for (bool isLaidOut : {true, false}) {
    if (isAttention && !isLaidOut)
      continue;
    LibraryCall asked = call;
    asked.weightsLast = isLaidOut && !isAttention;
    auto planned =
        isAttention ? dnn->planAttentions(asked, 1, 64)
                    : dnn->planConvs(asked, 1, blas.get(), isLaidOut ? 64 : 1);
    if (!planned)
      return planned.status();
    for (size_t i = 0; i < planned->size() && status.ok(); ++i) {
      double us = 0;
      bool keepsNan = false;
      status = time(*(*planned)[i], operands, asked, us, keepsNan);
      std::printf("%s: %s %zu, %s: %.2f us, NaN %s\n", test.text.c_str(),
                  isLaidOut ? "plan" : "weights laid out, plan", i,
                  (*planned)[i]->describe().c_str(), us,
                  !status.ok() ? status.message().c_str()
                  : keepsNan   ? "kept"
                               : "lost");
    }
  }
  driver->streamSynchronize(stream);
  for (CUdeviceptr address : memory)
    driver->memFree(address);
  memory.clear();
  return status;
}

int main(int argc, char **argv) {
  std::vector<std::string> lines = {"f16 32 64 56 56 64 3 3 1 1 1 1",
                                    "f16 32 256 56 56 64 1 1 0 0 1 1",
                                    "f16 32 512 7 7 512 3 3 1 1 1 1"};
  if (argc > 1) {
    std::ifstream list(argv[1]);
    lines.clear();
    for (std::string line; std::getline(list, line);)
      lines.push_back(line);
  }
  Bench bench;
  Status status = bench.open();
  for (const std::string &line : lines) {
    Case test;
    if (!status.ok() || !parse(line, test))
      continue;
    Status ran = bench.run(test);
    // That there is no plan is an answer too.
    if (ran.code() == Code::Rejected)
      std::printf("%s: %s\n", line.c_str(), ran.message().c_str());
    else
      status = ran;
  }
  if (!status.ok())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}

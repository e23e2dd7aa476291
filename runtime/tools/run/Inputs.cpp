//===- Inputs.cpp - Which tensors a run gets ------------------------------===//
//
// Matches files to ports by name, infers the batch size from the shapes and
// fills what is missing from a seed.
//
//===----------------------------------------------------------------------===//
#include "Inputs.h"
#include "Checked.h"
#include "FloatBits.h"
#include "Mesh.h"
#include "Shards.h"
#include "Text.h"

#include <algorithm>
#include <cstring>

using namespace fusion::rt;

std::vector<int64_t> fusion::rt::shapeAt(const std::vector<Affine> &shape,
                                         int64_t batch) {
  std::vector<int64_t> sizes;
  for (Affine dim : shape)
    sizes.push_back(evaluate(dim, batch).value_or(0));
  return sizes;
}

static std::string sizesText(const std::vector<int64_t> &sizes) {
  std::vector<Affine> dims;
  for (int64_t size : sizes)
    dims.push_back({0, size});
  return shapeText(dims);
}

static std::string portNames(const std::vector<Port> &ports) {
  std::string names;
  for (size_t i = 0; i < ports.size() && i < 32; ++i)
    names += (i ? ", '" : "'") + escape(ports[i].tensor.name, 256) + "'";
  return names.empty() ? "none" : names;
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, OOPSLA 2014).
static uint64_t nextRandom(uint64_t &state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Tensor fusion::rt::randomTensor(const TensorDesc &desc, int64_t batch,
                                uint64_t seed) {
  Tensor tensor;
  tensor.dtype = desc.dtype;
  tensor.shape = shapeAt(desc.shape, batch);
  uint64_t state = seed;
  for (char c : desc.name)
    state = (state ^ uint8_t(c)) * 0x100000001b3; // FNV-1a over the name
  size_t element = elementSize(desc.dtype);
  tensor.bytes.resize(byteCount(desc.shape, desc.dtype, batch).value_or(0));
  for (size_t at = 0; at < tensor.bytes.size(); at += element) {
    uint64_t bits = nextRandom(state);
    bool isFloat = desc.dtype == DType::F64 || desc.dtype == DType::F32 ||
                   desc.dtype == DType::F16 || desc.dtype == DType::BF16;
    int64_t value = isFloat                   ? int64_t(bits % 9) - 4
                    : desc.dtype == DType::I1 ? int64_t(bits & 1)
                                              : int64_t(bits & 3);
    storeNumber(&tensor.bytes[at], desc.dtype, double(value));
  }
  return tensor;
}

/// Tightens `batch` (0: unknown) by one given tensor.
static Status inferBatch(const TensorDesc &desc, const Tensor &tensor,
                         int64_t &batch) {
  auto mismatch = [&] {
    return Status(
        Code::Usage,
        "input '" + escape(desc.name) + "': expected shape " +
            shapeText(desc.shape) + ", got " + sizesText(tensor.shape) +
            (batch
                 ? " (B = " + std::to_string(batch) + " from another dimension)"
                 : ""));
  };
  if (tensor.dtype != desc.dtype)
    return Status(Code::Usage, "input '" + escape(desc.name) +
                                   "': expected element type " +
                                   dtypeName(desc.dtype) + ", got " +
                                   dtypeName(tensor.dtype));
  if (tensor.shape.size() != desc.shape.size())
    return mismatch();
  for (size_t i = 0; i < desc.shape.size(); ++i) {
    Affine dim = desc.shape[i];
    auto difference = checkedSub(tensor.shape[i], dim.base);
    if (!difference)
      return mismatch();
    if (dim.scale == 0) {
      if (*difference != 0)
        return mismatch();
      continue;
    }
    int64_t implied = *difference / dim.scale;
    if (*difference % dim.scale != 0 || implied < 1 ||
        (batch != 0 && batch != implied))
      return mismatch();
    batch = implied;
  }
  return {};
}

/// Takes "@2" off a name that no input has as it is: the rank, or -1.
static int takeRank(const Program &program, std::string &name) {
  size_t at = name.rfind('@');
  if (at == std::string::npos || at + 1 == name.size() ||
      name.size() - at > 5 || program.mesh.axes.empty() ||
      name.find_first_not_of("0123456789", at + 1) != std::string::npos)
    return -1;
  for (const Port &port : program.inputs)
    if (port.tensor.name == name)
      return -1;
  int rank = std::atoi(&name[at + 1]);
  name.resize(at);
  return rank;
}

static bool hasInput(const Program &program, const std::string &name) {
  return std::any_of(
      program.inputs.begin(), program.inputs.end(),
      [&](const Port &port) { return port.tensor.name == name; });
}

static Status noInput(const Program &program, const std::string &name) {
  return Status(Code::Usage, "the module has no input '" + escape(name) +
                                 "'; its inputs are " +
                                 portNames(program.inputs));
}

/// Turns the tensors that were given into this rank's.
static Status takeOwn(const Program &program, uint32_t rank,
                      std::map<std::string, Tensor> &given) {
  std::map<std::string, Tensor> own, whole;
  for (auto &[key, tensor] : given) {
    std::string name = key;
    int only = takeRank(program, name);
    if (only >= int(rankCount(program.mesh)))
      return Status(Code::Usage, "input '" + escape(key) +
                                     "': the module has no rank " +
                                     std::to_string(only));
    if (only >= 0 && only != int(rank)) {
      if (!hasInput(program, name))
        return noInput(program, name);
      continue;
    }
    auto &mine = only >= 0 ? own : whole;
    if (!mine.emplace(name, std::move(tensor)).second)
      return Status(Code::Usage, "input '" + escape(key) +
                                     "' is given twice for rank " +
                                     std::to_string(rank));
  }
  given.clear();
  for (auto &[name, tensor] : whole) {
    auto port = std::find_if(
        program.inputs.begin(), program.inputs.end(),
        [&, &name = name](const Port &p) { return p.tensor.name == name; });
    if (port == program.inputs.end()) {
      given[name] = std::move(tensor); // said below
      continue;
    }
    auto shard = cutShard(program.mesh, *port, tensor, rank);
    if (!shard)
      return Status(shard.status().code(), "input " + shard.status().message());
    given[name] = std::move(*shard);
  }
  for (auto &[name, tensor] : own)
    given[name] = std::move(tensor);
  return {};
}

/// Tensors that have a dimension more in front, for `steps` runs, become those
/// of the first run; what later runs get is added to `later`, by name.
static Status splitSteps(const Program &program, int64_t steps,
                         std::map<std::string, Tensor> &given,
                         std::vector<std::map<std::string, Tensor>> &later) {
  later.resize(size_t(std::max<int64_t>(steps - 1, 0)));
  for (auto &[key, tensor] : given) {
    std::string name = key;
    takeRank(program, name);
    auto port = std::find_if(
        program.inputs.begin(), program.inputs.end(),
        [&, &name = name](const Port &p) { return p.tensor.name == name; });
    if (port == program.inputs.end() ||
        tensor.shape.size() != port->tensor.shape.size() + 1)
      continue;
    if (tensor.shape[0] != steps || port->donatedTo >= 0)
      return Status(Code::Usage,
                    "input '" + escape(key) + "': " + sizesText(tensor.shape) +
                        (port->donatedTo >= 0
                             ? " has a dimension more than the input, which "
                               "each step takes from the one before"
                             : " is not a tensor for each of " +
                                   std::to_string(steps) + " steps"));
    size_t size = tensor.bytes.size() / size_t(steps);
    std::vector<uint8_t> all = std::move(tensor.bytes);
    tensor.shape.erase(tensor.shape.begin());
    tensor.bytes.assign(all.data(), all.data() + size);
    for (size_t i = 0; i < later.size(); ++i) {
      Tensor &each = later[i][key];
      each = {tensor.dtype, tensor.shape, {}};
      each.bytes.assign(all.data() + (i + 1) * size,
                        all.data() + (i + 2) * size);
    }
  }
  return {};
}

/// A random tensor over all ranks, cut.
static Tensor randomShard(const Program &program, const Port &port,
                          int64_t batch, uint64_t seed, uint32_t rank) {
  if (program.mesh.axes.empty())
    return randomTensor(port.tensor, batch, seed);
  TensorDesc whole = port.tensor;
  std::vector<int64_t> sizes =
      globalShape(program.mesh, port, shapeAt(port.tensor.shape, batch));
  for (size_t d = 0; d < sizes.size(); ++d)
    whole.shape[d] = {0, sizes[d]};
  auto shard = cutShard(program.mesh, port, randomTensor(whole, 1, seed), rank);
  return shard ? std::move(*shard) : Tensor();
}

Expected<RunInputs> fusion::rt::collectInputs(const Program &program,
                                              const RunOptions &options,
                                              uint32_t rank) {
  std::map<std::string, Tensor> given;
  if (!options.inputsArchive.empty()) {
    auto archive = readNpzFile(options.inputsArchive);
    if (!archive)
      return archive.status();
    given = std::move(*archive);
  }
  for (const auto &[name, path] : options.inputs) {
    auto tensor = readNpyFile(path);
    if (!tensor)
      return tensor.status();
    if (!given.emplace(name, std::move(*tensor)).second)
      return Status(Code::Usage, "input '" + escape(name) + "' is given twice");
  }
  std::vector<std::map<std::string, Tensor>> later;
  if (options.steps > 0)
    FUSION_RT_TRY(splitSteps(program, options.steps, given, later));
  if (!program.mesh.axes.empty()) {
    FUSION_RT_TRY(takeOwn(program, rank, given));
    for (auto &each : later)
      FUSION_RT_TRY(takeOwn(program, rank, each));
  }
  for (const auto &entry : given)
    if (!hasInput(program, entry.first))
      return noInput(program, entry.first);

  RunInputs result;
  int64_t batch = options.batch.value_or(0);
  for (const Port &port : program.inputs) {
    auto found = given.find(port.tensor.name);
    if (found != given.end())
      FUSION_RT_TRY(inferBatch(port.tensor, found->second, batch));
    else if (!options.randomSeed)
      return Status(Code::Usage,
                    "input '" + escape(port.tensor.name) + "' (" +
                        dtypeName(port.tensor.dtype) + " " +
                        shapeText(port.tensor.shape) +
                        ") is missing; give --input or --random-inputs SEED");
  }
  if (batch == 0)
    batch = program.maxBatch;
  if (batch < program.minBatch || batch > program.maxBatch)
    return Status(Code::Usage, "batch " + std::to_string(batch) +
                                   " is outside the module's range " +
                                   std::to_string(program.minBatch) + ".." +
                                   std::to_string(program.maxBatch));
  result.batch = batch;
  result.later.resize(program.inputs.size());
  for (size_t i = 0; i < program.inputs.size(); ++i)
    for (auto &each : later) {
      auto found = each.find(program.inputs[i].tensor.name);
      if (found != each.end())
        result.later[i].push_back(std::move(found->second));
    }
  for (const Port &port : program.inputs) {
    auto found = given.find(port.tensor.name);
    result.tensors.push_back(
        found != given.end()
            ? std::move(found->second)
            : randomShard(program, port, batch, *options.randomSeed, rank));
  }
  return result;
}

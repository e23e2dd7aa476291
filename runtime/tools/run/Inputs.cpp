//===- Inputs.cpp - Which tensors a run gets ------------------------------===//
//
// Matches files to ports by name, infers the batch size from the shapes and
// fills what is missing from a seed.
//
//===----------------------------------------------------------------------===//
#include "Inputs.h"
#include "Checked.h"
#include "FloatBits.h"
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

Expected<RunInputs> fusion::rt::collectInputs(const Program &program,
                                              const RunOptions &options) {
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
  for (const auto &entry : given)
    if (std::none_of(
            program.inputs.begin(), program.inputs.end(),
            [&](const Port &port) { return port.tensor.name == entry.first; }))
      return Status(Code::Usage,
                    "the module has no input '" + escape(entry.first) +
                        "'; its inputs are " + portNames(program.inputs));

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
  for (const Port &port : program.inputs) {
    auto found = given.find(port.tensor.name);
    result.tensors.push_back(
        found != given.end()
            ? std::move(found->second)
            : randomTensor(port.tensor, batch, *options.randomSeed));
  }
  return result;
}

//===- FuzzModule.cpp - Arbitrary bytes as a module -----------------------===//
//
// Reads the bytes as they are, then once more with all hashes made right, so
// that the fuzzer reaches the decoder, both verifiers and the null backend.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "ElfCheck.h"
#include "ModuleFormat.h"
#include "Session.h"

#include <cstdlib>
#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::format;

static void makeHashesRight(uint8_t *bytes, size_t size) {
  if (size < kPreambleSize)
    return;
  uint32_t count;
  std::memcpy(&count, bytes + 12, 4);
  if (count > (size - kPreambleSize) / kEntrySize)
    return;
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t *entry = bytes + kPreambleSize + i * kEntrySize;
    uint64_t offset, length;
    std::memcpy(&offset, entry + 8, 8);
    std::memcpy(&length, entry + 16, 8);
    if (!rangeFits(offset, length, size))
      continue;
    if (auto digest = sha256(bytes + offset, length))
      std::memcpy(entry + 32, digest->data(), 32);
  }
  std::vector<uint8_t> hashed(bytes, bytes + kHashedPreamble);
  hashed.insert(hashed.end(), bytes + kPreambleSize,
                bytes + kPreambleSize + count * kEntrySize);
  if (auto digest = sha256(hashed.data(), hashed.size()))
    std::memcpy(bytes + kHashedPreamble, digest->data(), 32);
}

static void runOnNull(const std::shared_ptr<LoadedModule> &loaded) {
  const Module &module = loaded->view.module;
  (void)checkElf(module.nativeCode, module.kernels, module.imports.size());
  SessionOptions options;
  options.backend = "null";
  options.memoryLimit = 1 << 20;
  auto session = Session::create(loaded, options);
  if (!session)
    return;
  const Program &program = module.program;
  uint64_t total = 0;
  for (const Segment &segment : program.segments) {
    total += segment.size; // at most 2^20 segments of 2^51 bytes each
    if (segment.size > (1 << 20) || total > (1 << 20))
      return;
  }
  std::vector<std::vector<char>> buffers;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (const Port &port : program.inputs) {
    buffers.emplace_back(program.segments[port.segment].size + 1);
    inputs.push_back(buffers.back().data());
  }
  for (const Port &port : program.outputs) {
    buffers.emplace_back(program.segments[port.segment].size + 1);
    outputs.push_back(buffers.back().data());
  }
  for (int64_t batch : {program.minBatch, program.maxBatch})
    if (!(*session)->run(batch, inputs.data(), outputs.data()).ok())
      std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  void *memory = std::aligned_alloc(64, (size + 64) / 64 * 64);
  if (!memory)
    return 0;
  if (size)
    std::memcpy(memory, data, size);
  for (int round = 0; round < 2; ++round) {
    if (auto loaded = loadModuleMemory(memory, size); loaded.ok())
      runOnNull(*loaded);
    makeHashesRight(static_cast<uint8_t *>(memory), size);
  }
  std::free(memory);
  return 0;
}

//===- DamagedModules.h - Modules to write and to damage --------*- C++ -*-===//
//
// What tests of the module's file have in common.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_DAMAGEDMODULES_H
#define FUSION_RUNTIME_TESTS_DAMAGEDMODULES_H

#include "ModuleFile.h"
#include "ModuleFormat.h"
#include "TestModules.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

namespace fusion::rt::test {

/// Bytes at an address that is a multiple of 64.
class Aligned {
public:
  explicit Aligned(const std::vector<uint8_t> &bytes)
      : memory(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64 + 64)),
        length(bytes.size()) {
    if (!bytes.empty())
      std::memcpy(memory, bytes.data(), bytes.size());
  }
  ~Aligned() { std::free(memory); }
  Aligned(const Aligned &) = delete;
  uint8_t *data() { return static_cast<uint8_t *>(memory); }
  size_t size() const { return length; }

private:
  void *memory;
  size_t length;
};

inline std::vector<uint8_t> write(const Module &module) {
  auto bytes = writeModule(module);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return bytes.ok() ? *bytes : std::vector<uint8_t>();
}

/// A small module without native code: matmul with bias, then a copy.
inline Module smallModule() {
  ModuleBuilder builder(2);
  ByteRange x = builder.input("x", {1, 3}, true);
  ByteRange y = builder.output("y", {1, 2}, true);
  ByteRange t = builder.scratch(16);
  ByteRange w = builder.constant({1, 2, 3, 4, 5, 6});
  ByteRange b = builder.constant({10, 20});
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.hasBias = true;
  call.inputShape = {{1, 0}, {0, 3}};
  call.weightShape = {{0, 3}, {0, 2}};
  call.outputShape = {{1, 0}, {0, 2}};
  builder.call(call, {x, w, b}, t);
  builder.copy(t, y).copySize = {8, 0};
  return builder.build();
}

/// Puts the right hashes into a changed file.
inline void rehash(std::vector<uint8_t> &bytes) {
  using namespace format;
  uint32_t count;
  std::memcpy(&count, &bytes[12], 4);
  if (count > (bytes.size() - kPreambleSize) / kEntrySize)
    return; // the reader rejects this count before it hashes
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t *entry = &bytes[kPreambleSize + i * kEntrySize];
    uint64_t offset, size;
    std::memcpy(&offset, entry + 8, 8);
    std::memcpy(&size, entry + 16, 8);
    if (offset > bytes.size() || size > bytes.size() - offset)
      continue;
    auto digest = sha256(&bytes[offset], size);
    std::memcpy(entry + 32, digest->data(), 32);
  }
  std::vector<uint8_t> hashed(bytes.begin(), bytes.begin() + kHashedPreamble);
  hashed.insert(hashed.end(), bytes.begin() + kPreambleSize,
                bytes.begin() + long(kPreambleSize + count * kEntrySize));
  auto digest = sha256(hashed.data(), hashed.size());
  std::memcpy(&bytes[kHashedPreamble], digest->data(), 32);
}

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_DAMAGEDMODULES_H

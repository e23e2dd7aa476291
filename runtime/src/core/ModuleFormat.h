//===- ModuleFormat.h - The layout of a module file -------------*- C++ -*-===//
//
// A module file is, in order and little-endian:
//
//   preamble (64 bytes)
//     0  magic            8 bytes
//     8  major, minor     u16 each
//    12  section count    u32
//    16  total file size  u64
//    24  zero             u64
//    32  SHA-256 of bytes [0, 32) followed by the section table
//   section table: 64 bytes a section, ascending kinds and offsets
//     0  kind             u32
//     4  zero             u32
//     8  offset           u64, a multiple of 64
//    16  size             u64, not zero
//    24  zero             u64
//    32  SHA-256 of the section's bytes
//   sections, each followed by zero bytes up to the next multiple of 64
//
// Sections follow each other without gaps, so every byte of the file is either
// hashed or proved to be zero. The header section is a FlatBuffer
// (schema/module.fbs).
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_MODULEFORMAT_H
#define FUSION_RUNTIME_CORE_MODULEFORMAT_H

#include <cstdint>

namespace fusion::rt::format {

/// A byte above 127 and both line endings show a transfer in text mode.
constexpr uint8_t kMagic[8] = {0x89, 'F', 'S', 'N', '\r', '\n', 0x1a, '\n'};
constexpr uint16_t kMajor = 1;
constexpr uint16_t kMinor = 6;

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kPreambleSize = 64;
constexpr uint64_t kEntrySize = 64;
constexpr uint64_t kHashedPreamble = 32; ///< bytes before the preamble's hash

enum class SectionKind : uint32_t {
  Header = 1,
  NativeCode = 2,
  Constants = 3,
  DeviceCode = 4,
  Ptx = 5
};

} // namespace fusion::rt::format

#endif // FUSION_RUNTIME_CORE_MODULEFORMAT_H

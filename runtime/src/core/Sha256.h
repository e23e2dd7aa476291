//===- Sha256.h - Hashes of a module's sections -----------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CORE_SHA256_H
#define FUSION_RUNTIME_CORE_SHA256_H

#include "Status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fusion::rt {

using Digest = std::array<uint8_t, 32>;

/// The SHA-256 of `size` bytes. Fails with `Resources` only if the hash's own
/// small state can't be allocated.
Expected<Digest> sha256(const void *data, size_t size);

/// 64 lower-case hexadecimal digits.
std::string toHex(const Digest &digest);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_SHA256_H

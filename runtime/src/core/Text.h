//===- Text.h - Untrusted text in messages ----------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CORE_TEXT_H
#define FUSION_RUNTIME_CORE_TEXT_H

#include "ModuleData.h"

#include <string>
#include <string_view>

namespace fusion::rt {

/// Whether `text` is well-formed UTF-8 (no overlong forms, no surrogates).
bool isUtf8(std::string_view text);

/// `text` with control characters, quotes and backslashes escaped and cut after
/// `limit` bytes: safe for a terminal, a log line or a JSON string. Malformed
/// UTF-8 is escaped byte by byte.
std::string escape(std::string_view text, size_t limit = 4096);

/// A shape as it is printed: "[B, 3, 48, 192]", "[2*B+1]", "[]".
std::string shapeText(const std::vector<Affine> &shape);

/// "1.50 MiB (1572864 bytes)".
std::string bytesText(uint64_t bytes);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_TEXT_H

//===- Text.cpp - Untrusted text in messages ------------------------------===//
//
// Names come from files and end up on terminals and in JSON; everything that
// prints one goes through `escape`.
//
//===----------------------------------------------------------------------===//
#include "Text.h"

#include <cstdio>

using namespace fusion::rt;

/// The length of the well-formed UTF-8 sequence at the start of `text`, or 0.
static size_t sequenceLength(std::string_view text) {
  auto at = [&](size_t i) { return uint8_t(text[i]); };
  uint8_t lead = at(0);
  if (lead < 0x80)
    return 1;
  size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length)
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((at(i) & 0xC0) != 0x80)
      return 0;
  if ((lead == 0xE0 && at(1) < 0xA0) || (lead == 0xED && at(1) > 0x9F) ||
      (lead == 0xF0 && at(1) < 0x90) || (lead == 0xF4 && at(1) > 0x8F))
    return 0;
  return length;
}

bool fusion::rt::isUtf8(std::string_view text) {
  while (!text.empty()) {
    size_t length = sequenceLength(text);
    if (length == 0)
      return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string fusion::rt::escape(std::string_view text, size_t limit) {
  std::string result;
  while (!text.empty()) {
    if (result.size() >= limit)
      return result + "...";
    size_t length = sequenceLength(text);
    uint8_t byte = uint8_t(text[0]);
    // C1 controls (U+0080..U+009F) steer terminals as C0 does.
    bool control = byte < 0x20 || byte == 0x7f ||
                   (length == 2 && byte == 0xC2 && uint8_t(text[1]) < 0xA0);
    if (byte == '"' || byte == '\\') {
      result += '\\';
      result += char(byte);
      length = 1;
    } else if (length == 0 || control) {
      unsigned point = length == 2 ? uint8_t(text[1]) : byte;
      char buffer[8];
      std::snprintf(buffer, sizeof(buffer), "\\u%04x", point);
      result += buffer;
      length = length ? length : 1;
    } else {
      result.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return result;
}

std::string fusion::rt::shapeText(const std::vector<Affine> &shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i)
      result += ", ";
    Affine dim = shape[i];
    if (dim.scale == 0) {
      result += std::to_string(dim.base);
      continue;
    }
    if (dim.scale != 1)
      result += std::to_string(dim.scale) + "*";
    result += "B";
    if (dim.base > 0)
      result += "+";
    if (dim.base != 0)
      result += std::to_string(dim.base);
  }
  return result + "]";
}

std::string fusion::rt::bytesText(uint64_t bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024)
    return std::to_string(bytes) + " bytes";
  double value = double(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 5; ++unit)
    value /= 1024;
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.2f %s (%llu bytes)", value,
                units[unit], (unsigned long long)bytes);
  return buffer;
}

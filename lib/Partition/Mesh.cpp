//===- Mesh.cpp - The mesh of a command line ------------------------------===//
//
// See parseMesh.
//
//===----------------------------------------------------------------------===//
#include "fusion/Partition/Passes.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>

using namespace llvm;
using namespace fusion;

/// Ranks that a job may have, and axes of its mesh.
static constexpr int64_t kMaxRanks = 1024;
static constexpr size_t kMaxAxes = 16;

Expected<std::vector<std::pair<std::string, int64_t>>>
fusion::parseMesh(StringRef text) {
  std::vector<std::pair<std::string, int64_t>> axes;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  int64_t ranks = 1;
  for (StringRef part : parts) {
    auto [name, digits] = part.split('=');
    bool isName = !name.empty() && !isDigit(name.front()) &&
                  all_of(name, [](char c) { return isAlnum(c) || c == '_'; });
    int64_t size;
    if (!isName || digits.empty() || digits.getAsInteger(10, size))
      return createStringError("'" + part + "' is no axis with its size");
    if (size < 1 || size > kMaxRanks || (ranks *= size) > kMaxRanks)
      return createStringError("the axis sizes must be at least 1, their "
                               "product at most " +
                               Twine(kMaxRanks));
    if (any_of(axes, [&, &name = name](const auto &axis) {
          return axis.first == name;
        }))
      return createStringError("the axis '" + name + "' is named twice");
    axes.emplace_back(name.str(), size);
  }
  if (axes.size() > kMaxAxes)
    return createStringError("there are more than " + Twine(kMaxAxes) +
                             " axes");
  return axes;
}

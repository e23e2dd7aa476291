//===- SeededBugs.h - Planted bugs that judge the fuzzer --------*- C++ -*-===//
//
// A test that never fails proves nothing. A build with the CMake option
// FUSION_SEEDED_BUGS (preset `seeded`) can make twelve mistakes, such as
// authors of fusion compilers make; the environment variable
// FUSION_SEEDED_BUG=N switches number N on, and whoever tests the compiler
// should notice. Without the option seededBug is the constant false and the
// compiled code is that of a source without the condition.
//
// Each mistake is one condition, `if (seededBug(N) ...)`, in one .cpp file;
// none is described elsewhere. A mistake reads and writes only memory that the
// right code may touch as well.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_SUPPORT_SEEDEDBUGS_H
#define FUSION_SUPPORT_SEEDEDBUGS_H

#ifdef FUSION_SEEDED_BUGS
#include <cstdlib>
#endif

namespace fusion {

#ifdef FUSION_SEEDED_BUGS
/// Whether the environment switches planted bug `number`, 1 to 12, on. Read
/// once in a process; no number, or a text that is none, means no bug.
inline bool seededBug(int number) {
  static const int chosen = [] {
    const char *text = std::getenv("FUSION_SEEDED_BUG");
    return text ? std::atoi(text) : 0;
  }();
  return chosen == number;
}
#else
/// Whether planted bug `number` is on: never in this build.
constexpr bool seededBug(int) { return false; }
#endif

} // namespace fusion

#endif // FUSION_SUPPORT_SEEDEDBUGS_H

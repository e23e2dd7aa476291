//===- Tuner.h - Which of a library's ways is fastest here ------*- C++ -*-===//
//
// A library names several algorithms for a call, the likely fastest first. A
// session that asks for it times them on its device, and remembers the answer
// in a file for sessions to come.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_TUNER_H
#define FUSION_RUNTIME_CUDA_TUNER_H

#include "Driver.h"
#include "ModuleData.h"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace fusion::rt::cuda {

/// What a tuner needs of the session that it works for.
struct TunerHost {
  CUstream stream = nullptr; ///< idle
  std::string device;        ///< its name
  /// Device memory within the session's limit, and back.
  std::function<Expected<char *>(uint64_t)> allocate;
  std::function<void(char *)> free;
  std::function<Status(CUstream)> wait;
};

class Tuner {
public:
  static constexpr size_t kNone = ~size_t(0);

  struct Way {
    std::string name; ///< printable, without tabs; what is remembered
    /// Puts one call on a stream, which may be captured; its operands are
    /// parts of `memory`.
    std::function<Status(CUstream stream, char *memory)> enqueue;
    /// The way that this one differs little from, an earlier one: it is timed
    /// where that is among the fastest.
    size_t base = kNone;
  };

  /// Whether a session can't go on after it: the device failed or does not
  /// answer, or the caller wants to stop.
  static bool isFatal(const Status &status);

  /// Reads what earlier sessions found. `file`: where, or empty for
  /// $XDG_CACHE_HOME/fusion/autotune.
  Tuner(const Driver &driver, TunerHost host, std::string file = {});

  /// The name that was remembered for `call`, of `library` ("cuBLASLt 13.1").
  std::optional<std::string> recall(const std::string &library,
                                    const std::string &call) const;
  /// The index of the fastest of `ways`, which is the remembered one if it is
  /// among them. 0 where nothing could be measured: a note says why. An error
  /// only if the device failed, or the caller wants to stop.
  /// `bytes`: of all operands and scratch memory together, which hold numbers
  /// of `dtype` below 1.
  Expected<size_t> choose(const std::string &library, const std::string &call,
                          DType dtype, uint64_t bytes,
                          const std::vector<Way> &ways);
  /// Writes what is new to the file, beside what others wrote meanwhile.
  void save();
  /// "bf16": for names of calls.
  static const char *typeName(DType dtype);
  /// What the user should know; each is told once.
  std::vector<std::string> takeNotes() { return std::move(notes); }

private:
  using Entries = std::map<std::string, std::string>;
  struct Timer;
  struct Race;

  static std::string defaultFile();

  std::string keyOf(const std::string &library, const std::string &call) const;
  Status fill(char *memory, uint64_t bytes, DType dtype);
  Expected<size_t> measure(char *memory, const std::vector<Way> &ways);
  /// Adds the file's entries to `entries`; false if it is not a tuner's.
  bool read(Entries &entries);
  void note(const std::string &text);

  const Driver &driver;
  TunerHost host;
  std::string file;
  Entries known, added;
  std::vector<std::string> notes;
  uint64_t random = 0x9e3779b97f4a7c15u; ///< the same in every session
  bool mayWrite = true;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_TUNER_H

//===- Library.h - Contractions and pools through oneDNN --------*- C++ -*-===//
//
// Turns a `LibraryCall` at concrete sizes into a oneDNN primitive with its
// arguments. Everything that costs time (choosing an implementation, packing
// weights) happens here, once; executing is `dnnl_primitive_execute`.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CPU_LIBRARY_H
#define FUSION_RUNTIME_CPU_LIBRARY_H

#include "ModuleData.h"
#include "Status.h"

#include <dnnl.hpp>

#include <map>
#include <memory>
#include <tuple>

namespace fusion::rt {

/// A primitive and its memory arguments; addresses are set by the executor.
struct PreparedCall {
  dnnl::primitive primitive;
  dnnl::memory input, weights, bias, output, scratchpad;
  /// Weights that are not constant and need another layout are reordered
  /// before each execution, from `plainWeights` to `weights`.
  dnnl::primitive reorder;
  dnnl::memory plainWeights;
  uint64_t scratchpadOffset = 0; ///< in the plan's scratchpad
  std::vector<dnnl_exec_arg_t> arguments;
};

class Library {
public:
  Library();

  /// Prepares `call` without its addend for `rows` of the output's leading
  /// dimension at `batch` (all of them: rows < 0). `constantWeights` are the
  /// bytes of the second operand if they never change (they are then packed
  /// once), else null. Errors: `Rejected` if the library can't compute this
  /// call, `Resources`.
  Expected<PreparedCall> prepare(const LibraryCall &call,
                                 const std::string &name, int64_t batch,
                                 int64_t rows, const void *constantWeights);

  /// The stream of one thread; thread 0 always has one.
  dnnl_stream_t stream(size_t thread = 0) const {
    return streams[thread].get();
  }
  size_t streamCount() const { return streams.size(); }
  /// Makes streams for up to `count` threads.
  void reserveStreams(size_t count);
  /// Bytes of packed weights and reorder buffers so far.
  uint64_t packedBytes() const { return packed; }
  const dnnl::engine &engine() const { return cpu; }

private:
  dnnl::memory packWeights(const dnnl::memory::desc &from,
                           const dnnl::memory::desc &to, const void *data);

  dnnl::engine cpu;
  std::vector<dnnl::stream> streams;
  struct PackedWeights {
    dnnl::memory::desc from, to;
    dnnl::memory packed;
  };
  /// Packed weights by their bytes. Calls share them if they read the bytes in
  /// the same way (a product and one with the transposed do not) and want the
  /// same layout.
  std::multimap<const void *, PackedWeights> cache;
  uint64_t packed = 0;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_LIBRARY_H

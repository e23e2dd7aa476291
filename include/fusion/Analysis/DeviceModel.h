//===- DeviceModel.h - What a device can do ---------------------*- C++ -*-===//
//
// The figures of one device, from a JSON file of `share/fusion/devices` or of
// the user's. Every decision that depends on hardware asks this struct, so it
// is the same on every machine that compiles for that device. Nothing here is
// measured, and nothing asks the machine that compiles.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_DEVICEMODEL_H
#define FUSION_ANALYSIS_DEVICEMODEL_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fusion {

/// Rates that differ: elementwise arithmetic (f16 and bf16 are computed in f32,
/// integers count as f32), and products of matrices by the operands' type.
enum class Arithmetic : unsigned {
  VectorF64,
  VectorF32,
  MatrixF64,
  MatrixF32,
  MatrixTf32,
  MatrixF16,
  MatrixBf16,
  MatrixI8,
};
inline constexpr unsigned kNumArithmetic = 8;

/// Kernels that reach different shares of a device: by what decides how they
/// are emitted.
enum class KernelClass : unsigned {
  Loop,
  RowReduce,
  ColumnReduce,
  Transpose,
  Product,
  Convolution,
  Other,
  OperandSum, ///< a library's pass behind a product: the sum of an operand
  Slope,      ///< the same: times an activation's slope
};
inline constexpr unsigned kNumKernelClasses = 9;

/// How the key of a class is spelled in a device file.
llvm::StringRef getKernelClassName(KernelClass kernel);

/// How the key of a rate is spelled in a device file: `vector_flops.f32`.
std::string getArithmeticName(Arithmetic arithmetic);

/// What kernels of a class take and reach. A fit against measured times finds
/// them; without one a kernel reaches all.
struct KernelFigures {
  double fixedUs = 0;         ///< on top of the launch gap, microseconds
  double memoryShare = 1;     ///< of the bandwidths
  double arithmeticShare = 1; ///< of the rates
  double rereadShare = 1; ///< of what is read again or spilled, that is felt
  double spread = 1;      ///< blocks there are for each block that is counted
};

/// A way from one device to another.
struct DeviceLink {
  std::string name;
  double bandwidth =
      0; ///< bytes a second, one direction, all lanes of a device
  double latencyUs = 0; ///< microseconds
};

/// One way in which a library sends over a link: a fixed time, a time for each
/// hop of a ring, and the bandwidth that large messages reach.
struct CommProtocol {
  double baseUs = 0;      ///< `base_us`, microseconds
  double alphaUs = 0;     ///< `alpha_us`, microseconds a hop
  double bandwidth = 0;   ///< `beta_gbs`, here in bytes a second, a device
  bool isForSums = false; ///< `only`: "all_reduce"
};

/// A link that collectives use: the first whose `devices` hold a group.
struct CommLink {
  std::string name;
  int64_t devices = 0; ///< consecutive ranks that it connects; 0: any number
  /// The link's own figures, then those of `protocols`. The fastest is used.
  llvm::SmallVector<CommProtocol, 3> protocols;
  /// `shared_with`: other links, or "compute", that use the same wires.
  llvm::SmallVector<std::string, 1> sharedWith;
  /// Multiprocessors that are enough for NCCL on this link: products beside it
  /// leave it so many. 0: NCCL takes what it likes, products take all.
  int64_t units = 0;
  /// `send_gbs`, here in bytes a second: what permutes and all_to_alls reach,
  /// which libraries send on fewer channels than a ring. 0: as the ring.
  double sendBandwidth = 0;
};

/// Collectives, in the order of the names in a device file.
enum class CommOp {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  Permute,
};
inline constexpr unsigned kNumCommOps = 6;

/// `all_reduce`, `reduce_scatter`, ...
llvm::StringRef stringifyCommOp(CommOp op);

/// Measured times of one collective; empty, or bytes ascending.
struct CommTable {
  llvm::SmallVector<double, 0> bytes; ///< of the whole tensor
  llvm::SmallVector<double, 0> us;    ///< alone, microseconds
};

/// What one transport was measured to take on a link.
struct CommTransport {
  std::string name;                          ///< "nccl" or "peer"
  std::string link;                          ///< of `links`
  int64_t ranks = 2;                         ///< that took part
  std::array<CommTable, kNumCommOps> tables; ///< `ops`; a CommOp is the index
  /// As of DeviceComm, beside this transport; negative: not measured.
  double slowdownCompute = -1, slowdownComm = -1;
  /// Microseconds of each part beyond the first of a gather or all_to_all.
  double partUs = 0;
  /// Microseconds from the end of one collective to the first byte of the next,
  /// in a replayed step; 0: as one alone.
  double queuedUs = 0;
};

/// What collectives take, and what they cost the kernels beside them.
struct DeviceComm {
  llvm::SmallVector<CommLink, 2> links;
  llvm::SmallVector<CommTransport, 2> transports; ///< one a name and link
  double slowdownCompute = 0; ///< a kernel beside a collective: 1 + this
  double slowdownComm = 0;    ///< a collective beside a kernel: 1 + this
  /// Units that a collective holds, and bytes of memory traffic for each byte
  /// on the wire; with one of them kernels are slowed by what they lack, and
  /// `slowdownCompute` is for kernels of unknown work.
  int64_t units = 0;
  double memoryTraffic = 0;
};

/// The keys of the JSON file, in its order. All but `run_us`, `kernels` and
/// `comm` are required, unknown ones are refused. "Unit" is a streaming
/// multiprocessor or a core.
struct DeviceModel {
  std::string name;
  bool isGpu = false;             ///< `kind`: "gpu" or "cpu"
  std::string source;             ///< where the figures come from
  int64_t units = 0;              ///< multiprocessors or cores
  int64_t saturatingUnits = 0;    ///< units that use the whole bandwidth
  int64_t threadsPerBlock = 0;    ///< that emitters launch
  int64_t residentBlocks = 0;     ///< a unit, that emitters want
  int64_t blockElements = 0;      ///< elements that occupy one block
  int64_t vectorBytes = 0;        ///< widest access of a thread
  int64_t registersPerUnit = 0;   ///< 32-bit
  int64_t registersPerThread = 0; ///< 32-bit, at most
  int64_t registerOverhead = 0;   ///< 32-bit a thread: addresses, counters
  /// Fast memory of one unit: a multiprocessor's shared memory, a core's own
  /// cache.
  int64_t sharedBytesPerUnit = 0;
  int64_t sharedBytesPerBlock = 0;
  int64_t parameterBytes = 0; ///< of a kernel's arguments
  int64_t cacheBytes = 0;     ///< last level, shared by the units
  double cacheBandwidth = 0;  ///< bytes a second
  int64_t streams = 1; ///< kernels that run side by side, each on its stream
  int64_t memoryBytes = 0;
  double memoryBandwidth = 0; ///< bytes a second
  double launchGapUs = 0;     ///< between two dependent launches, microseconds
  /// What a whole run takes beyond its kernels, microseconds.
  double runUs = 0;
  /// Operations a second of all units; an Arithmetic is the index.
  std::array<double, kNumArithmetic> flops = {};
  /// A KernelClass is the index.
  std::array<KernelFigures, kNumKernelClasses> kernels = {};
  llvm::SmallVector<DeviceLink, 2> links;
  std::optional<DeviceComm> comm;
  /// SHA-256 of the file's bytes, in hexadecimal.
  std::string hash;

  double getFlops(Arithmetic arithmetic) const {
    return flops[static_cast<unsigned>(arithmetic)];
  }
  const KernelFigures &getKernel(KernelClass kernel) const {
    return kernels[static_cast<unsigned>(kernel)];
  }

  /// The file's form; parses to the same figures.
  void print(llvm::raw_ostream &os) const;

  /// Reads the text of a file. Errors say `path:line`, the key and what it
  /// must be; their code is `invalid_argument`.
  static llvm::Expected<DeviceModel> parse(llvm::StringRef text,
                                           llvm::StringRef path);

  /// Reads the file of a shipped device by its name, or any file by a path (a
  /// `/`, or `.json` at the end). Besides parse's errors: code
  /// `no_such_file_or_directory` if there is none, with the names there are.
  static llvm::Expected<DeviceModel> load(llvm::StringRef nameOrPath);
};

/// The folder of the shipped devices: `../share/fusion/devices` of the tool, or
/// of the library that holds this code. Empty if there is none.
std::string findDeviceFolder();

} // namespace fusion

#endif // FUSION_ANALYSIS_DEVICEMODEL_H

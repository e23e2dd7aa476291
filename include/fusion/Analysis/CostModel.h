//===- CostModel.h - Predicted time of a kernel -----------------*- C++ -*-===//
//
// Two steps: what a kernel does (KernelWork: bytes, operations, blocks), read
// from its ops, and how long a device takes for it (CostModel). A plugin can
// replace the second: registerCostModel, then `--cost-model=NAME`. All passes
// that decide by cost ask it: vertical and horizontal fusion, projections,
// cuts. Predictions are pure functions of their arguments.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_COSTMODEL_H
#define FUSION_ANALYSIS_COSTMODEL_H

#include "fusion/Analysis/DeviceModel.h"
#include "fusion/Analysis/FusionRules.h"
#include "fusion/IR/FusionDialect.h"

#include <functional>
#include <memory>
#include <optional>

namespace fusion {

class FusionLegality;

/// What one kernel does, at the largest batch.
struct KernelWork {
  /// Bytes read from and written to memory; each input counts once.
  double memoryBytes = 0;
  /// Bytes read that an earlier kernel left in the last-level cache.
  double cachedBytes = 0;
  /// Bytes read once more from the last-level cache, because they left the
  /// fast memory of the unit that had them: on top of all else.
  double rereadBytes = 0;
  /// Bytes moved once more from and to memory, because they left the last-level
  /// cache: on top of all else.
  double spilledBytes = 0;
  /// Operations; an Arithmetic is the index.
  std::array<double, kNumArithmetic> flops = {};
  /// Independent blocks: a kernel of few leaves units idle.
  double blocks = 0;
  /// Of several in one kernel, the class of the one that moves most bytes.
  KernelClass kernel = KernelClass::Other;

  double getBytes() const { return memoryBytes + cachedBytes; }
  double getFlops() const;
  /// The work of one kernel that does both.
  KernelWork &operator+=(const KernelWork &other);
  void print(llvm::raw_ostream &os) const;
};

/// The work of a kernel made of `ops`, which are in program order, without
/// repetitions. `escapes` tells whether an op's value is read outside.
KernelWork
computeKernelWork(llvm::ArrayRef<mlir::Operation *> ops,
                  llvm::function_ref<bool(mlir::Operation *)> escapes,
                  const FusionLegality &legality, const DeviceModel &device);

/// The work of a finished group; of all members if it is horizontal.
KernelWork computeKernelWork(GroupOp group, const FusionLegality &legality,
                             const DeviceModel &device);

/// Adds what a product reads again: its weights once for each further block of
/// rows, where they are too many for the fast memory of a unit. `weightBytes`
/// are those of one product, `products` of which (batches) have `rows` each.
void addRereads(KernelWork &work, double weightBytes, double rows,
                double products, const DeviceModel &device);

/// Adds the way to memory and back of values that wait for their readers in the
/// last-level cache, as far as there are more than it holds.
void addSpills(KernelWork &work, double waitingBytes,
               const DeviceModel &device);

/// A kernel that writes once more what an earlier one left.
KernelWork computeCopyWork(double bytes, double elements,
                           const DeviceModel &device);

/// Times in microseconds.
class CostModel {
public:
  explicit CostModel(DeviceModel device) : device(std::move(device)) {}
  virtual ~CostModel() = default;

  const DeviceModel &getDevice() const { return device; }

  /// Time that one launch adds to a sequence of dependent launches: its gap and
  /// its execution.
  virtual double getMicroseconds(const KernelWork &work) const = 0;

  /// Time of several independent kernels on the device's streams, up to the
  /// point where all have ended: as many at a time as there are streams, which
  /// take no less than the longest, nor than one kernel that does the work of
  /// all; then one launch gap, in which the streams are joined. On a device
  /// with one stream, the time of one after the other.
  virtual double
  getConcurrentMicroseconds(llvm::ArrayRef<KernelWork> works) const;

private:
  DeviceModel device;
};

using CostModelFactory =
    std::function<std::unique_ptr<CostModel>(DeviceModel device)>;

/// Makes a model known under `name`; a second one of that name replaces the
/// first. Thread safe. Called by plugins when they are loaded.
void registerCostModel(llvm::StringRef name, CostModelFactory factory);

/// The model of that name: `roofline`, or one of a plugin. Fails with the names
/// there are.
llvm::Expected<std::unique_ptr<CostModel>> createCostModel(llvm::StringRef name,
                                                           DeviceModel device);

/// For passes: the model `name` of the device (DeviceModel::load). Emits an
/// error without a location if there is no such model or device, or its file is
/// broken.
mlir::FailureOr<std::unique_ptr<CostModel>>
loadCostModel(mlir::MLIRContext *context, llvm::StringRef device,
              llvm::StringRef name);

/// Whether replacing some kernels by others pays.
struct FusionProfit {
  /// NoGain or ComputeDensity where it doesn't; nullopt where it does.
  std::optional<FusionRule> refusal;
  double beforeUs = 0, afterUs = 0;
  /// Percent of arithmetic added, and that may be; 0 where none was weighed.
  int64_t value = 0, limit = 0;
};

/// Compares the predicted times of dependent kernels `before` with those of
/// `after`, which compute the same. Arithmetic may be added by no more percent
/// than four times those of the bytes saved, unless it takes less than a tenth
/// of a launch gap.
FusionProfit predictProfit(const CostModel &model,
                           llvm::ArrayRef<KernelWork> before,
                           llvm::ArrayRef<KernelWork> after);

/// Independent kernels as one launch, one after the other, or side by side.
enum class LaunchChoice { Fused, Serial, Streams };

/// The three ways in microseconds, and the fastest; of equal ones the first.
struct LaunchAlternatives {
  LaunchChoice choice = LaunchChoice::Fused;
  double fusedUs = 0, serialUs = 0, streamsUs = 0;
};

/// Compares independent kernels `apart` with those that would compute the same
/// together: one launch, and what it needs behind it.
LaunchAlternatives compareLaunches(const CostModel &model,
                                   llvm::ArrayRef<KernelWork> apart,
                                   llvm::ArrayRef<KernelWork> fused);

/// The default: the launch gap and the fixed time of the kernel's class, plus
/// the longer of bytes / bandwidth and operations / peak, of which the class
/// reaches its share and a kernel of few blocks its share of that, plus what is
/// read again and spilled.
inline constexpr llvm::StringLiteral kRooflineModel = "roofline";

} // namespace fusion

#endif // FUSION_ANALYSIS_COSTMODEL_H

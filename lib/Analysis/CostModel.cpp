//===- CostModel.cpp - Predicted time of a kernel -------------------------===//
//
// The roofline model and the registry of models.
//
// Source of the model: S. Williams, A. Waterman, D. Patterson, "Roofline: an
// insightful visual performance model for multicore architectures", 2009. The
// shares of a kernel with few blocks and of each class of kernels, the launch
// gap and the fixed times are added to it.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CostModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

using namespace fusion;

double KernelWork::getFlops() const {
  double sum = 0;
  for (double amount : flops)
    sum += amount;
  return sum;
}

KernelWork &KernelWork::operator+=(const KernelWork &other) {
  if (other.getBytes() > getBytes())
    kernel = other.kernel;
  memoryBytes += other.memoryBytes;
  cachedBytes += other.cachedBytes;
  rereadBytes += other.rereadBytes;
  spilledBytes += other.spilledBytes;
  for (auto [mine, theirs] : llvm::zip_equal(flops, other.flops))
    mine += theirs;
  blocks += other.blocks;
  return *this;
}

void KernelWork::print(llvm::raw_ostream &os) const {
  os << llvm::format("%.0f bytes of memory, %.0f of cache, %.0f read again, "
                     "%.0f spilled, %.0f flops, %.0f blocks\n",
                     memoryBytes, cachedBytes, rereadBytes, spilledBytes,
                     getFlops(), blocks);
}

double
CostModel::getConcurrentMicroseconds(llvm::ArrayRef<KernelWork> works) const {
  size_t streams = getDevice().streams;
  double sum = 0;
  if (works.size() < 2 || streams < 2) {
    for (const KernelWork &work : works)
      sum += getMicroseconds(work);
    return sum;
  }
  for (; !works.empty();
       works = works.drop_front(std::min(streams, works.size()))) {
    KernelWork together;
    double longest = 0;
    for (const KernelWork &work : works.take_front(streams)) {
      together += work;
      longest = std::max(longest, getMicroseconds(work));
    }
    sum += std::max(longest, getMicroseconds(together));
  }
  return sum + getDevice().launchGapUs;
}

LaunchAlternatives fusion::compareLaunches(const CostModel &model,
                                           llvm::ArrayRef<KernelWork> apart,
                                           llvm::ArrayRef<KernelWork> fused) {
  LaunchAlternatives answer;
  for (const KernelWork &work : fused)
    answer.fusedUs += model.getMicroseconds(work);
  for (const KernelWork &work : apart)
    answer.serialUs += model.getMicroseconds(work);
  answer.streamsUs = model.getConcurrentMicroseconds(apart);
  if (answer.serialUs < answer.fusedUs)
    answer.choice = LaunchChoice::Serial;
  if (answer.streamsUs < std::min(answer.serialUs, answer.fusedUs))
    answer.choice = LaunchChoice::Streams;
  return answer;
}

//===----------------------------------------------------------------------===//
// Profit
//===----------------------------------------------------------------------===//

/// Arithmetic that takes less than this share of a launch gap is not weighed.
static constexpr double kNegligible = 0.1;

/// Percent of arithmetic that may be added for a percent of the bytes saved: a
/// device has arithmetic to spare where kernels are bound by memory, but not
/// any amount. Between "a tenth more for half the bytes" (1/5), which pays, and
/// "ten times for a fifth of the bytes" (45), which does not.
static constexpr int64_t kDensity = 4;

/// The largest percentage that is told.
static constexpr int64_t kMostPercent = 1'000'000;

/// A share in percent that fits a remark; `up` rounds against the fusion.
static int64_t toPercent(double part, double whole, bool up) {
  if (whole <= 0)
    return part > 0 ? kMostPercent : 0;
  double percent = 100 * part / whole;
  percent = up ? std::ceil(percent) : std::floor(percent);
  return std::clamp<double>(percent, -kMostPercent, kMostPercent);
}

FusionProfit fusion::predictProfit(const CostModel &model,
                                   llvm::ArrayRef<KernelWork> before,
                                   llvm::ArrayRef<KernelWork> after) {
  FusionProfit profit;
  KernelWork all, now;
  for (const KernelWork &work : before) {
    all += work;
    profit.beforeUs += model.getMicroseconds(work);
  }
  for (const KernelWork &work : after) {
    now += work;
    profit.afterUs += model.getMicroseconds(work);
  }
  double addedSeconds = 0;
  for (auto [old, current, rate] :
       llvm::zip_equal(all.flops, now.flops, model.getDevice().flops))
    addedSeconds += (current - old) / rate;
  if (1e6 * addedSeconds > kNegligible * model.getDevice().launchGapUs) {
    profit.value = toPercent(now.getFlops() - all.getFlops(), all.getFlops(),
                             /*up=*/true);
    profit.limit = kDensity * toPercent(all.getBytes() - now.getBytes(),
                                        all.getBytes(), /*up=*/false);
    if (profit.value > profit.limit) {
      profit.refusal = FusionRule::ComputeDensity;
      return profit;
    }
  }
  if (profit.afterUs > profit.beforeUs)
    profit.refusal = FusionRule::NoGain;
  return profit;
}

//===----------------------------------------------------------------------===//
// Roofline
//===----------------------------------------------------------------------===//

namespace {

class RooflineModel : public CostModel {
public:
  using CostModel::CostModel;

  double getMicroseconds(const KernelWork &work) const override {
    const DeviceModel &device = getDevice();
    const KernelFigures &reached = device.getKernel(work.kernel);
    double blocks = std::max(work.blocks * reached.spread, 1.0);
    double ofUnits = std::min(1.0, blocks / device.units);
    double ofBandwidth = std::min(1.0, blocks / device.saturatingUnits);
    double memory = work.memoryBytes / device.memoryBandwidth +
                    work.cachedBytes / device.cacheBandwidth;
    double again = (work.rereadBytes / device.cacheBandwidth +
                    work.spilledBytes / device.memoryBandwidth) *
                   reached.rereadShare;
    double arithmetic = 0;
    for (auto [amount, rate] : llvm::zip_equal(work.flops, device.flops))
      arithmetic += amount / rate;
    ofBandwidth *= reached.memoryShare;
    ofUnits *= reached.arithmeticShare;
    return device.launchGapUs + reached.fixedUs +
           1e6 * (std::max(memory / ofBandwidth, arithmetic / ofUnits) +
                  again / ofBandwidth);
  }
};

/// The models by name.
struct Registry {
  std::mutex mutex;
  std::map<std::string, CostModelFactory> factories;

  Registry() {
    factories[kRooflineModel.str()] = [](DeviceModel device) {
      return std::make_unique<RooflineModel>(std::move(device));
    };
  }
};

} // namespace

static Registry &getRegistry() {
  static Registry registry;
  return registry;
}

void fusion::registerCostModel(llvm::StringRef name, CostModelFactory factory) {
  Registry &registry = getRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.factories[name.str()] = std::move(factory);
}

llvm::Expected<std::unique_ptr<CostModel>>
fusion::createCostModel(llvm::StringRef name, DeviceModel device) {
  Registry &registry = getRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto it = registry.factories.find(name.str());
  if (it != registry.factories.end())
    return it->second(std::move(device));
  std::string names =
      llvm::join(llvm::map_range(registry.factories,
                                 [](const auto &entry) { return entry.first; }),
                 ", ");
  return llvm::createStringError(
      std::make_error_code(std::errc::invalid_argument),
      "unknown cost model '" + name + "', --cost-model, the models are: " +
          names + "; a plugin can add one");
}

mlir::FailureOr<std::unique_ptr<CostModel>>
fusion::loadCostModel(mlir::MLIRContext *context, llvm::StringRef device,
                      llvm::StringRef name) {
  auto fail = [&](llvm::Error error) {
    return mlir::emitError(mlir::UnknownLoc::get(context),
                           llvm::toString(std::move(error)));
  };
  llvm::Expected<DeviceModel> figures = DeviceModel::load(device);
  if (!figures)
    return fail(figures.takeError());
  llvm::Expected<std::unique_ptr<CostModel>> model =
      createCostModel(name, std::move(*figures));
  if (!model)
    return fail(model.takeError());
  return std::move(*model);
}

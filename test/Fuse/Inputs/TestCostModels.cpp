//===- TestCostModels.cpp - Cost models in a plugin -----------------------===//
//
// Models that no device has, so that a test sees which one decided:
// `test-square`, in which a kernel takes the square of its bytes, so that any
// sharing of a launch is a loss; `test-side-by-side`, in which streams take no
// time; `test-endless`, in which a kernel takes no finite time.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CostModel.h"

#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

#include <limits>

using namespace fusion;

namespace {

struct Square : CostModel {
  using CostModel::CostModel;
  double getMicroseconds(const KernelWork &work) const override {
    return work.getBytes() * work.getBytes();
  }
  double
  getConcurrentMicroseconds(llvm::ArrayRef<KernelWork> works) const override {
    double sum = 0;
    for (const KernelWork &work : works)
      sum += getMicroseconds(work);
    return sum;
  }
};

struct SideBySide : CostModel {
  using CostModel::CostModel;
  double getMicroseconds(const KernelWork &) const override { return 5; }
  double getConcurrentMicroseconds(llvm::ArrayRef<KernelWork>) const override {
    return 0;
  }
};

struct Endless : CostModel {
  using CostModel::CostModel;
  double getMicroseconds(const KernelWork &work) const override {
    return work.getBytes() < 100 ? std::numeric_limits<double>::infinity()
                                 : std::numeric_limits<double>::quiet_NaN();
  }
  double getConcurrentMicroseconds(llvm::ArrayRef<KernelWork>) const override {
    return -std::numeric_limits<double>::infinity();
  }
};

template <typename Model> std::unique_ptr<CostModel> make(DeviceModel device) {
  return std::make_unique<Model>(std::move(device));
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK
    __attribute__((visibility("default"))) mlir::PassPluginLibraryInfo
    mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "TestCostModels", LLVM_VERSION_STRING, [] {
            registerCostModel("test-square", make<Square>);
            registerCostModel("test-side-by-side", make<SideBySide>);
            registerCostModel("test-endless", make<Endless>);
          }};
}

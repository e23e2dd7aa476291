//===- AnalysisFixture.h - A parsed function and a round device -*- C++ -*-===//
#ifndef FUSION_TEST_UNIT_ANALYSIS_ANALYSISFIXTURE_H
#define FUSION_TEST_UNIT_ANALYSIS_ANALYSISFIXTURE_H

#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/FusionLegality.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <string>

namespace fusion::test {

/// A GPU of round figures: 1e12 bytes/s, 1e13 flops, launch gap 2 us.
inline std::string getRoundDevice() {
  return R"({
  "name": "round", "kind": "gpu", "source": "made up for tests",
  "units": 100, "saturating_units": 50, "streams": 4,
  "threads_per_block": 256, "resident_blocks": 2, "block_elements": 1024,
  "vector_bytes": 16,
  "registers_per_unit": 65536, "registers_per_thread": 255,
  "register_overhead": 24,
  "shared_bytes_per_unit": 100000, "shared_bytes_per_block": 50000,
  "parameter_bytes": 4096,
  "cache_bytes": 4000000, "cache_bandwidth": 4e12,
  "memory_bytes": 80e9, "memory_bandwidth": 1e12, "launch_gap_us": 2,
  "vector_flops": {"f64": 5e12, "f32": 1e13},
  "matrix_flops": {"f64": 1e13, "f32": 1e13, "tf32": 1e14, "f16": 2e14,
                   "bf16": 2e14, "i8": 4e14},
  "links": [{"name": "wire", "bandwidth": 1e11, "latency_us": 1.5}]
})";
}

inline DeviceModel makeRoundDevice() {
  return llvm::cantFail(DeviceModel::parse(getRoundDevice(), "round.json"));
}

/// A module with a function @main, and the legality of its groups.
struct Parsed {
  explicit Parsed(llvm::StringRef text) {
    mlir::DialectRegistry registry;
    registry.insert<FusionDialect, mlir::func::FuncDialect>();
    context.appendDialectRegistry(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    main = module->lookupSymbol<mlir::func::FuncOp>("main");
    legality = std::make_unique<FusionLegality>(
        llvm::cantFail(toExpected(FusionLegality::create(main, {}))));
    for (mlir::Operation &op : main.getBody().front().without_terminator())
      ops.push_back(&op);
  }

  /// Whether the function returns a value of `op`.
  bool escapes(mlir::Operation *op) const {
    return llvm::any_of(op->getUsers(), [](mlir::Operation *user) {
      return user->hasTrait<mlir::OpTrait::IsTerminator>();
    });
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp main;
  std::unique_ptr<FusionLegality> legality;
  llvm::SmallVector<mlir::Operation *> ops;

private:
  template <typename T>
  static llvm::Expected<T> toExpected(mlir::FailureOr<T> value) {
    if (mlir::failed(value))
      return llvm::createStringError("no legality");
    return std::move(*value);
  }
};

} // namespace fusion::test

#endif // FUSION_TEST_UNIT_ANALYSIS_ANALYSISFIXTURE_H

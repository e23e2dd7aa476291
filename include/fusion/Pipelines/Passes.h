//===- Passes.h - Passes over more than one phase ---------------*- C++ -*-===//
#ifndef FUSION_PIPELINES_PASSES_H
#define FUSION_PIPELINES_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Pipelines/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fusion/Pipelines/Passes.h.inc"

} // namespace fusion

#endif // FUSION_PIPELINES_PASSES_H

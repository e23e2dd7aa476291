//===- FusionOps.td - All ops of the dialect ------------------------------===//
#ifndef FUSION_IR_FUSIONOPS_TD
#define FUSION_IR_FUSIONOPS_TD

include "fusion/IR/ActivationOps.td"
include "fusion/IR/BinaryOps.td"
include "fusion/IR/CollectiveOps.td"
include "fusion/IR/GradientOps.td"
include "fusion/IR/NamedOps.td"
include "fusion/IR/ProgramOps.td"
include "fusion/IR/SelectOps.td"
include "fusion/IR/StructuralOps.td"
include "fusion/IR/StructureOps.td"
include "fusion/IR/UnaryOps.td"

#endif // FUSION_IR_FUSIONOPS_TD

//===- Tolerances.cpp - How near a result of one op must be ---------------===//
//
// Which class each op belongs to, and the numbers of each class by element
// type. Sums of products have a bound that no correct implementation exceeds,
// for which the sums of absolute values are evaluated with the op's own rule in
// f64.
//
//===----------------------------------------------------------------------===//

#include "OpRules.h"
#include "fusion/Reference/Compare.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace fusion;
using namespace fusion::reference;

static AccuracyClass classOf(ReduceKind kind) {
  return kind == ReduceKind::Max || kind == ReduceKind::Min
             ? AccuracyClass::Exact
             : AccuracyClass::Contraction;
}

llvm::Expected<AccuracyClass>
fusion::reference::getAccuracyClass(mlir::Operation *op) {
  using Class = std::optional<AccuracyClass>;
  Class found =
      llvm::TypeSwitch<mlir::Operation *, Class>(op)
          // Moves, and results that are one of the operands or exact.
          .Case<ConstantOp, GetParameterOp, BroadcastOp, ReshapeOp, TransposeOp,
                SliceOp, ReverseOp, ConcatOp, PadOp, GatherOp, GatherNdOp,
                UpdateSliceOp, IotaOp, RngUniformOp, ArgMaxOp, ArgMinOp,
                MaxPoolOp, AfterOp, CompareOp, SelectOp, ClampOp, CastOp,
                IsNanOp, IsInfOp, NegOp, AbsOp, SignOp, CeilOp, FloorOp,
                RoundOp, NotOp, ReluOp, MaxOp, MinOp, RemOp, AndOp, OrOp, XorOp,
                ShiftLeftOp, ShiftRightOp, AxisIndexOp, RankConcatOp,
                RankSliceOp, AllGatherOp, AllToAllOp, CollectiveBroadcastOp,
                CollectivePermuteOp>([](auto) { return AccuracyClass::Exact; })
          .Case<AddOp, SubOp, MulOp, DivOp, SqrtOp, ReciprocalOp>(
              [](auto) { return AccuracyClass::Rounded; })
          .Case<RsqrtOp, ExpOp, Exp2Op, Expm1Op, LogOp, Log2Op, Log1pOp, SinOp,
                CosOp, TanOp, AsinOp, AcosOp, AtanOp, SinhOp, CoshOp, AsinhOp,
                AcoshOp, AtanhOp, TanhOp, ErfOp, PowOp, Atan2Op, LeakyReluOp>(
              [](auto) { return AccuracyClass::Transcendental; })
          // Formulas of several roundings, some of which cancel.
          .Case<SigmoidOp, SiluOp, SoftplusOp, MishOp, EluOp, GeluOp,
                HardSwishOp, HardSigmoidOp, BatchNormOp, BatchNormTrainingOp,
                LayerNormOp, RmsNormOp, SoftmaxOp, LogSoftmaxOp, AttentionOp,
                AttentionGradOp, RopeOp>(
              [](auto) { return AccuracyClass::Composite; })
          .Case<MatmulOp, ConvOp, ConvTransposeOp, AvgPoolOp, MaxPoolGradOp>(
              [](auto) { return AccuracyClass::Contraction; })
          .Case<ReduceOp, AllReduceOp, ReduceScatterOp>(
              [](auto reduction) { return classOf(reduction.getKind()); })
          .Case([](ScatterOp scatter) {
            return scatter.getKind() == ScatterKind::Add
                       ? AccuracyClass::Contraction
                       : AccuracyClass::Exact;
          })
          .Default([](mlir::Operation *) { return std::nullopt; });
  if (found)
    return *found;
  return failAt(op, FailureKind::Program,
                "it computes no values; compare the ops inside or around it");
}

Criterion fusion::reference::makeContractionBound(int64_t terms,
                                                  ElementKind accumulator,
                                                  const Tensor &magnitudes,
                                                  const Tensor &want) {
  ElementKind kind = want.getKind();
  double accumulated = (terms + 4.0) * getUnitRoundoff(accumulator);
  // Below the normal numbers the last place stops shrinking.
  double halfLeast = decodeFloat(1, kind) / 2;
  std::vector<double> bounds(want.getNumElements());
  for (int64_t i = 0; i < want.getNumElements(); ++i)
    // The reference's own rounding and that of the result.
    bounds[i] = accumulated * magnitudes.getFloat(i) +
                2 * getUnitRoundoff(kind) * std::fabs(want.getFloat(i)) +
                halfLeast;
  return Criterion::makeBound(std::move(bounds));
}

/// How many terms the sum of one element has at most, the bias included.
static int64_t countTerms(mlir::Operation *op, Tensors inputs,
                          const Tensor &want) {
  auto product = [](llvm::ArrayRef<int64_t> sizes) {
    return getNumElements(sizes).value_or(0);
  };
  return llvm::TypeSwitch<mlir::Operation *, int64_t>(op)
      .Case([&](MatmulOp matmul) {
        return inputs[0].getDim(inputs[0].getRank() -
                                (matmul.getTransposeLhs() ? 2 : 1));
      })
      .Case([&](ConvOp) {
        return product(inputs[1].getShape().drop_front(1)) + 1;
      })
      .Case([&](ConvTransposeOp conv) {
        return product(inputs[1].getShape()) / inputs[1].getDim(1) /
                   static_cast<int64_t>(conv.getGroups()) +
               1;
      })
      .Case<AvgPoolOp, MaxPoolGradOp>(
          [&](auto pool) { return product(pool.getWindow()); })
      .Case([&](ReduceOp) {
        int64_t results = std::max<int64_t>(want.getNumElements(), 1);
        return inputs[0].getNumElements() / results;
      })
      .Case([&](ScatterOp) {
        return product(inputs[1].getShape().drop_back()) + 1;
      })
      .Default([](mlir::Operation *) { return 0; });
}

/// The op on the absolute values of its float operands, in f64.
static llvm::Expected<Tensor> evaluateMagnitudes(mlir::Operation *op,
                                                 Tensors inputs) {
  std::vector<Tensor> absolute;
  for (const Tensor &input : inputs) {
    // The elements of max_pool_grad's input choose, they are no terms.
    bool chooses = llvm::isa<MaxPoolGradOp>(op) && &input == inputs.data();
    if (!input.isFloat()) {
      absolute.push_back(input);
      continue;
    }
    llvm::Expected<Tensor> copy =
        Tensor::create(ElementKind::F64, input.getShape());
    if (!copy)
      return copy;
    for (int64_t i = 0; i < input.getNumElements(); ++i)
      copy->setFloat(i, chooses ? input.getFloat(i)
                                : std::fabs(input.getFloat(i)));
    absolute.push_back(std::move(*copy));
  }
  const RuleTable::Rule *rule = getRules().find(op->getName().getStringRef());
  Results results = (*rule)(op, absolute, OpContext());
  if (!results)
    return results.takeError();
  return results->front();
}

llvm::Expected<Criterion> fusion::reference::getCriterion(
    mlir::Operation *op, llvm::ArrayRef<Tensor> inputs, const Tensor &want) {
  llvm::Expected<AccuracyClass> accuracy = getAccuracyClass(op);
  if (!accuracy)
    return accuracy.takeError();
  if (!want.isFloat())
    return Criterion::makeBits();
  ElementKind kind = want.getKind();
  bool narrow = kind == ElementKind::F16 || kind == ElementKind::BF16;
  switch (*accuracy) {
  case AccuracyClass::Exact:
  case AccuracyClass::Rounded:
    return Criterion::makeBits();
  case AccuracyClass::Transcendental:
    return Criterion::makeUlps(narrow ? 1 : 2);
  case AccuracyClass::Composite:
    // f32: 1.3e-6 times a depth of 4 roundings that add up.
    switch (kind) {
    case ElementKind::F64:
      return Criterion::makeRelative(1e-10, 1e-12);
    case ElementKind::F32:
      return Criterion::makeRelative(5.2e-6, 1e-5);
    case ElementKind::F16:
      return Criterion::makeRelative(4e-3, 1e-5);
    default:
      return Criterion::makeRelative(1.6e-2, 1e-5);
    }
  case AccuracyClass::Contraction:
    break;
  }
  if (llvm::isa<AllReduceOp, ReduceScatterOp>(op))
    return failAt(op, FailureKind::Program,
                  "its bound needs the operands of all ranks; use "
                  "makeContractionBound");
  llvm::Expected<Tensor> magnitudes = evaluateMagnitudes(op, inputs);
  if (!magnitudes)
    return magnitudes.takeError();
  // A scatter adds to its result, in the result's own type.
  bool isWide = narrow && !llvm::isa<ScatterOp>(op);
  return makeContractionBound(countTerms(op, inputs, want),
                              isWide ? ElementKind::F32 : kind, *magnitudes,
                              want);
}

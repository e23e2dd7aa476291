//===- Compare.cpp - Are two tensors equal, and how nearly ----------------===//

#include "fusion/Reference/Compare.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>

using namespace fusion::reference;

Criterion Criterion::makeUlps(double ulps) {
  Criterion criterion;
  criterion.mode = Mode::Ulps;
  criterion.ulps = ulps;
  return criterion;
}

Criterion Criterion::makeRelative(double rtol, double atol) {
  Criterion criterion;
  criterion.mode = Mode::Relative;
  criterion.rtol = rtol;
  criterion.atol = atol;
  return criterion;
}

Criterion Criterion::makeBound(std::vector<double> bounds) {
  Criterion criterion;
  criterion.mode = Mode::Bound;
  criterion.bounds = std::move(bounds);
  return criterion;
}

double fusion::reference::ulpDistance(double a, double b, ElementKind kind) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b)
               ? 0
               : std::numeric_limits<double>::infinity();
  // Magnitudes of IEEE formats are ordered as their bits: the distance of two
  // values is the number of steps between them, through zero if signs differ.
  double left = static_cast<double>(encodeFloat(std::fabs(a), kind));
  double right = static_cast<double>(encodeFloat(std::fabs(b), kind));
  if (std::signbit(a) != std::signbit(b))
    return left + right;
  if (kind != ElementKind::F64)
    return std::fabs(left - right);
  uint64_t x = encodeFloat(std::fabs(a), kind);
  uint64_t y = encodeFloat(std::fabs(b), kind);
  return static_cast<double>(x > y ? x - y : y - x);
}

double fusion::reference::getUnitRoundoff(ElementKind kind) {
  return std::ldexp(1.0, -static_cast<int>(getPrecision(kind)));
}

/// Whether two floats agree; `bound` is for mode `Bound`.
static bool agree(double got, double want, ElementKind kind,
                  const Criterion &criterion, double bound) {
  if (std::isnan(got) || std::isnan(want))
    return std::isnan(got) && std::isnan(want);
  if (criterion.mode == Criterion::Mode::Bits)
    return got == want && std::signbit(got) == std::signbit(want);
  if (std::isinf(got) || std::isinf(want))
    return got == want;
  switch (criterion.mode) {
  case Criterion::Mode::Ulps:
    return ulpDistance(got, want, kind) <= criterion.ulps;
  case Criterion::Mode::Relative:
    return std::fabs(got - want) <=
           criterion.atol + criterion.rtol * std::fabs(want);
  default:
    return std::fabs(got - want) <= bound;
  }
}

static std::string describeIndex(const Tensor &tensor, int64_t offset) {
  llvm::SmallVector<int64_t> index(tensor.getRank());
  for (int64_t dim = tensor.getRank() - 1; dim >= 0; --dim) {
    index[dim] = offset % tensor.getDim(dim);
    offset /= tensor.getDim(dim);
  }
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(index, os);
  os << "]";
  return text;
}

static void printElement(llvm::raw_ostream &os, const Tensor &tensor,
                         int64_t i) {
  if (tensor.isFloat())
    os << llvm::format("%.17g", tensor.getFloat(i));
  else
    os << tensor.getInt(i);
}

Comparison fusion::reference::compare(const Tensor &got, const Tensor &want,
                                      const Criterion &criterion) {
  Comparison result;
  llvm::raw_string_ostream os(result.message);
  if (got.getKind() != want.getKind() || got.getShape() != want.getShape()) {
    os << "got " << getName(got.getKind()) << " " << toString(got.getShape())
       << ", want " << getName(want.getKind()) << " "
       << toString(want.getShape());
    return result;
  }
  int64_t count = got.getNumElements();
  if (criterion.mode == Criterion::Mode::Bound && got.isFloat() &&
      static_cast<int64_t>(criterion.bounds.size()) != count) {
    os << "the criterion has bounds for " << criterion.bounds.size()
       << " elements, the tensors have " << count;
    return result;
  }
  for (int64_t i = 0; i < count; ++i) {
    bool good;
    if (got.isFloat()) {
      double a = got.getFloat(i), b = want.getFloat(i);
      double bound =
          criterion.mode == Criterion::Mode::Bound ? criterion.bounds[i] : 0;
      good = agree(a, b, got.getKind(), criterion, bound);
      if (std::isfinite(a) && std::isfinite(b)) {
        double distance = std::fabs(a - b);
        result.maxAbsolute = std::max(result.maxAbsolute, distance);
        if (b != 0)
          result.maxRelative =
              std::max(result.maxRelative, distance / std::fabs(b));
        result.maxUlps =
            std::max(result.maxUlps, ulpDistance(a, b, got.getKind()));
      }
    } else {
      good = got.getInt(i) == want.getInt(i);
    }
    if (good)
      continue;
    if (result.mismatches++ == 0)
      result.firstIndex = i;
  }
  result.passed = result.mismatches == 0;
  if (result.passed)
    return result;
  os << result.mismatches << " of " << count
     << " elements differ, the first at "
     << describeIndex(got, result.firstIndex) << ": got ";
  printElement(os, got, result.firstIndex);
  os << ", want ";
  printElement(os, want, result.firstIndex);
  if (got.isFloat())
    os << "; largest difference " << llvm::format("%.3g", result.maxAbsolute)
       << ", relative " << llvm::format("%.3g", result.maxRelative) << ", "
       << llvm::format("%.17g", result.maxUlps) << " ulp";
  return result;
}

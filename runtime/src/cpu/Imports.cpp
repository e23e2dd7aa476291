//===- Imports.cpp - The functions native code may call -------------------===//
//
// The C math library, by name and signature, and nothing else: native code has
// no other way to reach outside itself.
//
//===----------------------------------------------------------------------===//
#include "Imports.h"

#include <cmath>

using namespace fusion::rt;

namespace {

struct Entry {
  std::string_view name, signature;
  void *address;
};

using F32 = float(float);
using F64 = double(double);
using F32x2 = float(float, float);
using F64x2 = double(double, double);
using F32x3 = float(float, float, float);
using F64x3 = double(double, double, double);

} // namespace

#define UNARY(name)                                                            \
  {#name "f", "f32(f32)",                                                      \
   reinterpret_cast<void *>(static_cast<F32 *>(::name##f))},                   \
  {                                                                            \
    #name, "f64(f64)", reinterpret_cast<void *>(static_cast<F64 *>(::name))    \
  }
#define BINARY(name)                                                           \
  {#name "f", "f32(f32,f32)",                                                  \
   reinterpret_cast<void *>(static_cast<F32x2 *>(::name##f))},                 \
  {                                                                            \
    #name, "f64(f64,f64)",                                                     \
        reinterpret_cast<void *>(static_cast<F64x2 *>(::name))                 \
  }
#define TERNARY(name)                                                          \
  {#name "f", "f32(f32,f32,f32)",                                              \
   reinterpret_cast<void *>(static_cast<F32x3 *>(::name##f))},                 \
  {                                                                            \
    #name, "f64(f64,f64,f64)",                                                 \
        reinterpret_cast<void *>(static_cast<F64x3 *>(::name))                 \
  }

void *fusion::rt::findImport(std::string_view name,
                             std::string_view signature) {
  static const Entry table[] = {
      UNARY(acos),       UNARY(acosh),  UNARY(asin),       UNARY(asinh),
      UNARY(atan),       UNARY(atanh),  UNARY(cbrt),       UNARY(ceil),
      UNARY(cos),        UNARY(cosh),   UNARY(erf),        UNARY(erfc),
      UNARY(exp),        UNARY(exp2),   UNARY(exp10),      UNARY(expm1),
      UNARY(fabs),       UNARY(floor),  UNARY(lgamma),     UNARY(log),
      UNARY(log10),      UNARY(log1p),  UNARY(log2),       UNARY(logb),
      UNARY(nearbyint),  UNARY(rint),   UNARY(round),      UNARY(roundeven),
      UNARY(sin),        UNARY(sinh),   UNARY(sqrt),       UNARY(tan),
      UNARY(tanh),       UNARY(tgamma), UNARY(trunc),      BINARY(atan2),
      BINARY(copysign),  BINARY(fdim),  BINARY(fmax),      BINARY(fmin),
      BINARY(fmod),      BINARY(hypot), BINARY(nextafter), BINARY(pow),
      BINARY(remainder), TERNARY(fma),
  };
  for (const Entry &entry : table)
    if (entry.name == name && entry.signature == signature)
      return entry.address;
  return nullptr;
}

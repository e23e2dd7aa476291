/*===- fusion-c/Kernel.h - What a C kernel of a model may use -----*- C -*-===*\
|*
|* For the C source of a `fusion.kernel_call`. fusion-compile puts this text
|* before every source, so that a kernel compiles without an include path; a
|* line that includes it is for editors and is skipped.
|*
|* A kernel is a function
|*
|*   void entry(const X *in0, ..., Y *out0, ..., int64_t batch);
|*
|* with a pointer for each operand of the op, one for each result, and the batch
|* B of this run (1 in a model without one). fusion-compile declares it so, and
|* the C compiler refuses a definition that differs. Element types: f64 double,
|* f32 float, i8 int8_t, i32 int32_t, i64 int64_t, i1 fusion_bool, f16
|* fusion_f16, bf16 fusion_bf16. It is called once a run, from one thread.
|*
|* - Tensors are dense and row-major. A size `?` is the batch times what the
|*   model says.
|* - Pointers are aligned to FUSION_KERNEL_ALIGNMENT bytes. The pointer of a
|*   tensor without elements must not be used.
|* - No output shares a byte with an input or with another output: they may be
|*   `restrict`. The same input may be passed twice.
|* - Every element of every output must be written: what is there before is not
|*   zero. Nothing else may be written.
|* - Several sessions may run the same kernel at once: it must be thread safe.
|*   Data that it can write (static or global) is only for a kernel whose op
|*   says `side_effects`; thread-local data and constructors are for none.
|* - It may call these and nothing else; another call is refused by name.
|*     memcpy memmove memset memcmp
|*     with one argument: acos acosh asin asinh atan atanh cbrt ceil cos cosh
|*       erf erfc exp exp2 exp10 expm1 fabs floor lgamma log log10 log1p log2
|*       logb nearbyint rint round roundeven sin sinh sqrt tan tanh tgamma trunc
|*     with two: atan2 copysign fdim fmax fmin fmod hypot nextafter pow
|*       remainder
|*     with three: fma
|*   and their forms for float (expf). errno and the rounding mode are not its
|*   own to change or to read.
|*
\*===----------------------------------------------------------------------===*/
#ifndef FUSION_C_KERNEL_H
#define FUSION_C_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/** Changes when a declaration of this header changes its meaning. */
#define FUSION_KERNEL_ABI 1

/** Bytes that the pointers of a kernel are aligned to. */
#define FUSION_KERNEL_ALIGNMENT 64

/** An element of type i1: 0 or 1. */
typedef uint8_t fusion_bool;
/** The bits of an element of type f16 or bf16. */
typedef uint16_t fusion_f16;
typedef uint16_t fusion_bf16;

#endif /* FUSION_C_KERNEL_H */

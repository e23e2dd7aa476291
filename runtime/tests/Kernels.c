/*===- Kernels.c - Native code of the tests' modules ---------------------===//
//
// Kernels in the ABI that the compiler emits. VARIANT makes otherwise equal
// libraries with different results.
//
//===----------------------------------------------------------------------===*/
#include <stdint.h>

#ifndef VARIANT
#define VARIANT 0
#endif

__attribute__((visibility("default"))) void *fusion_imports[2];

#define KERNEL(name)                                                           \
  __attribute__((visibility("default"))) void name(                            \
      void *const *buffers, int64_t batch, int64_t begin, int64_t end)

/* One unit is one element: y = max(x, 0) + VARIANT. */
KERNEL(relu) {
  const float *x = (const float *)buffers[0];
  float *y = (float *)buffers[1];
  for (int64_t i = begin; i < end; ++i)
    y[i] = (x[i] < 0 ? 0 : x[i]) + VARIANT;
}

/* y = a + b. */
KERNEL(add) {
  const float *a = (const float *)buffers[0], *b = (const float *)buffers[1];
  float *y = (float *)buffers[2];
  for (int64_t i = begin; i < end; ++i)
    y[i] = a[i] + b[i];
}

/* In place: x *= 2. */
KERNEL(twice) {
  float *x = (float *)buffers[0];
  for (int64_t i = begin; i < end; ++i)
    x[i] *= 2;
}

/* y = expf(x) through the import table. */
KERNEL(exponential) {
  const float *x = (const float *)buffers[0];
  float *y = (float *)buffers[1];
  float (*call)(float) = (float (*)(float))fusion_imports[0];
  for (int64_t i = begin; i < end; ++i)
    y[i] = call(x[i]);
}

/* y = x - x / 0 * 0: a NaN everywhere. */
KERNEL(poison) {
  const float *x = (const float *)buffers[0];
  float *y = (float *)buffers[1];
  for (int64_t i = begin; i < end; ++i)
    y[i] = x[i] - (1.0f / 0.0f) * 0.0f;
}

/* Never ends. */
KERNEL(spin) {
  for (volatile int on = 1; on;)
    ;
}

#ifdef UNDEFINED
extern float fusion_missing(float);
KERNEL(broken) { *(float *)buffers[0] = fusion_missing(1); }
#endif

#ifdef CONSTRUCTOR
static volatile int touched;
__attribute__((constructor)) static void construct(void) { touched = 1; }
#endif

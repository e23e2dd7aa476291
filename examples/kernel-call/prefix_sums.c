// Running sums along rows, and the weighted median of each row: the first
// column at which the running sum reaches half of the row's total. Weights are
// not negative. No op of the dialect scans.
#include "fusion-c/Kernel.h"

enum { kColumns = 8 };

void prefix_sums(const float *restrict weights, float *restrict sums,
                 int32_t *restrict median, int64_t batch) {
  for (int64_t row = 0; row < batch; ++row) {
    const float *from = weights + row * kColumns;
    float *to = sums + row * kColumns;
    float sum = 0;
    for (int i = 0; i < kColumns; ++i)
      to[i] = sum += from[i];
    int32_t column = 0;
    while (column < kColumns - 1 && 2 * to[column] < sum)
      ++column;
    median[row] = column;
  }
}

//===- control.cu - What a sanitizer must find ----------------------------===//
//
// One mistake for each tool, so that its silence about our kernels means
// something.
//
//===----------------------------------------------------------------------===//
__global__ void control(int *memory, int *result, int mode) {
  __shared__ int slots[64];
  if (mode == 0)
    result[threadIdx.x + 32] = 1; // beyond the end
  if (mode == 1) {
    slots[threadIdx.x] = threadIdx.x; // read by the other warp, no barrier
    result[threadIdx.x % 32] = slots[63 - threadIdx.x];
  }
  if (mode == 2)
    result[threadIdx.x % 32] = memory[threadIdx.x % 32] + 1; // never written
}

int main(int, char **arguments) {
  int *memory, *result;
  if (cudaMalloc(&memory, 128) || cudaMalloc(&result, 128))
    return 2;
  control<<<1, 64>>>(memory, result, arguments[1][0] - '0');
  cudaDeviceSynchronize();
  return 0;
}

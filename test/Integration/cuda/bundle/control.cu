//===- control.cu - What a sanitizer must find ----------------------------===//
//
// One mistake for each tool, so that its silence about our kernels means
// something.
//
//===----------------------------------------------------------------------===//
__global__ void control(int *memory, int *result, int mode) {
  __shared__ int slot;
  if (mode == 0)
    result[threadIdx.x + 32] = 1; // beyond the end
  if (mode == 1) {
    slot = threadIdx.x; // by two warps, no barrier
    result[threadIdx.x % 32] = slot;
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

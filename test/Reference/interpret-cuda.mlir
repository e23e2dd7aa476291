// Graphs whose kernels are for a GPU are read and evaluated as any; the kernels' barriers and
// thread ids are of NVVM.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/npy.py write %t/x.npy "<f4" 4 1 2 3 4
// RUN: fusion-opt %s --fusion-fuse=device=h200 --fusion-codegen=target=cuda -o %t/lowered.mlir
// RUN: FileCheck %s < %t/lowered.mlir
// RUN: fusion-interpret %t/lowered.mlir --input x=%t/x.npy --output-dir %t/out
// RUN: %python %S/Inputs/npy.py show %t/out/y.npy | FileCheck %s --check-prefix=VALUES

// CHECK: nvvm.read.ptx.sreg.tid.x
// VALUES: 10
module attributes {fusion.fp = "strict", fusion.target = "cuda"} {
  func.func @main(%x: tensor<4xf32> {fusion.name = "x"}) -> (tensor<f32> {fusion.name = "y"}) {
    %0 = fusion.reduce sum, %x dims = [0] : tensor<4xf32>
    return %0 : tensor<f32>
  }
}

// What the tool writes: outputs by name, counts, every op's results.
// RUN: rm -rf %t && mkdir -p %t/in
// RUN: %python %S/Inputs/npy.py write %t/x.npy "<f4" 3 1 -2 3
// RUN: fusion-interpret %s --input x=%t/x.npy --output-dir %t/out --counts --dump-all %t/dump | FileCheck %s
// RUN: %python %S/Inputs/npy.py show %t/out/y%2F0.npy %t/out/out1.npy | FileCheck %s --check-prefix=VALUES
// RUN: FileCheck %s --check-prefix=INDEX < %t/dump/index.txt
// RUN: %python %S/Inputs/npy.py show %t/dump/000001_fusion.relu.npy | FileCheck %s --check-prefix=DUMP

// Bytecode is read as well, and inputs from an archive.
// RUN: fusion-opt %s --emit-bytecode -o %t/model.mlirbc
// RUN: %python %S/Inputs/npy.py write %t/in/x.npy "<f4" 3 4 5 -6
// RUN: %python %S/Inputs/npy.py pack %t/in.npz %t/in/x.npy
// RUN: fusion-interpret %t/model.mlirbc --inputs %t/in.npz --output-dir %t/out
// RUN: %python %S/Inputs/npy.py show %t/out/y%2F0.npy | FileCheck %s --check-prefix=ARCHIVE

// CHECK: op{{ +}}evaluations{{ +}}elements
// CHECK: fusion.add{{ +}}1{{ +}}3
// CHECK: fusion.relu{{ +}}2{{ +}}6
// VALUES: <f4 3 2 0 6
// VALUES-NEXT: <f4 3 1 0 3
// INDEX: 000000_fusion.relu f32 3 loc
// INDEX-NEXT: 000001_fusion.relu f32 3 loc
// INDEX-NEXT: 000002_fusion.add f32 3 loc
// DUMP: <f4 3 1 0 3
// ARCHIVE: <f4 3 8 10 0
func.func @main(%x: tensor<3xf32> {fusion.name = "x"}) -> (tensor<3xf32> {fusion.name = "y/0"}, tensor<3xf32>) {
  %0 = fusion.relu %x : tensor<3xf32>
  %1 = fusion.relu %0 : tensor<3xf32>
  %2 = fusion.add %0, %1 : tensor<3xf32>
  return %2, %1 : tensor<3xf32>, tensor<3xf32>
}

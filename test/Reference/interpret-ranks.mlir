// Ranks as threads: inputs shared or of one rank, outputs in folders.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/npy.py write %t/0.npy "<i8" 1 1
// RUN: %python %S/Inputs/npy.py write %t/2.npy "<i8" 1 100
// RUN: %python %S/Inputs/npy.py write %t/3.npy "<i8" 1 1000
// RUN: fusion-interpret %s --ranks 4 --input x=%t/0.npy --input x@2=%t/2.npy --input x@3=%t/3.npy --output-dir %t/out
// RUN: %python %S/Inputs/npy.py show %t/out/rank0/out0.npy %t/out/rank1/out0.npy %t/out/rank2/out0.npy %t/out/rank3/out0.npy | FileCheck %s
// CHECK: <i8 1 101
// CHECK-NEXT: <i8 1 1001
// CHECK-NEXT: <i8 1 101
// CHECK-NEXT: <i8 1 1001

// Ranks that run other functions: the op and the rank are named, exit code 3.
// RUN: not fusion-interpret %s --ranks 4 --function main --function gather@3 --random-inputs 1 --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=DESYNC
// DESYNC: error: ranks disagree on a collective: rank 1 is at fusion.all_reduce sum of i64 1 on @m[dp] ({{.*}}interpret-ranks.mlir:{{[0-9]+:[0-9]+}}); rank 3 is at fusion.all_gather dim 0 of i64 1 on @m[dp]
// RUN: not fusion-interpret %s --ranks 4 --function main --function nothing@0 --random-inputs 1 --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=DEADLOCK
// DEADLOCK: error: deadlock: {{.*}}rank 0 has finished{{.*}}rank 2 is at fusion.all_reduce sum

// RUN: not fusion-interpret %s --ranks 2 --random-inputs 1 --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: error: rank 0: 'fusion.all_reduce' at {{.*}}: mesh @m has 4 ranks, the run has 2; run it on 4 ranks
// RUN: not fusion-interpret %s --ranks 4 --input x@4=%t/0.npy --random-inputs 1 --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=RANK
// RANK: error: input 'x@4' is given, but no function that runs takes it
fusion.mesh @m(dp = 2, tp = 2)
func.func @main(%x: tensor<1xi64> {fusion.name = "x"}) -> tensor<1xi64> {
  %r = fusion.all_reduce sum, %x on @m[dp] : tensor<1xi64>
  return %r : tensor<1xi64>
}
func.func @gather(%x: tensor<1xi64> {fusion.name = "x"}) -> tensor<2xi64> {
  %r = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<1xi64>) -> tensor<2xi64>
  return %r : tensor<2xi64>
}
func.func @nothing(%x: tensor<1xi64> {fusion.name = "x"}) -> tensor<1xi64> {
  return %x : tensor<1xi64>
}

// RUN: fusion-opt %s --fusion-fuse-vertical="separate device=%S/Inputs/sheet.json" --fusion-fuse-horizontal="max-extra-bytes=1000000000 device=%S/Inputs/sheet.json" --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s
// RUN: fusion-opt %s --fusion-fuse-vertical="separate device=%S/Inputs/sheet.json" --fusion-fuse-horizontal="max-extra-bytes=1000000000 device=%S/Inputs/sheet.json" | FileCheck %s --check-prefix=GROUPS
// RUN: fusion-opt %s --fusion-fuse-vertical="separate device=cpu" --fusion-fuse-horizontal="max-extra-bytes=1000000000 device=cpu" --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=CPU

// Several streams are the third way. On this device four tanh of 20 MiB move
// 160 MiB at 4.8 TB/s: 34.95 us. With the fourth in the launch, 60 MiB wait in
// 52.4 MB of cache: 10.5 MB go to memory and back in 4.37 us, which is more than
// the launch gap of 2 us that joins streams. A CPU has no streams.
// CHECK: [Passed] fuse-horizontal | {{.*}}members=3, ops=tanh
// CHECK: [Missed] horizontal-streams | {{.*}}limit=41321, ops=tanh, {{.*}}us_fused=41.32, us_serial=42.95, us_streams=38.95, value=38952
// CPU-NOT: [Missed] horizontal-streams
// CPU: [Missed] horizontal-profit | {{.*}}ops=tanh
// GROUPS: fusion.group horizontal
// GROUPS-COUNT-3: fusion.tanh
// GROUPS: fusion.group loop
// GROUPS-NEXT: fusion.tanh
func.func @main(%a: tensor<5242880xf32>, %b: tensor<5242880xf32>, %c: tensor<5242880xf32>, %d: tensor<5242880xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = fusion.tanh %a : tensor<5242880xf32>
  %s0 = fusion.reduce sum, %0 dims = [0] : tensor<5242880xf32>
  %1 = fusion.tanh %b : tensor<5242880xf32>
  %s1 = fusion.reduce sum, %1 dims = [0] : tensor<5242880xf32>
  %2 = fusion.tanh %c : tensor<5242880xf32>
  %s2 = fusion.reduce sum, %2 dims = [0] : tensor<5242880xf32>
  %3 = fusion.tanh %d : tensor<5242880xf32>
  %s3 = fusion.reduce sum, %3 dims = [0] : tensor<5242880xf32>
  return %s0, %s1, %s2, %s3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

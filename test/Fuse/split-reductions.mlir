// RUN: fusion-opt %s --pass-pipeline='builtin.module(func.func(fusion-split-reductions{device=%S/Inputs/sheet.json}))' | FileCheck %s
// RUN: fusion-opt %s --pass-pipeline='builtin.module(func.func(fusion-split-reductions{device=%S/Inputs/sheet.json},fusion-split-reductions{device=%S/Inputs/sheet.json}))' | FileCheck %s
// RUN: fusion-opt %s --pass-pipeline='builtin.module(func.func(fusion-split-reductions{device=cpu}))' | FileCheck %s --check-prefix=CPU
// RUN: fusion-opt %s --pass-pipeline='builtin.module(func.func(fusion-split-reductions{device=%S/Inputs/sheet.json}))' --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=REMARK

// CPU-LABEL: func.func @columns
// CPU-NEXT: fusion.reduce sum
// CPU-NEXT: return

// 4096 columns are 32768 threads of 67584: two parts and more.
// CHECK-LABEL: func.func @columns
// CHECK-NEXT: %[[SPLIT:.*]] = fusion.reshape %{{.*}} : tensor<8192x4096xbf16> to tensor<4x2048x4096xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = fusion.cast %[[SPLIT]] : tensor<4x2048x4096xbf16> to tensor<4x2048x4096xf32>
// CHECK-NEXT: %[[FIRST:.*]] = fusion.reduce sum, %[[WIDE]] dims = [1]
// CHECK-NEXT: %[[SECOND:.*]] = fusion.reduce sum, %[[FIRST]] dims = [0] : tensor<4x4096xf32>
// CHECK-NEXT: fusion.cast %[[SECOND]] : tensor<4096xf32> to tensor<4096xbf16>
// CHECK-NEXT: return
// REMARK: 4096 results keep
func.func @columns(%x: tensor<8192x4096xbf16>) -> tensor<4096xbf16> {
  %0 = fusion.reduce sum, %x dims = [0] : tensor<8192x4096xbf16>
  return %0 : tensor<4096xbf16>
}

// One result of 16 million: rows of 16384, 1024 blocks for 132 units. One block
// of 256 threads has 1 of the device's 264 parts.
// CHECK-LABEL: func.func @all
// CHECK-NEXT: fusion.reshape {{.*}} to tensor<1024x4x4096xf32>
// CHECK-NEXT: fusion.reduce mean, {{.*}} dims = [1, 2] : tensor<1024x4x4096xf32>
// CHECK-NEXT: fusion.reduce mean, {{.*}} dims = [0] : tensor<1024xf32>
// REMARK: 1 results keep 0.4 % of the device busy: 1024 parts first
func.func @all(%x: tensor<4096x4096xf32>) -> tensor<f32> {
  %0 = fusion.reduce mean, %x dims = [0, 1] : tensor<4096x4096xf32>
  return %0 : tensor<f32>
}

// Rows of whole vectors of eight: for 2048 * 3 * 2729 elements, 1024 parts would
// be rows of 16374. For 2048 * 3 * 4099, no number of parts from 1441 on leaves
// such rows, but half of that does.
// CHECK-LABEL: func.func @vectors
// CHECK-NEXT: fusion.reshape {{.*}} to tensor<2729x6144xf32>
// CHECK-NEXT: fusion.reduce max, {{.*}} dims = [1] : tensor<2729x6144xf32>
// CHECK-NEXT: fusion.reduce max, {{.*}} dims = [0] : tensor<2729xf32>
// CHECK-NEXT: fusion.reshape {{.*}} to tensor<768x32792xf32>
// CHECK-NEXT: fusion.reduce max, {{.*}} dims = [1] : tensor<768x32792xf32>
// CHECK-NEXT: fusion.reduce max, {{.*}} dims = [0] : tensor<768xf32>
// CHECK-NEXT: return
func.func @vectors(%x: tensor<16766976xf32>, %y: tensor<25184256xf32>)
    -> (tensor<f32>, tensor<f32>) {
  %0 = fusion.reduce max, %x dims = [0] : tensor<16766976xf32>
  %1 = fusion.reduce max, %y dims = [0] : tensor<25184256xf32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// What one block adds of others' results stays, however few threads that has.
// CHECK-LABEL: func.func @of_results
// CHECK-NEXT: fusion.reduce max, {{.*}} dims = [1] : tensor<32768x64xf64>
// CHECK-NEXT: fusion.reduce sum, {{.*}} dims = [0] : tensor<32768xf64>
// CHECK-NEXT: fusion.reduce max, {{.*}} dims = [1] : tensor<65536x64xf64>
// CHECK-NEXT: fusion.reshape
// CHECK-NEXT: fusion.reduce sum, {{.*}} dims = [1] : tensor<256x256xf64>
// CHECK-NEXT: fusion.reduce sum, {{.*}} dims = [0] : tensor<256xf64>
// CHECK-NEXT: return
func.func @of_results(%x: tensor<32768x64xf64>, %y: tensor<65536x64xf64>)
    -> (tensor<f64>, tensor<f64>) {
  %0 = fusion.reduce max, %x dims = [1] : tensor<32768x64xf64>
  %1 = fusion.reduce sum, %0 dims = [0] : tensor<32768xf64>
  %2 = fusion.reduce max, %y dims = [1] : tensor<65536x64xf64>
  %3 = fusion.reduce sum, %2 dims = [0] : tensor<65536xf64>
  return %1, %3 : tensor<f64>, tensor<f64>
}

// Rows enough; too little to gain; a prime has no parts.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: fusion.reduce
// CHECK-NEXT: fusion.reduce
// CHECK-NEXT: fusion.reduce
// CHECK-NEXT: return
func.func @kept(%x: tensor<8192x4096xf32>, %y: tensor<64x32xf32>,
                %z: tensor<1000003xf32>)
    -> (tensor<8192xf32>, tensor<32xf32>, tensor<f32>) {
  %0 = fusion.reduce max, %x dims = [1] : tensor<8192x4096xf32>
  %1 = fusion.reduce sum, %y dims = [0] : tensor<64x32xf32>
  %2 = fusion.reduce sum, %z dims = [0] : tensor<1000003xf32>
  return %0, %1, %2 : tensor<8192xf32>, tensor<32xf32>, tensor<f32>
}

// 2112 columns are a quarter of the threads: 1 us of bytes takes 4, or 1 and a
// launch of 2 in parts. What computes the values for others too then is a
// launch, and writes and reads them: 7.
// CHECK-LABEL: func.func @behind
// CHECK-NEXT: fusion.reshape {{.*}} to tensor<4x142x2112xf32>
// CHECK-NEXT: fusion.reduce
// CHECK-NEXT: fusion.reduce
// CHECK-NEXT: fusion.relu
// CHECK-NEXT: fusion.reduce
// CHECK-NEXT: return
// REMARK: 2112 results keep 25.0 % of the device busy: 4 parts first{{.*}}us_apart=4.00, us_fused=3.00
// REMARK: 2112 results keep 25.0 % of the device busy, but two launches are not faster{{.*}}us_apart=4.00, us_fused=7.00
func.func @behind(%x: tensor<568x2112xf32>, %y: tensor<568x2112xf32>)
    -> (tensor<2112xf32>, tensor<2112xf32>, tensor<568x2112xf32>) {
  %0 = fusion.reduce sum, %x dims = [0] : tensor<568x2112xf32>
  %1 = fusion.relu %y : tensor<568x2112xf32>
  %2 = fusion.reduce sum, %1 dims = [0] : tensor<568x2112xf32>
  return %0, %2, %1 : tensor<2112xf32>, tensor<2112xf32>, tensor<568x2112xf32>
}

// The squares are computed in the parts' shape, in front of which the reshape
// stands: the first reduction can take them in. What others read too stays.
// CHECK-LABEL: func.func @squares
// CHECK: %[[SPLIT:.*]] = fusion.reshape %{{.*}} : tensor<4096x4096xf32> to tensor<[[PARTS:[0-9]+x[0-9]+x4096]]xf32>
// CHECK-NEXT: %[[WIDE:.*]] = fusion.cast %[[SPLIT]] : tensor<[[PARTS]]xf32> to tensor<[[PARTS]]xf64>
// CHECK-NEXT: %[[SQUARE:.*]] = fusion.mul %[[WIDE]], %[[WIDE]] : tensor<[[PARTS]]xf64>
// CHECK-NEXT: fusion.reduce sum, %[[SQUARE]] dims = [1, 2]
func.func @squares(%x: tensor<4096x4096xf32>) -> tensor<f64> {
  %0 = fusion.cast %x : tensor<4096x4096xf32> to tensor<4096x4096xf64>
  %1 = fusion.mul %0, %0 : tensor<4096x4096xf64>
  %2 = fusion.reduce sum, %1 dims = [0, 1] : tensor<4096x4096xf64>
  return %2 : tensor<f64>
}

// CHECK-LABEL: func.func @read_twice
// CHECK-NEXT: %[[EXP:.*]] = fusion.exp
// CHECK-NEXT: fusion.reshape %[[EXP]]
func.func @read_twice(%x: tensor<4096x4096xf32>) -> (tensor<f32>, tensor<4096x4096xf32>) {
  %0 = fusion.exp %x : tensor<4096x4096xf32>
  %1 = fusion.reduce sum, %0 dims = [0, 1] : tensor<4096x4096xf32>
  return %1, %0 : tensor<f32>, tensor<4096x4096xf32>
}

// What others read too is widened again for each sum, not written wide; rows'
// numbers are repeated in the parts' shape.
// CHECK-LABEL: func.func @shared_cast
// CHECK-NOT: -> {{.*}}tensor<8192x4096xf32>
// CHECK: %[[MEAN:.*]] = fusion.reshape %{{.*}} : tensor<8192xf32> to tensor<4x2048xf32>
// CHECK: %[[ROWS:.*]] = fusion.broadcast %[[MEAN]] dims = [0, 1] : tensor<4x2048xf32> to tensor<4x2048x4096xf32>
// CHECK: %[[COLUMNS:.*]] = fusion.broadcast %{{.*}} dims = [2] : tensor<4096xf32> to tensor<4x2048x4096xf32>
// CHECK: %[[ALL:.*]] = fusion.broadcast %{{.*}} dims = [0, 2] : tensor<1x4096xf32> to tensor<4x2048x4096xf32>
// CHECK: %[[CENTERED:.*]] = fusion.sub %{{.*}}, %[[ROWS]]
// CHECK-NEXT: %[[SCALED:.*]] = fusion.mul %[[CENTERED]], %[[COLUMNS]]
// CHECK-NEXT: %[[SHIFTED:.*]] = fusion.add %[[SCALED]], %[[ALL]]
// CHECK-NEXT: fusion.reduce sum, %[[SHIFTED]] dims = [1]
func.func @shared_cast(%x: tensor<8192x4096xbf16>, %mean: tensor<8192xf32>,
                       %scale: tensor<4096xf32>, %shift: tensor<1x4096xf32>)
    -> (tensor<4096xf32>, tensor<4096xf32>) {
  %0 = fusion.cast %x : tensor<8192x4096xbf16> to tensor<8192x4096xf32>
  %1 = fusion.reduce sum, %0 dims = [0] : tensor<8192x4096xf32>
  %2 = fusion.broadcast %mean dims = [0] : tensor<8192xf32> to tensor<8192x4096xf32>
  %3 = fusion.broadcast %scale dims = [1] : tensor<4096xf32> to tensor<8192x4096xf32>
  %4 = fusion.broadcast %shift dims = [0, 1] : tensor<1x4096xf32> to tensor<8192x4096xf32>
  %5 = fusion.sub %0, %2 : tensor<8192x4096xf32>
  %6 = fusion.mul %5, %3 : tensor<8192x4096xf32>
  %7 = fusion.add %6, %4 : tensor<8192x4096xf32>
  %8 = fusion.reduce sum, %7 dims = [0] : tensor<8192x4096xf32>
  return %1, %8 : tensor<4096xf32>, tensor<4096xf32>
}

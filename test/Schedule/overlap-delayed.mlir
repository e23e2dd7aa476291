// RUN: fusion-opt %s --split-input-file --fusion-overlap-collectives=device=%S/Inputs/by-size.json --remarks-filter=fusion -o %t.once 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --enable-var-scope < %t.once
// RUN: fusion-opt %s --split-input-file --fusion-overlap-collectives=device=%S/Inputs/by-size.json --fusion-overlap-collectives=device=%S/Inputs/by-size.json | diff %t.once -

// On this device a kernel takes 100 us, the sum of four elements 50 and of 24 300.
// As it is written, the large gradient is there at 600 us, and one update hides 100
// of its 300: the step ends at 1000. The two kernels of the small gradient need not
// come first: behind the large one they hide 200, and the step ends at 900. In line
// it takes 8 kernels and 350 us.
// REMARK: [Passed] overlap-collective{{.*}}us=300.00, us_end=700.00, us_exposed=100.00, us_start=400.00
// REMARK: [Passed] overlap-collective{{.*}}us=50.00, us_end=750.00, us_exposed=0.00, us_start=700.00
// REMARK: [Passed] overlap |{{.*}}us_exposed=100.00, us_overlapped=900.00, us_serial=1150.00
// CHECK-LABEL: func.func @main
// CHECK: fusion.reduce
// CHECK: fusion.add
// CHECK: fusion.sqrt
// CHECK: fusion.async stream = 1
// CHECK-NEXT: fusion.all_reduce mean
// CHECK: fusion.exp
// CHECK: fusion.neg
// CHECK: fusion.async stream = 1
// CHECK-NEXT: fusion.all_reduce sum
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>, %y: tensor<24xf32>) -> (tensor<4xf32>, tensor<24xf32>) {
  %z = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<1024x4xf32> {
    %0 = fusion.broadcast %a dims = [1] : tensor<4xf32> to tensor<1024x4xf32>
    fusion.yield %0 : tensor<1024x4xf32>
  }
  %r = fusion.group column_reduce (%a = %z : tensor<1024x4xf32>) -> tensor<4xf32> {
    %0 = fusion.reduce sum, %a dims = [0] : tensor<1024x4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %e = fusion.group loop (%a = %r : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %g = fusion.group loop (%a = %e : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %t = fusion.group loop (%a = %y : tensor<24xf32>, %b = %r : tensor<4xf32>) -> tensor<24xf32> {
    %1 = fusion.concat %b, %b, %b, %b, %b, %b axis = 0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    %0 = fusion.add %a, %1 : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %h = fusion.group loop (%a = %t : tensor<24xf32>) -> tensor<24xf32> {
    %0 = fusion.sqrt %a : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %m = fusion.all_reduce mean, %h on @m[dp] : tensor<24xf32>
  %u = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.log %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %v = fusion.group loop (%a = %m : tensor<24xf32>) -> tensor<24xf32> {
    %0 = fusion.log %a : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  return %u, %v : tensor<4xf32>, tensor<24xf32>
}

// -----

// The same, but what the small gradient is computed from is large, and so is what
// the large one is: at no other time are both needed.
// REMARK: [Passed] overlap |{{.*}}us_exposed=200.00, us_overlapped=900.00
// CHECK-LABEL: func.func @main
// CHECK: fusion.exp
// CHECK: fusion.neg
// CHECK: fusion.async stream = 1
// CHECK-NEXT: fusion.all_reduce sum
// CHECK: fusion.abs
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>, %y: tensor<24xf32>) -> (tensor<4xf32>, tensor<24xf32>) {
  %w = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<1024x4xf32> {
    %0 = fusion.broadcast %a dims = [1] : tensor<4xf32> to tensor<1024x4xf32>
    fusion.yield %0 : tensor<1024x4xf32>
  }
  %e = fusion.group column_reduce (%a = %w : tensor<1024x4xf32>) -> tensor<4xf32> {
    %1 = fusion.exp %a : tensor<1024x4xf32>
    %0 = fusion.reduce sum, %1 dims = [0] : tensor<1024x4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %g = fusion.group loop (%a = %e : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %t = fusion.group loop (%a = %y : tensor<24xf32>) -> tensor<1024x24xf32> {
    %1 = fusion.abs %a : tensor<24xf32>
    %0 = fusion.broadcast %1 dims = [1] : tensor<24xf32> to tensor<1024x24xf32>
    fusion.yield %0 : tensor<1024x24xf32>
  }
  %h = fusion.group column_reduce (%a = %t : tensor<1024x24xf32>) -> tensor<24xf32> {
    %0 = fusion.reduce sum, %a dims = [0] : tensor<1024x24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %m = fusion.all_reduce mean, %h on @m[dp] : tensor<24xf32>
  %u = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.log %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %v = fusion.group loop (%a = %m : tensor<24xf32>) -> tensor<24xf32> {
    %0 = fusion.log %a : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  return %u, %v : tensor<4xf32>, tensor<24xf32>
}

// -----

// And a larger result is no reason: its bytes are the caller's, and never among those
// that are alive. At once are 98304, 96 that are computed from them, and 16 on their way.
// REMARK: [Passed] overlap |{{.*}}PeakBytes=98416, {{.*}}us_exposed=200.00, us_overlapped=1000.00
// CHECK-LABEL: func.func @main
// CHECK: fusion.exp
// CHECK: fusion.neg
// CHECK: fusion.async stream = 1
// CHECK-NEXT: fusion.all_reduce sum
// CHECK: fusion.abs
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>, %y: tensor<24xf32>) -> (tensor<4xf32>, tensor<24xf32>, tensor<4096x24xf32>) {
  %w = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<1024x4xf32> {
    %0 = fusion.broadcast %a dims = [1] : tensor<4xf32> to tensor<1024x4xf32>
    fusion.yield %0 : tensor<1024x4xf32>
  }
  %e = fusion.group column_reduce (%a = %w : tensor<1024x4xf32>) -> tensor<4xf32> {
    %1 = fusion.exp %a : tensor<1024x4xf32>
    %0 = fusion.reduce sum, %1 dims = [0] : tensor<1024x4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %g = fusion.group loop (%a = %e : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %t = fusion.group loop (%a = %y : tensor<24xf32>) -> tensor<1024x24xf32> {
    %1 = fusion.abs %a : tensor<24xf32>
    %0 = fusion.broadcast %1 dims = [1] : tensor<24xf32> to tensor<1024x24xf32>
    fusion.yield %0 : tensor<1024x24xf32>
  }
  %h = fusion.group column_reduce (%a = %t : tensor<1024x24xf32>) -> tensor<24xf32> {
    %0 = fusion.reduce sum, %a dims = [0] : tensor<1024x24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %m = fusion.all_reduce mean, %h on @m[dp] : tensor<24xf32>
  %u = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.log %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %v = fusion.group loop (%a = %m : tensor<24xf32>) -> tensor<24xf32> {
    %0 = fusion.log %a : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %big = fusion.group loop (%a = %v : tensor<24xf32>) -> tensor<4096x24xf32> {
    %0 = fusion.broadcast %a dims = [1] : tensor<24xf32> to tensor<4096x24xf32>
    fusion.yield %0 : tensor<4096x24xf32>
  }
  return %u, %v, %big : tensor<4xf32>, tensor<24xf32>, tensor<4096x24xf32>
}

// -----

// No collective waits for the first kernel: behind the gradient, which is sent 100
// us earlier, it hides 100 us of 300. As it is written nothing is hidden.
// REMARK: [Passed] overlap-collective{{.*}}us=300.00, us_end=400.00, us_exposed=200.00, us_start=100.00
// REMARK: [Passed] overlap |{{.*}}us_exposed=200.00, us_overlapped=500.00, us_serial=600.00
// CHECK-LABEL: func.func @main
// CHECK-NOT: fusion.neg
// CHECK: fusion.sqrt
// CHECK: fusion.async stream = 1
// CHECK: fusion.neg
// CHECK: fusion.await
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<24xf32>, %y: tensor<24xf32>) -> tensor<24xf32> {
  %k = fusion.group loop (%a = %x : tensor<24xf32>) -> tensor<24xf32> {
    %0 = fusion.neg %a : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %h = fusion.group loop (%a = %y : tensor<24xf32>) -> tensor<24xf32> {
    %0 = fusion.sqrt %a : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %m = fusion.all_reduce mean, %h on @m[dp] : tensor<24xf32>
  %u = fusion.group loop (%a = %m : tensor<24xf32>, %b = %k : tensor<24xf32>) -> tensor<24xf32> {
    %0 = fusion.mul %a, %b : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  return %u : tensor<24xf32>
}

// -----

// The same, but the first kernel reads what is large, and so does the second: at no
// other time are both needed.
// REMARK: [Missed] overlap-serial{{.*}}no computation can go on beside a collective", us_overlapped=800.00, us_serial=800.00
// CHECK-LABEL: func.func @main
// CHECK-NOT: fusion.async
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<24xf32>, %y: tensor<24xf32>) -> tensor<24xf32> {
  %w = fusion.group loop (%a = %x : tensor<24xf32>) -> tensor<1024x24xf32> {
    %0 = fusion.broadcast %a dims = [1] : tensor<24xf32> to tensor<1024x24xf32>
    fusion.yield %0 : tensor<1024x24xf32>
  }
  %k = fusion.group column_reduce (%a = %w : tensor<1024x24xf32>) -> tensor<24xf32> {
    %0 = fusion.reduce sum, %a dims = [0] : tensor<1024x24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %v = fusion.group loop (%a = %y : tensor<24xf32>) -> tensor<1024x24xf32> {
    %0 = fusion.broadcast %a dims = [1] : tensor<24xf32> to tensor<1024x24xf32>
    fusion.yield %0 : tensor<1024x24xf32>
  }
  %h = fusion.group column_reduce (%a = %v : tensor<1024x24xf32>) -> tensor<24xf32> {
    %0 = fusion.reduce sum, %a dims = [0] : tensor<1024x24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  %m = fusion.all_reduce mean, %h on @m[dp] : tensor<24xf32>
  %u = fusion.group loop (%a = %m : tensor<24xf32>, %b = %k : tensor<24xf32>) -> tensor<24xf32> {
    %0 = fusion.mul %a, %b : tensor<24xf32>
    fusion.yield %0 : tensor<24xf32>
  }
  return %u : tensor<24xf32>
}

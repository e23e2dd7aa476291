// On a GPU, projections of equal widths stay apart: cuBLASLt computes them as one
// batch, which leaves each result dense. Unequal ones are packed, and so are
// those that no launch would compute together.
//
// RUN: fusion-opt %s --split-input-file --fusion-fuse=device=h200 | FileCheck %s
// RUN: fusion-opt %s --split-input-file --fusion-fuse="device=h200 no-fuse=horizontal" | FileCheck %s --check-prefix=APART
// RUN: fusion-opt %s --split-input-file --fusion-fuse=device=h200 --remarks-filter=fusion -o /dev/null 2>&1 | grep "] merge-projections" | FileCheck %s --check-prefix=REMARK

// CHECK-LABEL: func.func @equal
// CHECK: fusion.group horizontal
// CHECK-COUNT-3: tensor<128x256xbf16>, tensor<256x256xbf16>{{$}}
// CHECK-LABEL: func.func @grouped
// CHECK: fusion.matmul {{.*}} : tensor<128x256xbf16>, tensor<256x384xbf16>
// CHECK-NOT: tensor<256x256xbf16>
// CHECK-LABEL: func.func @unlike
// CHECK: fusion.matmul {{.*}} : tensor<128x256xbf16>, tensor<256x512xbf16>

// APART-LABEL: func.func @equal
// APART: fusion.matmul {{.*}} : tensor<128x256xbf16>, tensor<256x768xbf16>
// APART-NOT: tensor<256x256xbf16>
// APART-LABEL: func.func @grouped
// APART: tensor<256x384xbf16>

// REMARK: [Missed] merge-projections {{.*}}Reason="one call computes the 3 equal products as a batch, and leaves each result dense"{{.*}} us_fused={{.*}} us_serial={{.*}} us_streams=
// REMARK-NEXT: [Passed] merge-projections {{.*}} Biases=3, Copies=0, {{.*}}Widths="256 64 64"
// REMARK-NEXT: [Passed] merge-projections {{.*}} Biases=0, {{.*}}Widths="256 256"
// REMARK-NOT: remark

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
func.func @equal(%x: tensor<128x256xbf16>) -> tensor<128x256xbf16> {
  %wq = fusion.constant dense<0.5> : tensor<256x256xbf16>
  %bq = fusion.constant dense<1.0> : tensor<256xbf16>
  %mq = fusion.matmul %x, %wq : tensor<128x256xbf16>, tensor<256x256xbf16>
  %cq = fusion.broadcast %bq dims = [1] : tensor<256xbf16> to tensor<128x256xbf16>
  %aq = fusion.add %mq, %cq : tensor<128x256xbf16>
  %rq = fusion.reshape %aq : tensor<128x256xbf16> to tensor<128x8x32xbf16>
  %q = fusion.transpose %rq permutation = [1, 0, 2] : tensor<128x8x32xbf16>
  %wk = fusion.constant dense<0.5> : tensor<256x256xbf16>
  %bk = fusion.constant dense<1.0> : tensor<256xbf16>
  %mk = fusion.matmul %x, %wk : tensor<128x256xbf16>, tensor<256x256xbf16>
  %ck = fusion.broadcast %bk dims = [1] : tensor<256xbf16> to tensor<128x256xbf16>
  %ak = fusion.add %mk, %ck : tensor<128x256xbf16>
  %rk = fusion.reshape %ak : tensor<128x256xbf16> to tensor<128x8x32xbf16>
  %k = fusion.transpose %rk permutation = [1, 0, 2] : tensor<128x8x32xbf16>
  %wv = fusion.constant dense<0.5> : tensor<256x256xbf16>
  %bv = fusion.constant dense<1.0> : tensor<256xbf16>
  %mv = fusion.matmul %x, %wv : tensor<128x256xbf16>, tensor<256x256xbf16>
  %cv = fusion.broadcast %bv dims = [1] : tensor<256xbf16> to tensor<128x256xbf16>
  %av = fusion.add %mv, %cv : tensor<128x256xbf16>
  %rv = fusion.reshape %av : tensor<128x256xbf16> to tensor<128x8x32xbf16>
  %v = fusion.transpose %rv permutation = [1, 0, 2] : tensor<128x8x32xbf16>
  %s = fusion.matmul %q, %k {transpose_rhs} : tensor<8x128x32xbf16>, tensor<8x128x32xbf16>
  %p = fusion.softmax %s axis = 2 : tensor<8x128x128xbf16>
  %o = fusion.matmul %p, %v : tensor<8x128x128xbf16>, tensor<8x128x32xbf16>
  %t = fusion.transpose %o permutation = [1, 0, 2] : tensor<8x128x32xbf16>
  %r = fusion.reshape %t : tensor<128x8x32xbf16> to tensor<128x256xbf16>
  return %r : tensor<128x256xbf16>
}
}

// -----

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
func.func @grouped(%x: tensor<128x256xbf16>) -> tensor<128x256xbf16> {
  %wq = fusion.constant dense<0.5> : tensor<256x256xbf16>
  %bq = fusion.constant dense<1.0> : tensor<256xbf16>
  %mq = fusion.matmul %x, %wq : tensor<128x256xbf16>, tensor<256x256xbf16>
  %cq = fusion.broadcast %bq dims = [1] : tensor<256xbf16> to tensor<128x256xbf16>
  %aq = fusion.add %mq, %cq : tensor<128x256xbf16>
  %rq = fusion.reshape %aq : tensor<128x256xbf16> to tensor<128x8x32xbf16>
  %q = fusion.transpose %rq permutation = [1, 0, 2] : tensor<128x8x32xbf16>
  %wk = fusion.constant dense<0.5> : tensor<256x64xbf16>
  %bk = fusion.constant dense<1.0> : tensor<64xbf16>
  %mk = fusion.matmul %x, %wk : tensor<128x256xbf16>, tensor<256x64xbf16>
  %ck = fusion.broadcast %bk dims = [1] : tensor<64xbf16> to tensor<128x64xbf16>
  %ak = fusion.add %mk, %ck : tensor<128x64xbf16>
  %rk = fusion.reshape %ak : tensor<128x64xbf16> to tensor<128x2x32xbf16>
  %k = fusion.transpose %rk permutation = [1, 0, 2] : tensor<128x2x32xbf16>
  %wv = fusion.constant dense<0.5> : tensor<256x64xbf16>
  %bv = fusion.constant dense<1.0> : tensor<64xbf16>
  %mv = fusion.matmul %x, %wv : tensor<128x256xbf16>, tensor<256x64xbf16>
  %cv = fusion.broadcast %bv dims = [1] : tensor<64xbf16> to tensor<128x64xbf16>
  %av = fusion.add %mv, %cv : tensor<128x64xbf16>
  %rv = fusion.reshape %av : tensor<128x64xbf16> to tensor<128x2x32xbf16>
  %v = fusion.transpose %rv permutation = [1, 0, 2] : tensor<128x2x32xbf16>
  %sk = fusion.broadcast %k dims = [0, 2, 3] : tensor<2x128x32xbf16> to tensor<2x4x128x32xbf16>
  %hk = fusion.reshape %sk : tensor<2x4x128x32xbf16> to tensor<8x128x32xbf16>
  %sv = fusion.broadcast %v dims = [0, 2, 3] : tensor<2x128x32xbf16> to tensor<2x4x128x32xbf16>
  %hv = fusion.reshape %sv : tensor<2x4x128x32xbf16> to tensor<8x128x32xbf16>
  %s = fusion.matmul %q, %hk {transpose_rhs} : tensor<8x128x32xbf16>, tensor<8x128x32xbf16>
  %p = fusion.softmax %s axis = 2 : tensor<8x128x128xbf16>
  %o = fusion.matmul %p, %hv : tensor<8x128x128xbf16>, tensor<8x128x32xbf16>
  %t = fusion.transpose %o permutation = [1, 0, 2] : tensor<8x128x32xbf16>
  %r = fusion.reshape %t : tensor<128x8x32xbf16> to tensor<128x256xbf16>
  return %r : tensor<128x256xbf16>
}
}

// -----

// Only one of these calls would have a relu: they are no batch.
module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
func.func @unlike(%x: tensor<128x256xbf16>) -> (tensor<256x128xbf16>, tensor<256x128xbf16>) {
  %w = fusion.constant dense<0.5> : tensor<256x256xbf16>
  %v = fusion.constant dense<2.0> : tensor<256x256xbf16>
  %a = fusion.matmul %x, %w : tensor<128x256xbf16>, tensor<256x256xbf16>
  %b = fusion.matmul %x, %v : tensor<128x256xbf16>, tensor<256x256xbf16>
  %c = fusion.relu %b : tensor<128x256xbf16>
  %at = fusion.transpose %a permutation = [1, 0] : tensor<128x256xbf16>
  %ct = fusion.transpose %c permutation = [1, 0] : tensor<128x256xbf16>
  return %at, %ct : tensor<256x128xbf16>, tensor<256x128xbf16>
}
}

// RUN: fusion-opt %s --fusion-why=@product,@relu -o /dev/null 2>&1 | FileCheck %s --check-prefix=TOGETHER
// RUN: fusion-opt %s --fusion-why=@relu,@softmax -o /dev/null 2>&1 | FileCheck %s --check-prefix=APART
// RUN: fusion-opt %s --fusion-why=#4,#1 -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHAIN
// RUN: fusion-opt %s --fusion-fuse="no-fuse=horizontal why={#1,@one, alone}" -o /dev/null 2>&1 | FileCheck %s --check-prefixes=INDEPENDENT,UNFUSED
// RUN: fusion-opt %s "--fusion-why=#1,@one, alone" -o /dev/null 2>&1 | FileCheck %s --check-prefixes=INDEPENDENT,OTHER-OPS
// RUN: fusion-opt %s --fusion-why=@left,@right -o /dev/null 2>&1 | FileCheck %s --check-prefix=LAUNCH
// RUN: fusion-opt %s --fusion-why=@left,@wide -o /dev/null 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: fusion-opt %s --fusion-why=#0,@relu -o /dev/null 2>&1 | FileCheck %s --check-prefix=SOURCE
// RUN: fusion-opt %s --fusion-why=@view,@relu -o /dev/null 2>&1 | FileCheck %s --check-prefix=VIEW
// RUN: fusion-opt %s --fusion-why=@relu,#2 -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: fusion-opt %s --fusion-why=@dead,@relu -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEAD
// RUN: fusion-opt %s --fusion-fuse="max-ops=1 why=@softmax,@exp" -o /dev/null 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: fusion-opt %s --fusion-track-decisions --fusion-fuse-vertical --fusion-explain-pair="pair=@softmax,@exp" -o /dev/null 2>&1 | FileCheck %s --check-prefix=PASSES

// TOGETHER: remark: {{.*}}matmul#1 "product" and relu#2 "relu": together, in a library group of 2 ops
// TOGETHER-NEXT: fuse-epilogue: elementwise op runs over
// TOGETHER-NEXT: the group saves 256 bytes

// APART: remark: {{.*}}relu#2 "relu" and softmax#3 "softmax": apart, reduce-in-epilogue: a reduction can't follow a contraction or pool in its group, at softmax#3 "softmax"; 256 bytes of memory traffic at stake

// Transitively: the one step of three that was refused is named, the others too.
// CHAIN: remark: {{.*}}matmul#1 "product" and exp#4 "exp": apart: they never met; of the 3 steps from one to the other 1 was refused
// CHAIN-NEXT: matmul#1 "product" -> relu#2 "relu": together, fuse-epilogue
// CHAIN-NEXT: relu#2 "relu" -> softmax#3 "softmax": apart, reduce-in-epilogue: {{.*}}; 256 bytes
// CHAIN-NEXT: softmax#3 "softmax" -> exp#4 "exp": together, fuse-row-reduce

// INDEPENDENT: remark: {{.*}}matmul#1 "product" and neg#5 "one, alone": apart: neither reads the other, directly or through others
// INDEPENDENT-NEXT: matmul#1 "product" ... relu#2 "relu": a library group of 2 ops
// INDEPENDENT-NEXT: neg#5 "one, alone": a loop group of 1 op
// UNFUSED: horizontal fusion, which joins independent groups, did not run
// OTHER-OPS: horizontal fusion joins groups of the same ops only

// Two groups of one launch, and what keeps a third apart.
// LAUNCH: remark: {{.*}}abs#0 "left" and abs#1 "right": side by side, in one launch of 2 groups
// LAUNCH-NEXT: fuse-horizontal:
// DTYPE: remark: {{.*}}abs#0 "left" and abs#2 "wide": apart: neither reads the other
// DTYPE: horizontal-dtype: the groups have the same ops on other element types

// SOURCE: remark: {{.*}}constant#0 {{.*}} does no work: it goes where it is read
// VIEW: remark: {{.*}}reshape#6 "view" is a view: it is free, and in a group where both its ends are
// SAME: remark: {{.*}}both names are of one op, relu#2 "relu"
// DEAD: remark: {{.*}}abs#7 "dead" is in no group: nothing reads it

// The value against the limit.
// LIMIT: remark: {{.*}}softmax#3 "softmax" and exp#4 "exp": apart, max-ops: {{.*}} (2 against 1)
// PASSES: remark: {{.*}}softmax#3 "softmax" and exp#4 "exp": together, in a row_reduce group of 2 ops

func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<32xf32>, tensor<4x8xf32>, tensor<8xf32>) {
  %c = fusion.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32> loc("product")
  %0 = fusion.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> loc("product")
  %1 = fusion.relu %0 : tensor<4x8xf32> loc("relu")
  %2 = fusion.softmax %1 axis = 1 : tensor<4x8xf32> loc("softmax")
  %3 = fusion.exp %2 : tensor<4x8xf32> loc("exp")
  %4 = fusion.neg %x : tensor<4x8xf32> loc("one, alone")
  %5 = fusion.reshape %3 : tensor<4x8xf32> to tensor<32xf32> loc("view")
  %dead = fusion.abs %x : tensor<4x8xf32> loc("dead")
  return %5, %4, %c : tensor<32xf32>, tensor<4x8xf32>, tensor<8xf32>
}

func.func @independent(%x: tensor<4xf32>, %y: tensor<9xf32>, %z: tensor<4xf64>) -> (tensor<4xf32>, tensor<9xf32>, tensor<4xf64>) {
  %0 = fusion.abs %x : tensor<4xf32> loc("left")
  %1 = fusion.abs %y : tensor<9xf32> loc("right")
  %2 = fusion.abs %z : tensor<4xf64> loc("wide")
  return %0, %1, %2 : tensor<4xf32>, tensor<9xf32>, tensor<4xf64>
}

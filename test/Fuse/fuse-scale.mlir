// Graphs of sizes that make anything worse than near-linear run out of time.
// The time limits are ten times what a slow machine needs.

// RUN: %python %S/Inputs/make_graph.py chain 10000 > %t.mlir
// RUN: timeout 60 fusion-opt %t.mlir --fusion-fuse -o %t.out && grep -c "fusion.add" %t.out | FileCheck %s --check-prefix=CHAIN
// RUN: grep -c "fusion.group" %t.out | FileCheck %s --check-prefix=CHAIN-GROUPS
// CHAIN: {{^}}10000{{$}}
// CHAIN-GROUPS: {{^}}1250{{$}}

// Under a small stack: nothing recurses over the graph.
// RUN: bash -c "ulimit -s 1024; timeout 60 fusion-opt %t.mlir --fusion-fuse -o /dev/null"

// The op count stays linear where inlining would double it at each step.
// RUN: %python %S/Inputs/make_graph.py ladder 200 > %t.mlir
// RUN: timeout 10 fusion-opt %t.mlir --fusion-fuse | grep -cE "fusion.(add|mul)" | FileCheck %s --check-prefix=LADDER
// LADDER: {{^}}400{{$}}

// 300 inputs, one after the other and as a tree: the limits split the sum.
// RUN: %python %S/Inputs/make_graph.py sum 300 > %t.mlir
// RUN: timeout 10 fusion-opt %t.mlir --fusion-fuse | grep -c "fusion.add" | FileCheck %s --check-prefix=SUM
// RUN: timeout 10 fusion-opt %t.mlir --fusion-fuse=max-ops=1000 --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=SUM-LIMIT
// RUN: %python %S/Inputs/make_graph.py treesum 300 > %t.mlir
// RUN: timeout 10 fusion-opt %t.mlir --fusion-fuse | grep -c "fusion.add" | FileCheck %s --check-prefix=SUM
// RUN: timeout 10 fusion-opt %t.mlir --fusion-fuse --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=SUM-LIMIT
// SUM: {{^}}299{{$}}
// SUM-LIMIT: [Missed] max-{{inputs|group-ops}} | {{.*}}limit=64

// 5,000 readers of one value, each read twice.
// RUN: %python %S/Inputs/make_graph.py wide 5000 > %t.mlir
// RUN: timeout 60 fusion-opt %t.mlir --fusion-fuse | grep -c "fusion.exp" | FileCheck %s --check-prefix=WIDE
// WIDE: {{^}}1{{$}}

// 5,000 readers of one broadcast: each group has its own, none is left over.
// RUN: %python %S/Inputs/make_graph.py clones 5000 > %t.mlir
// RUN: timeout 60 fusion-opt %t.mlir --fusion-fuse -o %t.out && grep -c "fusion.group loop" %t.out | FileCheck %s --check-prefix=CLONES
// RUN: grep -c "fusion.broadcast" %t.out | FileCheck %s --check-prefix=CLONES
// CLONES: {{^}}5000{{$}}

// RUN: %python %S/Inputs/make_graph.py mm 3000 > %t.mlir
// RUN: timeout 60 fusion-opt %t.mlir --fusion-fuse | grep -c "fusion.group library" | FileCheck %s --check-prefix=BLOCKS
// RUN: %python %S/Inputs/make_graph.py reshape 3000 > %t.mlir
// RUN: timeout 60 fusion-opt %t.mlir --fusion-fuse | grep -c "fusion.neg" | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: {{^}}3000{{$}}

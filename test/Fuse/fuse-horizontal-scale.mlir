// Graphs of sizes that make anything worse than near-linear run out of time,
// under a small stack. The time limits are ten times what a slow machine needs.

// 5,000 products: 64 to a launch.
// RUN: %python %S/Inputs/make_graph.py parallel 5000 > %t.mlir
// RUN: bash -c "ulimit -s 1024; timeout 20 fusion-opt %t.mlir --fusion-fuse -o %t.out" && grep -c "fusion.group horizontal" %t.out | FileCheck %s --check-prefix=PARALLEL
// PARALLEL: {{^}}79{{$}}

// Two towers of 3,000 levels: level i of one with level i of the other.
// RUN: %python %S/Inputs/make_graph.py towers 3000 > %t.mlir
// RUN: bash -c "ulimit -s 1024; timeout 20 fusion-opt %t.mlir --fusion-fuse -o %t.out" && grep -c "fusion.group horizontal" %t.out | FileCheck %s --check-prefix=TOWERS
// TOWERS: {{^}}6000{{$}}

// Chains have nothing to share, but 1,250 groups of one key to say so about.
// RUN: %python %S/Inputs/make_graph.py chain 10000 > %t.mlir
// RUN: timeout 20 fusion-opt %t.mlir --fusion-fuse --remarks-filter=fusion -o %t.out 2>&1 | grep -c "Missed. horizontal-dependency" | FileCheck %s --check-prefix=CHAIN
// RUN: not grep "fusion.group horizontal" %t.out
// CHAIN: {{^}}1249{{$}}

// A unit with the registers of a multiprocessor: 64K of 32 bits, 255 a thread.
// Emitters want two blocks of 256 threads resident, a thread has four f32
// elements and 24 registers of overhead: n values live need (4 n + 24) * 512.

// 16 inputs are read at both ends of the group; between them stand 17 values and
// their sum. All 34 at once: 80K registers. One value crosses the waist: the
// first part is left with two values, 32 registers a thread and 16K in all, the
// second with 18, 96 and 48K.
// RUN: %python %S/Inputs/make_graph.py waist 33 > %t.mlir
// RUN: fusion-opt %t.mlir --pass-pipeline="builtin.module(func.func(fusion-record-fusion-certificate,fusion-fuse-vertical{device=%S/Inputs/many-values.json max-ops=1000 max-group-ops=200},fusion-split-groups{device=%S/Inputs/many-values.json},fusion-verify-fusion-certificate))" --remarks-filter=fusion -o %t.out 2>&1 | FileCheck %s --check-prefix=WAIST
// RUN: grep -c "fusion.group loop" %t.out | FileCheck %s --check-prefix=TWO
// WAIST-NOT: [Missed] registers
// WAIST: [Missed] registers-unit | {{.*}}first_thread=32, first_unit=16384, kind=loop, limit=65536, live=1, second_thread=96, second_unit=49152, {{.*}}value=81920
// WAIST-NOT: [{{Missed|Failure}}] registers
// TWO: {{^}}2{{$}}

// The whole phase, on a group that somebody wrote: nothing is left to cut.
// RUN: fusion-opt %t.out --fusion-fuse=device=%S/Inputs/many-values.json --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=TWICE --implicit-check-not="registers-"
// TWICE: func.func @main

// 33 values that their sum scales are all live at once, wherever they are cut:
// one cut does not do, the parts are cut until each fits.
// RUN: %python %S/Inputs/make_graph.py bulge 33 > %t.mlir
// RUN: fusion-opt %t.mlir --pass-pipeline="builtin.module(func.func(fusion-record-fusion-certificate,fusion-fuse-vertical{device=%S/Inputs/many-values.json max-ops=1000 max-group-ops=200},fusion-split-groups{device=%S/Inputs/many-values.json},fusion-verify-fusion-certificate))" --remarks-filter=fusion -o %t.out 2>&1 | FileCheck %s --check-prefix=BULGE
// RUN: fusion-opt %t.out --fusion-split-groups=device=%S/Inputs/many-values.json --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=TWICE --implicit-check-not="registers-"
// BULGE: [Missed] registers-unit | {{.*}}limit=65536, {{.*}}value=81920
// BULGE: [Missed] registers-unit | {{.*}}limit=65536
// BULGE-NOT: [Failure]

// 25 values and their sum take exactly 64K.
// RUN: %python %S/Inputs/make_graph.py bulge 25 > %t.mlir
// RUN: fusion-opt %t.mlir --pass-pipeline="builtin.module(func.func(fusion-fuse-vertical{device=%S/Inputs/many-values.json max-ops=1000 max-group-ops=200},fusion-split-groups{device=%S/Inputs/many-values.json}))" --remarks-filter=fusion -o %t.out 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not="registers-"
// RUN: grep -c "fusion.group loop" %t.out | FileCheck %s --check-prefix=ONE
// FITS: fuse-loop
// ONE: {{^}}1{{$}}

// On a GPU elements of a thread are computed one after the other, and what is
// loaded is there for all four. 30 inputs are read at both ends, 30 values and
// their sum between: (120 + 31 + 10) * 512. In front of the waist are x and one
// input, 4 + 4 + 10; behind it x, an input now, and 29 values as the last is
// computed, 4 + 29 + 10.
// RUN: %python %S/Inputs/make_graph.py waist 60 > %t.mlir
// RUN: fusion-opt %t.mlir --pass-pipeline="builtin.module(func.func(fusion-record-fusion-certificate,fusion-fuse-vertical{device=h200 max-ops=1000 max-group-ops=200},fusion-split-groups{device=h200},fusion-verify-fusion-certificate))" --remarks-filter=fusion -o %t.out 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: grep -c "fusion.group loop" %t.out | FileCheck %s --check-prefix=TWO
// GPU: [Missed] registers-unit | {{.*}}first_thread=18, first_unit=9216, kind=loop, limit=65536, live=1, second_thread=43, second_unit=22016, {{.*}}value=82432
// GPU-NOT: [{{Missed|Failure}}] registers

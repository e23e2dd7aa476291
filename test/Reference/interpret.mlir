// What the tool writes: outputs by name, counts, every op's results.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python -c "import numpy as np; np.save('%t/x.npy', np.array([1, -2, 3], np.float32))"
// RUN: fusion-interpret %s --input x=%t/x.npy --output-dir %t/out --counts --dump-all %t/dump | FileCheck %s
// RUN: %python -c "import numpy as np; print(np.load('%t/out/y%2F0.npy'), np.load('%t/out/out1.npy'))" | FileCheck %s --check-prefix=VALUES
// RUN: FileCheck %s --check-prefix=INDEX < %t/dump/index.txt
// RUN: %python -c "import numpy as np; print(np.load('%t/dump/000001_fusion.relu.npy'))" | FileCheck %s --check-prefix=DUMP

// Bytecode is read as well, and inputs from an archive.
// RUN: fusion-opt %s --emit-bytecode -o %t/model.mlirbc
// RUN: %python -c "import numpy as np; np.savez_compressed('%t/in.npz', x=np.array([4, 5, -6], np.float32))"
// RUN: fusion-interpret %t/model.mlirbc --inputs %t/in.npz --output-dir %t/out
// RUN: %python -c "import numpy as np; print(np.load('%t/out/y%2F0.npy'))" | FileCheck %s --check-prefix=ARCHIVE

// CHECK: op {{ +}} evaluations      elements
// CHECK: fusion.add {{ +}} 1 {{ +}} 3
// CHECK: fusion.relu {{ +}} 2 {{ +}} 6
// VALUES: {{\[2\. 0\. 6\.\] \[1\. 0\. 3\.\]}}
// INDEX: 000000_fusion.relu f32 3 loc
// INDEX-NEXT: 000001_fusion.relu f32 3 loc
// INDEX-NEXT: 000002_fusion.add f32 3 loc
// DUMP: {{\[1\. 0\. 3\.\]}}
// ARCHIVE: {{\[ *8\. +10\. +0\.\]}}
func.func @main(%x: tensor<3xf32> {fusion.name = "x"}) -> (tensor<3xf32> {fusion.name = "y/0"}, tensor<3xf32>) {
  %0 = fusion.relu %x : tensor<3xf32>
  %1 = fusion.relu %0 : tensor<3xf32>
  %2 = fusion.add %0, %1 : tensor<3xf32>
  return %2, %1 : tensor<3xf32>, tensor<3xf32>
}

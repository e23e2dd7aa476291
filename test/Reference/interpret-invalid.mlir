// Errors of the tool: message and exit code.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/npy.py write %t/x.npy "<f4" 2x3 0 0 0 0 0 0
// RUN: %python %S/Inputs/npy.py write %t/bad.npy "<f4" 3x2 0 0 0 0 0 0
// RUN: %python %S/Inputs/npy.py write %t/f64.npy "<f8" 2x3 0 0 0 0 0 0

// RUN: not fusion-interpret %s --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: input 'image' (f32 2x3): it is missing; give --input image=file.npy, or --random-inputs SEED
// RUN: not fusion-interpret %s --input image=%t/bad.npy --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: error: input 'image' is f32 3x2, @main takes f32 2x3
// RUN: not fusion-interpret %s --input image=%t/f64.npy --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: error: input 'image' (f32 2x3): '{{.*}}f64.npy' has elements of type '<f8', f32 needs '<f4'
// RUN: not fusion-interpret %s --input image=%t/x.npy --input other=%t/x.npy --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=EXTRA
// EXTRA: error: input 'other' is given, but no function that runs takes it
// RUN: not fusion-interpret %s --input image=%t/none.npy --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=NOFILE
// NOFILE: error: input 'image' (f32 2x3): cannot read '{{.*}}none.npy': No such file or directory
// RUN: not fusion-interpret %s --input image --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: error: --input 'image' is not name=file.npy or name@rank=file.npy
// RUN: not fusion-interpret %s --input image=%t/x.npy --output-dir %t/out --function other 2>&1 | FileCheck %s --check-prefix=FUNCTION
// FUNCTION: error: the module has no function @other; it has @main, choose one with --function
// RUN: not fusion-interpret %t/none.mlir --output-dir %t/out 2>&1 | FileCheck %s --check-prefix=NOMODEL
// NOMODEL: error: cannot read the model '{{.*}}none.mlir': No such file or directory
// RUN: not fusion-interpret %s --input image=%t/x.npy 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: error: give a model, and --output-dir, --dump-all or --counts; see --help
// RUN: not fusion-interpret %s --random-inputs 1 --output-dir %t/out --memory-limit 40B 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: error: --memory-limit '40B' is no size like 512MiB or 8GiB
// RUN: not fusion-interpret %s --random-inputs 1 --output-dir %t/out --memory-limit 40 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: {{.*}}a tensor of 2x3 elements takes 48 bytes, 0 of 40 are in use
// RUN: not fusion-interpret %s --random-inputs 1 --output-dir %s/out 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: error: cannot make the folder '{{.*}}/out': Not a directory
// RUN: not fusion-interpret %s --no-such-option 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error: {{.*}}Unknown command line argument '--no-such-option'

// The codes of the contract: usage 2, program 3, resources 6.
// RUN: %python -c "import subprocess, sys; print([subprocess.run(['fusion-interpret', *a.split()], stderr=subprocess.DEVNULL).returncode for a in sys.argv[1:]])" "%s --output-dir %t/out" "%t/none.mlir --counts" "%s --bogus" "%t/x.npy --counts" "%s --random-inputs 1 --counts --memory-limit 40" "%s --random-inputs 1 --output-dir %s/out" | FileCheck %s --check-prefix=CODES
// CODES: [2, 2, 2, 3, 6, 6]

func.func @main(%x: tensor<2x3xf32> {fusion.name = "image"}) -> tensor<2x3xf32> {
  %0 = fusion.neg %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

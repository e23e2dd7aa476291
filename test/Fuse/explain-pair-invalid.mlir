// RUN: not fusion-opt %s --fusion-why=@relv,@exp 2>&1 | FileCheck %s --check-prefix=NEAREST
// NEAREST: error: no op of the graph is called '@relv'; the nearest names are '@relu', '@exp'
// RUN: not fusion-opt %s --fusion-why=@relu,@twins 2>&1 | FileCheck %s --check-prefix=SEVERAL
// SEVERAL: error: '@twins' names 2 ops, neg#2 "twins", abs#3 "twins"; name one by its number, as in '#2'
// RUN: not fusion-opt %s --fusion-why=#0,#5 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: error: there is no op #5; the graph has the ops #0 to #3
// RUN: not fusion-opt %s --fusion-why=:1,@exp 2>&1 | FileCheck %s --check-prefix=LINE
// LINE: error: no op of the graph stands in line 1
// RUN: not fusion-opt %s --fusion-why=relu,exp 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: error: 'relu,exp' names no two ops; write '@a,@b', where each is '@name', '#3' or ':12' for a line of the model
// RUN: not fusion-opt %s --fusion-fuse --fusion-explain-pair="pair=@relu,@exp" 2>&1 | FileCheck %s --check-prefix=UNTRACKED
// UNTRACKED: error: no decisions on groups were recorded; run fusion-track-decisions before the passes that decide

func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.relu %x : tensor<4xf32> loc("relu")
  %1 = fusion.exp %0 : tensor<4xf32> loc("exp")
  %2 = fusion.neg %1 : tensor<4xf32> loc("twins")
  %3 = fusion.abs %1 : tensor<4xf32> loc("twins")
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}

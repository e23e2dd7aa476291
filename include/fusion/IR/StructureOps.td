//===- StructureOps.td - Parameters, groups, asynchronous regions ---------===//
//
// What gives a graph its structure: named weights, fused groups, regions started
// on a stream, and a user's own kernels.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_STRUCTUREOPS_TD
#define FUSION_IR_STRUCTUREOPS_TD

include "fusion/IR/FusionBase.td"
include "fusion/IR/FusionInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Fusion_FutureType : TypeDef<Fusion_Dialect, "Future"> {
  let mnemonic = "future";
  let summary = "values that an asynchronous region will have computed";
  let description = "Linear: awaited exactly once.";
  let parameters = (ins ArrayRefParameter<"::mlir::Type">:$types);
  let assemblyFormat = "`<` $types `>`";
}

def Fusion_ParameterOp : Fusion_Op<"parameter", [Symbol]> {
  let summary = "a named tensor that comes with the model";
  let description = [{
    Where the bytes are: a key of a safetensors file (its path is relative to the
    module's own folder, with the hash of the tensor's bytes), or `value`, an
    attribute. `const` never changes; `state` is updated by the program.

    Constraints: C1 exactly one of file and value; C2 a file needs a key; C3 the
    type is static and the value's type agrees; C4 the path is relative and has no `..`.

    Example:
    ```mlir
    fusion.parameter @w const "m.safetensors" key "w" : tensor<4x3xf32>
    fusion.parameter @b const value dense<0.0> : tensor<4xf32> : tensor<4xf32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Fusion_ParameterKindAttr:$kind, TypeAttr:$type,
                       OptionalAttr<StrAttr>:$file, OptionalAttr<StrAttr>:$key, OptionalAttr<StrAttr>:$sha256,
                       OptionalAttr<ElementsAttr>:$value);
  let assemblyFormat = "$sym_name `` $kind ($file^ `key` $key (`sha256` $sha256^)?)? (`value` $value^)? `:` $type attr-dict";
  let hasVerifier = 1;
}

def Fusion_GetParameterOp : Fusion_PureOp<"get_parameter", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a parameter";
  let description = [{
    C1: the symbol is a `fusion.parameter` of the result's type.

    Example:
    ```mlir
    %w = fusion.get_parameter @w : tensor<4x3xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}

def Fusion_YieldOp : Fusion_PureOp<"yield", [Terminator, ReturnLike, ParentOneOf<["GroupOp", "AsyncOp"]>]> {
  let summary = "ends the region of a group or an asynchronous region";
  let description = [{
    Its operands are the results of the parent.

    Example:
    ```mlir
    fusion.yield %y : tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

def Fusion_GroupOp : Fusion_Op<"group", [IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">, RecursiveMemoryEffects]> {
  let summary = "ops that become one kernel, one library call, or one launch";
  let description = [{
    A tree of depth two: a group of kind `horizontal` contains only member
    groups; every other kind contains only ops. The region sees nothing but its
    arguments. `kernel`, once code generation has run, names the kernel.

    Constraints: C1 block arguments have the operands' types; C2 the terminator's
    operands have the results' types; C3 nesting as said; C4 no empty region.

    Example:
    ```mlir
    %r = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Fusion_GroupKindAttr:$kind, Variadic<Fusion_Tensor>:$inputs, OptionalAttr<SymbolRefAttr>:$kernel);
  let results = (outs Variadic<Fusion_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    ::fusion::YieldOp getYield();
  }];
}

def Fusion_AsyncOp : Fusion_Op<"async", [SingleBlockImplicitTerminator<"YieldOp">, RecursiveMemoryEffects]> {
  let summary = "starts a region on a stream";
  let description = [{
    The region may read values from outside. Its values are had by awaiting the
    future, exactly once (checked by the graph verifier).

    C1: the future's types are those of the terminator's operands.

    Example:
    ```mlir
    %f = fusion.async stream = 1 -> tensor<4xf32> {
      %r = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
      fusion.yield %r : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$stream);
  let results = (outs Fusion_FutureType:$future);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Fusion_AwaitOp : Fusion_Op<"await", [MemoryEffects<[MemWrite]>]> {
  let summary = "waits for a future and gives its values";
  let description = [{
    C1: the results have the future's types.

    Example:
    ```mlir
    %r = fusion.await %f : !fusion.future<tensor<4xf32>>
    ```
  }];
  let arguments = (ins Fusion_FutureType:$future);
  let results = (outs Variadic<Fusion_Tensor>:$values);
  let assemblyFormat = "$future attr-dict `:` custom<FutureValues>(type($future), type($values))";
  let hasVerifier = 1;
}

def Fusion_KernelCallOp : Fusion_Op<"kernel_call", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a kernel that the user wrote";
  let description = [{
    `source` is the kernel's text (`language` ptx, cuda or c) or, in C, `file:` and a
    path inside the module's folder; `entry` its symbol. It reads its operands and
    writes its results, whole; with `side_effects` it is kept and ordered like a
    communication. `flops` and `bytes`, of a run at the largest batch, feed the cost
    model. A `?` of a result is that of the first operand with a `?` in the same
    place; without one it is the batch. The cpu target compiles C: see
    docs/kernel-calls.md.

    Constraints: C1 the language is one of those; C2 the entry is not empty; C3 costs >= 0.

    Example:
    ```mlir
    %y = fusion.kernel_call "c" "scale2" "void scale2(const float *x, float *y, int64_t batch) { for (int i = 0; i < 4; ++i) y[i] = 2 * x[i]; }" (%x) flops = 4 bytes = 32 : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$language, StrAttr:$entry, StrAttr:$source, Variadic<Fusion_Tensor>:$inputs,
                       I64Attr:$flops, I64Attr:$bytes, UnitAttr:$side_effects);
  let results = (outs Variadic<Fusion_Tensor>:$outputs);
  let assemblyFormat = "$language $entry $source `(` $inputs `)` `flops` `=` $flops `bytes` `=` $bytes attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
}

#endif // FUSION_IR_STRUCTUREOPS_TD

//===- Passes.td - Passes of the codegen phase ----------------------------===//
//
// From fused groups to kernels in the LLVM dialect.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_CODEGEN_PASSES_TD
#define FUSION_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitKernels : Pass<"fusion-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "gives each group a kernel or a library call";
  let description = [{
    *Requires*: every compute op is in a `fusion.group` (see the phase `fuse`).
    *Ensures*: a nested module `@kernels` holds one function for each distinct
    group; `fusion.group` names it in `kernel`; groups of kind `library` carry
    `fusion.call`; slices that lie together in their input, and are no results,
    carry the byte offset as `fusion.view` and have no kernel. Named ops inside groups are decomposed. Groups with equal
    bodies, types and sizes share a kernel.
    *Leaves alone*: groups that have a kernel.
    *Reports*: an error for a group that no emitter takes, with the op and the
    limit; the remark `emit-kernel` for each kernel made, `slice-view` for each view, `concat-in-place` for each concat that is none.

    A kernel is `(buffers, batch, begin, end)`: it computes the units of work
    [begin, end) of `fusion.units`, each element of an output in exactly one unit.
    For `target=cuda` it is `(buffers, batch, block)`: a block of `fusion.threads`
    threads computes `fusion.grain` units.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"",
           "cpu or cuda">,
    Option<"fp", "fp", "std::string", /*default=*/"\"strict\"",
           "strict, or fast: means of f32 are taken in f32 on cuda">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def LowerKernels : Pass<"fusion-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "lowers the kernels to the LLVM dialect";
  let description = [{
    *Requires*: the module `@kernels` that `fusion-emit-kernels` makes (on it or
    on the module that holds it).
    *Ensures*: functions are `llvm.func`s of the runtime's ABI; math ops are
    expanded in place or called through the array `@fusion_imports`, listed in
    the attribute `fusion.imports`; conversions of f16 and bf16 that the CPU
    lacks are integer arithmetic. Without kernels it does nothing.
    For `target=cuda` each kernel becomes a private function and, if it is
    launched and not only a member of another, an entry in NVVM; math is a call of
    libdevice's function.
    *Leaves alone*: everything outside `@kernels`.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"",
           "cpu or cuda">,
    Option<"features", "features", "std::string", /*default=*/"\"\"",
           "comma-separated instruction sets that kernels may use, e.g. f16c,sse4.1">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::vector::VectorDialect"];
}

def LayOutWeights : Pass<"fusion-lay-out-weights", "::mlir::ModuleOp"> {
  let summary = "stores weights as the library reads them";
  let description = [{
    *Requires*: final groups, in a module of target cuda (`fusion.target`).
    *Ensures*: weights of a convolution on channels-last images that cuDNN
    computes, known at compile time, are stored [O, taps..., C]; the group, whose
    input they are, transposes them back before the convolution, which
    `fusion-emit-kernels` takes as the call's field `weightsLast`. All members of
    a launch, or none. Weights [N, K] of a product of f16 or bf16 with at least
    2048 rows, columns and addends a sum are stored [K, N], if nothing else reads
    them.
    *Leaves alone*: weights that a run computes, of one tap or one channel a
    group, and modules for other targets.
    *Reports*: the remark `lay-out-weights`: done, with the bytes, or each run
    must do it, with the reason.
  }];
  let options = [
    Option<"parameterFolder", "parameter-folder", "std::string",
           /*default=*/"\"\"",
           "folder of the weights files (default: the module's own)">];
  let dependentDialects = ["::fusion::FusionDialect"];
}

#endif // FUSION_CODEGEN_PASSES_TD

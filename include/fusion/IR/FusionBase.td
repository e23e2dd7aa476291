//===- FusionBase.td - Dialect, types, attributes and base classes --------===//
//
// What every family of ops shares: the dialect itself, the tensors ops work on,
// enums, attributes, effect resources and the op base classes.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_FUSIONBASE_TD
#define FUSION_IR_FUSIONBASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Fusion_Dialect : Dialect {
  let name = "fusion";
  let cppNamespace = "::fusion";
  let summary = "Model graphs, fused groups, collectives and programs";
  let description = [{
    A model is a function over ranked tensors. Compute ops are pure; broadcasting
    is always explicit; numerics follow IEEE 754 with no contraction and no
    reassociation across ops. f16 and bf16 contractions and reductions accumulate
    in f32 and round once.

    **Element types**: f64, f32, f16, bf16, i1, i8, i32, i64. Integers are
    two's complement and wrap.

    **Shapes** are static, except for a batch: a dimension `?` stands for
    `a * B + b`, where B is the batch of the call, `1..N`, given by the function
    attribute `fusion.batch = array<i64: 1, N>`. An argument's `?` is B itself. A tensor has
    at most 2^48 elements, a `?` counting 1.

    **Layout** of the ops that care is an attribute: `nchw` has channels at
    dimension 1, `nhwc` has them last. It says what the dimensions of the operand
    mean; it changes no bytes by itself.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let extraClassDeclaration = [{
    /// Version written to and read from bytecode.
    static constexpr uint64_t kBytecodeVersion = 1;
    /// Name of the function attribute `[min, max]` that bounds the batch B.
    static constexpr ::llvm::StringLiteral kBatchAttr = "fusion.batch";
    /// Name of the argument attribute that donates an argument's bytes to a result.
    static constexpr ::llvm::StringLiteral kDonatedAttr = "fusion.donated";
    /// Name of the argument and result attribute that carries the model's name of it.
    static constexpr ::llvm::StringLiteral kNameAttr = "fusion.name";

    void registerAttributes();
    void registerTypes();
  }];
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

def Fusion_Float : AnyTypeOf<[F64, F32, F16, BF16], "float (f64, f32, f16 or bf16)">;
def Fusion_Int : AnyTypeOf<[I8, I32, I64], "integer (i8, i32 or i64)">;
def Fusion_Number : AnyTypeOf<[F64, F32, F16, BF16, I8, I32, I64], "number">;
def Fusion_Element : AnyTypeOf<[F64, F32, F16, BF16, I1, I8, I32, I64], "element of the fusion dialect">;

/// Sizes beyond any machine are refused at the door, so that no later sum or
/// product of sizes overflows.
def Fusion_SupportedSize : CPred<"::fusion::hasSupportedSize($_self)">;

class Fusion_TensorOf<list<Type> elements>
    : RankedTensorOf<elements, [Fusion_SupportedSize], "ranked tensor (at most 2^48 elements)">;

def Fusion_Tensor : Fusion_TensorOf<[Fusion_Element]>;
def Fusion_FloatTensor : Fusion_TensorOf<[Fusion_Float]>;
def Fusion_IntTensor : Fusion_TensorOf<[Fusion_Int]>;
def Fusion_IndexTensor : Fusion_TensorOf<[I32, I64]>;
def Fusion_NumberTensor : Fusion_TensorOf<[Fusion_Number]>;
def Fusion_BoolTensor : Fusion_TensorOf<[I1]>;
def Fusion_LogicTensor : Fusion_TensorOf<[I1, I8, I32, I64]>;

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

class Fusion_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::fusion";
  let genSpecializedAttr = 0;
}

def Fusion_ReduceKind : Fusion_Enum<"ReduceKind", "reduction", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">,
  I32EnumAttrCase<"Prod", 2, "prod">, I32EnumAttrCase<"Max", 3, "max">,
  I32EnumAttrCase<"Min", 4, "min">]>;
def Fusion_ReduceKindAttr : EnumAttr<Fusion_Dialect, Fusion_ReduceKind, "reduce_kind">;

def Fusion_ScatterKind : Fusion_Enum<"ScatterKind", "how an update combines", [
  I32EnumAttrCase<"Set", 0, "set">, I32EnumAttrCase<"Add", 1, "add">,
  I32EnumAttrCase<"Min", 2, "min">, I32EnumAttrCase<"Max", 3, "max">]>;
def Fusion_ScatterKindAttr : EnumAttr<Fusion_Dialect, Fusion_ScatterKind, "scatter_kind">;

def Fusion_CompareKind : Fusion_Enum<"CompareKind", "comparison", [
  I32EnumAttrCase<"Eq", 0, "eq">, I32EnumAttrCase<"Ne", 1, "ne">,
  I32EnumAttrCase<"Lt", 2, "lt">, I32EnumAttrCase<"Le", 3, "le">,
  I32EnumAttrCase<"Gt", 4, "gt">, I32EnumAttrCase<"Ge", 5, "ge">]>;
def Fusion_CompareKindAttr : EnumAttr<Fusion_Dialect, Fusion_CompareKind, "compare_kind">;

def Fusion_GeluKind : Fusion_Enum<"GeluKind", "form of gelu", [
  I32EnumAttrCase<"Erf", 0, "erf">, I32EnumAttrCase<"Tanh", 1, "tanh">]>;
def Fusion_GeluKindAttr : EnumAttr<Fusion_Dialect, Fusion_GeluKind, "gelu_kind">;

def Fusion_Layout : Fusion_Enum<"Layout", "meaning of the dimensions", [
  I32EnumAttrCase<"NCHW", 0, "nchw">, I32EnumAttrCase<"NHWC", 1, "nhwc">]>;
def Fusion_LayoutAttr : EnumAttr<Fusion_Dialect, Fusion_Layout, "layout">;

def Fusion_GroupKind : Fusion_Enum<"GroupKind", "emitter of a group", [
  I32EnumAttrCase<"Loop", 0, "loop">, I32EnumAttrCase<"RowReduce", 1, "row_reduce">,
  I32EnumAttrCase<"ColumnReduce", 2, "column_reduce">,
  I32EnumAttrCase<"Transpose", 3, "transpose">,
  I32EnumAttrCase<"Scatter", 4, "scatter">, I32EnumAttrCase<"Library", 5, "library">,
  I32EnumAttrCase<"Window", 6, "window">, I32EnumAttrCase<"Contraction", 7, "contraction">,
  I32EnumAttrCase<"Horizontal", 8, "horizontal">, I32EnumAttrCase<"Fallback", 9, "fallback">]>;
def Fusion_GroupKindAttr : EnumAttr<Fusion_Dialect, Fusion_GroupKind, "group_kind">;

def Fusion_ParameterKind : Fusion_Enum<"ParameterKind", "mutability of a parameter", [
  I32EnumAttrCase<"Const", 0, "const">, I32EnumAttrCase<"State", 1, "state">]>;
def Fusion_ParameterKindAttr : EnumAttr<Fusion_Dialect, Fusion_ParameterKind, "parameter_kind">;

def Fusion_SegmentKind : Fusion_Enum<"SegmentKind", "kind of a memory segment", [
  I32EnumAttrCase<"Private", 0, "private">, I32EnumAttrCase<"Peer", 1, "peer">,
  I32EnumAttrCase<"Pinned", 2, "pinned">, I32EnumAttrCase<"Const", 3, "const">,
  I32EnumAttrCase<"Input", 4, "input">, I32EnumAttrCase<"Output", 5, "output">]>;
def Fusion_SegmentKindAttr : EnumAttr<Fusion_Dialect, Fusion_SegmentKind, "segment_kind">;

def Fusion_AccessKind : Fusion_Enum<"AccessKind", "how a command touches bytes", [
  I32EnumAttrCase<"Read", 1, "read">, I32EnumAttrCase<"Write", 2, "write">,
  I32EnumAttrCase<"ReadWrite", 3, "read_write">]>;

//===----------------------------------------------------------------------===//
// Base classes
//===----------------------------------------------------------------------===//

/// Every op of the dialect.
class Fusion_Op<string mnemonic, list<Trait> traits = []>
    : Op<Fusion_Dialect, mnemonic, traits>;

/// An op on tensor values: no effects, may be moved, merged or dropped.
class Fusion_PureOp<string mnemonic, list<Trait> traits = []>
    : Fusion_Op<mnemonic, !listconcat([Pure], traits)>;

#endif // FUSION_IR_FUSIONBASE_TD

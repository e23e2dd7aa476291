//===- ProgramOps.td - Commands over byte ranges --------------------------===//
//
// The lower of the two levels: what a runtime executes. A program is a list of
// commands, each on a stream, over byte ranges of named segments. It maps one to
// one to the module file (see runtime/src/core/ModuleData.h).
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_PROGRAMOPS_TD
#define FUSION_IR_PROGRAMOPS_TD

include "fusion/IR/FusionBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Fusion_ExtentAttr : AttrDef<Fusion_Dialect, "Extent"> {
  let mnemonic = "extent";
  let summary = "a size that depends on the batch: scale * B + base";
  let parameters = (ins "int64_t":$scale, "int64_t":$base);
  let assemblyFormat = "`<` $scale `*` `B` `+` $base `>`";
}

def Fusion_TurnAttr : AttrDef<Fusion_Dialect, "Turn"> {
  let mnemonic = "turn";
  let summary = "how far a range lies from its offset on each rank";
  let description = [{
    On the rank at place p of the n ranks along `axes` of the module's mesh the
    range begins `((p + shift) mod n) * step` bytes behind its offset.
  }];
  let parameters = (ins "int64_t":$step, "int64_t":$shift, "::mlir::ArrayAttr":$axes);
  let assemblyFormat = "`<` $step `,` $shift `,` $axes `>`";
}

def Fusion_RangeAttr : AttrDef<Fusion_Dialect, "Range"> {
  let mnemonic = "range";
  let summary = "bytes [offset, offset + size) of a segment, at the largest batch";
  let description = [{
    `of n` names the planner's allocation that the bytes belong to: all views and
    in-place results of one buffer share its number. With it the schedule
    verifier proves that no read sees bytes of another buffer. `turned` moves the
    range by the rank's place.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$segment, "int64_t":$offset, "int64_t":$size,
                        DefaultValuedParameter<"int64_t", "0">:$allocation,
                        OptionalParameter<"::fusion::TurnAttr">:$turn);
  let assemblyFormat = "`<` $segment `,` $offset `,` $size (`of` $allocation^)? (`turned` $turn^)? `>`";
}

def Fusion_AccessAttr : AttrDef<Fusion_Dialect, "Access"> {
  let mnemonic = "access";
  let summary = "a byte range that a command reads, writes, or both";
  let description = [{
    A kernel's access says the element type, for checks of values at run time.
  }];
  let parameters = (ins EnumParameter<Fusion_AccessKind>:$kind, "::fusion::RangeAttr":$range,
                        OptionalParameter<"::mlir::Type">:$elementType);
  let assemblyFormat = "`<` $kind `,` $range (`,` $elementType^)? `>`";
}

def Fusion_AccessArrayAttr : TypedArrayAttrBase<Fusion_AccessAttr, "array of byte range accesses">;

def Fusion_ProgramOp : Fusion_Op<"program", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock, SymbolTable]> {
  let summary = "what a runtime executes";
  let description = [{
    Segments and ports, then commands. Commands of one stream run in order;
    streams are ordered only by record and wait. `peak` is the number of bytes of
    private, pinned and peer segments.

    Constraints: C1 1 <= batch min <= max; C2 streams and events fit the
    commands; C3 each range lies in its segment; C4 an event is recorded before it is waited for.

    Example:
    ```mlir
    fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = 0 {
      fusion.segment @in0 input size = 16 align = 64
      fusion.segment @out0 output size = 16 align = 64
      fusion.port input "x" @in0 : tensor<4xf32>
      fusion.port output "y" @out0 : tensor<4xf32>
      fusion.copy stream = 0 from #fusion.range<@in0, 0, 16> to #fusion.range<@out0, 0, 16> size = #fusion.extent<0 * B + 16>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DenseI64ArrayAttr:$batch, I64Attr:$streams, I64Attr:$events, I64Attr:$peak);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `batch` `=` $batch `streams` `=` $streams `events` `=` $events `peak` `=` $peak attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

class Fusion_ProgramPartOp<string mnemonic, list<Trait> traits = []>
    : Fusion_Op<mnemonic, !listconcat([HasParent<"ProgramOp">], traits)>;

def Fusion_SegmentOp : Fusion_ProgramPartOp<"segment", [Symbol]> {
  let summary = "a named range of memory";
  let description = [{
    Bytes at the largest batch. A const segment's bytes are the concatenated `contents`.
    Constraints: C1 size >= 0; C2 the alignment is a power of two.

    Example: see `fusion.program`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Fusion_SegmentKindAttr:$kind, I64Attr:$size, I64Attr:$align);
  let assemblyFormat = "$sym_name `` $kind `size` `=` $size `align` `=` $align attr-dict";
  let hasVerifier = 1;
}

def Fusion_ContentOp : Fusion_ProgramPartOp<"content"> {
  let summary = "what a part of the const segment holds";
  let description = [{
    A parameter by symbol, or a value.
    Constraints: C1 exactly one of them; C2 the range has the tensor's bytes.

    Example:
    ```mlir
    fusion.content #fusion.range<@weights, 0, 48> parameter @w : tensor<4x3xf32>
    ```
  }];
  let arguments = (ins Fusion_RangeAttr:$range, OptionalAttr<FlatSymbolRefAttr>:$parameter, OptionalAttr<ElementsAttr>:$value, TypeAttr:$type);
  let assemblyFormat = "$range (`parameter` $parameter^)? (`value` $value^)? `:` $type attr-dict";
  let hasVerifier = 1;
}

def Fusion_PortOp : Fusion_ProgramPartOp<"port"> {
  let summary = "an input or output of the program";
  let description = [{
    `shape` gives each `?` of the type as an extent. `donated_to` is the index of
    the output that takes over the input's bytes.
    Constraints: C1 the direction is `input` or `output`; C2 `shape` has an extent for
    each dimension and is there if the type has a `?`; C3 only an input is donated.

    Example: see `fusion.program`.
  }];
  let arguments = (ins Fusion_SegmentKindAttr:$direction, StrAttr:$name, FlatSymbolRefAttr:$segment, TypeAttr:$type,
                       OptionalAttr<ArrayAttr>:$shape, OptionalAttr<I64Attr>:$donated_to);
  let assemblyFormat = "`` $direction $name $segment `:` $type attr-dict";
  let hasVerifier = 1;
}

def Fusion_LaunchOp : Fusion_ProgramPartOp<"launch"> {
  let summary = "runs a kernel over its units of work";
  let description = [{
    The runtime may split [0, units) into ranges of at least `grain` units.

    Example:
    ```mlir
    fusion.launch @kernels::@k0 stream = 0 units = #fusion.extent<0 * B + 4> grain = 1 [#fusion.access<read, <@in0, 0, 16>>, #fusion.access<write, <@out0, 0, 16>>]
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, I64Attr:$stream, Fusion_ExtentAttr:$units, I64Attr:$grain, Fusion_AccessArrayAttr:$operands);
  let assemblyFormat = "$kernel `stream` `=` $stream `units` `=` $units `grain` `=` $grain $operands attr-dict";
}

def Fusion_CallOp : Fusion_ProgramPartOp<"call"> {
  let summary = "runs a library op, with an optional kernel on its output";
  let description = [{
    `call` describes the op in the library's terms (kinds and keys as the fields
    of LibraryCall in ModuleData.h). With `tail_kernel`, that kernel is the epilogue:
    unit u belongs to row `u / (units / rows)` of the output's leading dimension.

    Example:
    ```mlir
    fusion.call "avg_pool" stream = 0 [#fusion.access<read, <@in0, 0, 16>>, #fusion.access<write, <@out0, 0, 16>>] {call = {dtype = "f32"}}
    ```
  }];
  let arguments = (ins StrAttr:$op, I64Attr:$stream, Fusion_AccessArrayAttr:$operands, DictionaryAttr:$call,
                       OptionalAttr<SymbolRefAttr>:$tail_kernel, OptionalAttr<Fusion_ExtentAttr>:$tail_units,
                       OptionalAttr<I64Attr>:$tail_grain, OptionalAttr<Fusion_AccessArrayAttr>:$tail_operands);
  let assemblyFormat = "$op `stream` `=` $stream $operands (`tail` $tail_kernel^ `units` `=` $tail_units `grain` `=` $tail_grain $tail_operands)? attr-dict";
}

def Fusion_CopyOp : Fusion_ProgramPartOp<"copy"> {
  let summary = "copies bytes";
  let description = [{
    The first `size` bytes of `source` to `target`; the ranges do not overlap.

    Example: see `fusion.program`.
  }];
  let arguments = (ins I64Attr:$stream, Fusion_RangeAttr:$source, Fusion_RangeAttr:$target, Fusion_ExtentAttr:$size);
  let assemblyFormat = "`stream` `=` $stream `from` $source `to` $target `size` `=` $size attr-dict";
  let hasVerifier = 1;
}

def Fusion_RunCollectiveOp : Fusion_ProgramPartOp<"collective"> {
  let summary = "runs a collective on byte ranges";
  let description = [{
    `op` names the collective; `axes` its group on `mesh`; `details` the rest of its attributes.

    Example:
    ```mlir
    fusion.collective "all_reduce" on @m[dp] stream = 1 [#fusion.access<read_write, <@arena, 0, 64>>] {details = {kind = "sum", dtype = "f32"}}
    ```
  }];
  let arguments = (ins StrAttr:$op, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes, I64Attr:$stream, Fusion_AccessArrayAttr:$operands, DictionaryAttr:$details);
  let assemblyFormat = "$op `on` custom<MeshGroup>($mesh, $axes) `stream` `=` $stream $operands attr-dict";
}

def Fusion_RecordOp : Fusion_ProgramPartOp<"record"> {
  let summary = "marks a point of a stream";
  let description = "Example:\n```mlir\nfusion.record event = 0 stream = 0\n```\n";
  let arguments = (ins I64Attr:$event, I64Attr:$stream);
  let assemblyFormat = "`event` `=` $event `stream` `=` $stream attr-dict";
}

def Fusion_WaitOp : Fusion_ProgramPartOp<"wait"> {
  let summary = "a stream waits for a recorded point";
  let description = "Example:\n```mlir\nfusion.wait event = 0 stream = 1\n```\n";
  let arguments = (ins I64Attr:$event, I64Attr:$stream);
  let assemblyFormat = "`event` `=` $event `stream` `=` $stream attr-dict";
}

#endif // FUSION_IR_PROGRAMOPS_TD

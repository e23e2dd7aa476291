//===- ModuleData.h - The plain structs of an executable module -*- C++ -*-===//
//
// What a module says, as plain C++ structs: the border between the compiler
// (which fills them and calls `writeModule`) and the runtime (which gets them
// back from `readModule`, verified). Neither MLIR nor FlatBuffers types appear
// here. Everything is in bytes, indices are positions in the vectors below.
//
// Memory model. A program works on *segments*. A `ByteRange` is a part of one
// segment and all ranges are planned at the largest batch size. Inputs and
// outputs are segments of their own, bound to the caller's buffers at each
// call; `Const` is the weights section of the file, mapped read-only;
// `Private` is the arena.
//
// Execution model. Commands of one stream run in order; commands of different
// streams are ordered only through record/wait pairs.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_MODULEDATA_H
#define FUSION_RUNTIME_CORE_MODULEDATA_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fusion::rt {

/// Element types. `I1` is stored as one byte, 0 or 1. The values are part of
/// the file format.
enum class DType : uint8_t { F64, F32, F16, BF16, I1, I8, I32, I64 };

/// A size that depends on the batch: `scale * B + base`. Static: scale == 0.
struct Affine {
  int64_t scale = 0;
  int64_t base = 0;
};

/// The name, element type and shape of an input, an output or a parameter.
struct TensorDesc {
  std::string name;
  DType dtype = DType::F32;
  std::vector<Affine> shape; ///< empty: a scalar
};

enum class SegmentKind : uint8_t {
  Private,
  Peer,
  Pinned,
  Const,
  Input,
  Output
};

struct Segment {
  SegmentKind kind = SegmentKind::Private;
  uint64_t size = 0;       ///< bytes at the largest batch
  uint32_t alignment = 64; ///< bytes, a power of two
};

struct ByteRange {
  uint32_t segment = 0;
  uint64_t offset = 0;
  uint64_t size = 0; ///< bytes at the largest batch
  /// The planner's allocation the bytes belong to (all views and in-place
  /// results of one buffer share its number), or 0. With a number, a read is
  /// proved to see only bytes last written under the same number: two
  /// overlapping lifetimes can't share bytes unseen.
  uint32_t allocation = 0;
  /// 1 + the index of one of `Program::turns`, by which the range lies further
  /// behind, or 0.
  uint32_t turn = 0;
};

/// How much further than its offset a range lies on a rank: on the one at place
/// p of the n along `axes`, `((p + shift) % n) * step` bytes. So ranks write
/// what they computed first, each of its own rows, into one value in the order
/// of the ranks.
struct Turn {
  std::vector<uint32_t> axes; ///< indices into the mesh's, in their order
  uint64_t step = 0;
  uint32_t shift = 0; ///< below n
};

/// One buffer a command touches. A range both read and written (in place) has
/// both flags. A kernel with one operand to read and another to write computes
/// in place when both are the same range and both have both flags.
struct Operand {
  ByteRange range;
  bool reads = false;
  bool writes = false;
  /// Of a launch's operand, for --nan-check; I8 also stands for raw bytes. A
  /// call's operands have the call's type.
  DType dtype = DType::I8;
};

enum class LibraryOp : uint8_t {
  Conv,
  ConvTranspose,
  MatMul,
  AvgPool,
  Attention,
  AttentionGrad
};

/// What a library call applies to its result, last of all. `GeluTanhGrad`
/// multiplies it by the slope that gelu's tanh form has at another operand.
enum class Activation : uint8_t { None, Relu, GeluTanh, GeluErf, GeluTanhGrad };

/// What a product sums beside its result: the left or right side over the
/// dimension that the product sums over, or its result over the rows, after
/// the activation. The gradient of a bias.
enum class BiasGradient : uint8_t { None, Lhs, Rhs, Result };

/// A contraction or pooling that the backend's library computes (oneDNN on
/// CPU). Shapes are logical (N, C, spatial...) whatever the memory layout.
///
/// Operands of the call, in order: Conv/ConvTranspose `input, weights[, bias]
/// [, addend], output`; MatMul `lhs, rhs[, bias][, addend][, where the slope is
/// taken], output[, bias gradient]`; AvgPool `input, output`; Attention `query,
/// key, value[, mask], output`; AttentionGrad `query, key, value, grad[,
/// mask]`, then the gradients of query, key and value. `addend` is added to the
/// result elementwise (after the bias) and has the output's shape; it may be
/// the same range as the output. With several `members` nothing that one writes
/// is read by another.
struct LibraryCall {
  LibraryOp op = LibraryOp::Conv;
  DType dtype = DType::F32; ///< of inputs and output; accumulation is f32/f64
  bool hasBias = false;
  bool hasAddend = false;
  bool channelsLast = false; ///< memory order of input and output (NHWC)
  /// Conv: input [N,C,spatial]; MatMul: lhs [batch..., M, K] before transposes;
  /// AvgPool: input; Attention, AttentionGrad: query [B, H, S, D].
  std::vector<Affine> inputShape;
  /// Conv: weights [O, C/g, k...]; ConvTranspose: [C, O/g, k...]; MatMul: rhs;
  /// Attention, AttentionGrad: key [B, G, T, D]; the value is [B, G, T, E].
  std::vector<Affine> weightShape;
  /// Attention: [B, H, S, E]; AttentionGrad: that of `grad`, which is the same.
  std::vector<Affine> outputShape;
  std::vector<int64_t> strides, dilations, padLow, padHigh; ///< spatial
  std::vector<int64_t> window; ///< AvgPool only: spatial
  int64_t groups = 1;
  /// How often the call is made, on operands of its own each time: the
  /// command's operands are those of the first, of the second, and so on.
  int64_t members = 1;
  bool transposeLhs = false, transposeRhs = false; ///< MatMul: last two dims
  bool countIncludePad = false;                    ///< AvgPool
  Activation activation = Activation::None; ///< on the result with its addend
  /// f32 operands may be rounded to tf32's 11 bits.
  bool computeTf32 = false;
  /// Conv, ConvTranspose with `channelsLast`: weights are stored [O, k..., C/g]
  /// or [C, k..., O/g]; their shape is told as ever.
  bool weightsLast = false;
  /// MatMul of F16 or BF16 on a GPU: a member's sums have the order that it has
  /// alone, so that its bits do not depend on what shares the call.
  bool keepsOrder = false;
  /// Attention, AttentionGrad: [B or 1, H or 1, S, T], added to the scaled
  /// scores; empty without a mask.
  std::vector<Affine> maskShape;
  double scale = 0;    ///< of the scores
  bool causal = false; ///< keys t > s + (T - S) are left out
  /// MatMul of two matrices on a GPU: `Result` with GeluTanhGrad only, the
  /// others without any activation.
  BiasGradient biasGradient = BiasGradient::None;
  /// MatMul on a GPU: multiprocessors that it may take, 0 for all; the others
  /// are for what runs beside it.
  uint32_t units = 0;

  bool isAttention() const {
    return op == LibraryOp::Attention || op == LibraryOp::AttentionGrad;
  }
  /// Whether an operand of the output's shape says where a slope is taken.
  bool hasSlope() const { return activation == Activation::GeluTanhGrad; }
  /// Whether it computes a gradient beside a product.
  bool hasGradient() const {
    return hasSlope() || biasGradient != BiasGradient::None;
  }
  /// Operands of a member that the call writes, the last of them.
  size_t numResults() const {
    return op == LibraryOp::AttentionGrad       ? 3
           : biasGradient == BiasGradient::None ? 1
                                                : 2;
  }
};

enum class CollectiveOp : uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  Permute,
  AxisIndex,
  Release
};

/// How a collective combines elements. In the order of the group's ranks,
/// floats in f64 and rounded once; `Mean` divides before it rounds (integers:
/// towards zero).
enum class Reduction : uint8_t { Sum, Mean, Min, Max, Prod };

/// What carries a collective between GPUs; ranks on CPUs ignore it. `Auto` is
/// NCCL's. Peer copies add nothing, so no reduction has `Peer`.
enum class CollectiveTransport : uint8_t { Auto, Nccl, Peer };

/// One tensor of a collective.
struct CollectivePart {
  DType dtype = DType::F32;
  std::vector<Affine> shape; ///< of the input
  /// AllReduce, Broadcast, Permute: one operand is input and output.
  bool inPlace = false;
};

/// What the ranks of a group do together. The group of a rank on `axes` are the
/// ranks that agree with it on all other axes of the mesh, numbered row-major
/// over `axes` in the order written.
///
/// Operands, part by part: `input, output`, or one operand that is both if the
/// part is in place. AxisIndex has no part and one operand, an i64: the rank's
/// number in its group. Release moves nothing and has no part: the ranks tell
/// each other that they have read what direct moves let them read. Its operands
/// are those of the moves, in their order: inputs, which it reads, and outputs,
/// which it reads and writes. Result shapes: AllGather multiplies `dim` by the
/// group's size, ReduceScatter divides it, AllToAll divides `splitDim` and
/// multiplies `concatDim`; a rank without a source in Permute gets zeros.
///
/// The collectives of one stream and one list of axes share a communicator and
/// run in list order.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::AllReduce;
  Reduction reduction = Reduction::Sum; ///< AllReduce, ReduceScatter
  std::vector<uint32_t> axes;           ///< indices into the mesh's
  std::vector<CollectivePart> parts;
  int64_t dim = 0;                       ///< AllGather, ReduceScatter
  int64_t splitDim = 0, concatDim = 0;   ///< AllToAll
  int64_t root = 0;                      ///< Broadcast: number in the group
  std::vector<int64_t> sources, targets; ///< Permute: numbers in the group
  int64_t bucket = -1; ///< for names in traces; -1: not of a bucket
  CollectiveTransport transport = CollectiveTransport::Auto;
  /// Of a move over peer copies: instead of copying, launches that read an
  /// output may be given the bytes in the memory of the rank that they come
  /// from, up to the group's next Release. See rule S9 in VerifySchedule.h.
  bool isDirect = false;
  /// The most multiprocessors that NCCL's kernels may take; 0: as NCCL likes.
  /// The collectives of a communicator take the least that one of them says.
  uint32_t units = 0;
};

/// A kernel of the module's native code run over `units` independent units of
/// work. The CPU may split [0, units) into ranges of at least `grain` units,
/// run them in any order and on any thread: the result is the same. On a GPU a
/// block computes `grain` units.
struct KernelLaunch {
  uint32_t kernel = 0; ///< index into `Module::kernels`
  std::vector<Operand> operands;
  Affine units;
  int64_t grain = 1;
};

enum class CommandKind : uint8_t {
  Launch,
  Call,
  Copy,
  Collective,
  Record,
  Wait
};

struct Command {
  CommandKind kind = CommandKind::Launch;
  uint32_t stream = 0;
  std::string name; ///< the group or op it came from, for messages and traces

  KernelLaunch launch;       ///< Launch
  CollectiveCall collective; ///< Collective; its operands are `operands`
  /// Call. `operands` belong to the library call. If `hasTail`, `launch` is run
  /// on the call's output as its epilogue; the backend may interleave the two
  /// over the output's leading dimension (of L rows; launch.units is then a
  /// multiple of L and unit u belongs to row u / (units / L)) so that rows are
  /// still in cache. The result equals running the call, then the launch. The
  /// tail of a call with several members runs after all of them, and its units
  /// are free.
  LibraryCall call;
  std::vector<Operand> operands;
  bool hasTail = false;
  /// Call, on a GPU: with `hasFallback` a kernel that computes the same on the
  /// same `operands` (it names none of its own), for a machine whose library
  /// lacks the call.
  bool hasFallback = false;
  KernelLaunch fallback;

  ByteRange source, target; ///< Copy: equal sizes
  Affine copySize;          ///< Copy: bytes at batch B
  uint32_t event = 0;       ///< Record, Wait
};

/// An input or output of the program. `range` covers a whole Input/Output
/// segment; a donated input names the output that takes over its bytes.
struct Port {
  TensorDesc tensor;
  uint32_t segment = 0;
  int32_t donatedTo = -1; ///< inputs: index of the output, or -1
  /// In a program with a mesh: the mesh axes that cut each dimension, major
  /// first; empty: the whole tensor on every rank. `tensor.shape` is one
  /// rank's.
  std::vector<std::vector<uint32_t>> sharding;
  /// The tensor's shape over all ranks where a dimension was padded to be cut
  /// evenly; empty: the local one times the sizes of its axes.
  std::vector<int64_t> globalShape;
};

/// The ranks of a program, row-major over named axes: the last varies fastest.
/// Without axes there is one rank.
struct Mesh {
  std::string name;
  std::vector<std::pair<std::string, uint32_t>> axes; ///< name, size
};

struct Program {
  std::string name;
  Mesh mesh;
  std::vector<Port> inputs, outputs;
  std::vector<Segment> segments;
  std::vector<Command> commands;
  std::vector<Turn> turns; ///< of ranges; see `placeRanges` in Turns.h
  uint32_t streams = 1;
  uint32_t events = 0;
  int64_t minBatch = 1, maxBatch = 1;
  /// Peak of bytes of Private + Pinned + Peer segments, declared by the planner
  /// and recomputed at load.
  uint64_t peakBytes = 0;
};

/// A native kernel. ABI of the symbol in the native section:
///   void symbol(void *const *buffers, int64_t batch,
///               int64_t begin, int64_t end)
/// `buffers[i]` is the address of operand i. Units [begin, end) are computed.
/// Of an entry in the device code, for a grid of ceil(units / grain) blocks of
/// `threads` threads:
///   symbol(struct { void *operands[n]; } by value, int64_t batch)
/// Operands start at multiples of 16 bytes if their offsets in segments do.
struct Kernel {
  std::string symbol;
  std::string description; ///< what it computes, for --inspect
  uint32_t threads = 0;    ///< of a block, for target cuda
  /// What the assembler said; 0: unknown. Of a thread, of a thread, of a block.
  uint32_t registers = 0, spillBytes = 0, sharedBytes = 0;
  /// Before it touches memory it waits for the end of the kernels before it: it
  /// may be launched while they run (target cuda).
  bool waits = false;
};

/// One function the native code calls in the runtime: it reads the address from
/// the exported array `void *fusion_imports[]` at `ordinal`. The runtime fills
/// the array from its own fixed table; an unknown name or signature is refused.
struct Import {
  std::string name;      ///< e.g. "expf"
  std::string signature; ///< e.g. "f32(f32)", "f64(f64,f64)"
};

struct Module {
  std::string target; ///< "cpu", or "cuda:sm_90"
  std::string cpu;    ///< resolved name, e.g. "sapphirerapids"
  std::vector<std::string> cpuFeatures; ///< needed, LLVM names: "avx512f"
  Program program;
  std::vector<Kernel> kernels;
  std::vector<Import> imports;
  /// An ELF shared object without undefined symbols, DT_NEEDED or
  /// constructors. Empty if there are no kernels.
  std::vector<uint8_t> nativeCode;
  /// Target cuda: a cubin for the target's architecture (empty if it was not
  /// assembled), and the PTX it was made from, as text.
  std::vector<uint8_t> deviceCode, ptx;
  /// The weights: bytes of the one Const segment (if any); 64-byte aligned in
  /// the file.
  std::vector<uint8_t> constants;
  /// Named parts of the constants, for --inspect.
  std::vector<std::pair<TensorDesc, ByteRange>> parameters;
  /// key/value lines in order: tool version, flags, rewrites that change
  /// values, source hash, ... printed by --inspect.
  std::vector<std::pair<std::string, std::string>> provenance;
  /// Identifies the compiler build that made the native code (for --trust=own).
  std::string buildId;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_MODULEDATA_H

//===- Emitters.h - Group to kernel, one emitter a kind ---------*- C++ -*-===//
//
// An emitter chooses which positions a unit of work covers and in which order;
// what is computed at a position is the evaluator's work. All emitters write
// each element of each output exactly once, in exactly one unit.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_EMITTERS_H
#define FUSION_LIB_CODEGEN_EMITTERS_H

#include "BodyEvaluator.h"

namespace fusion::codegen {

/// How a kernel is run.
struct KernelShape {
  Extent units{0, 0};
  int64_t grain = 1;   ///< units of a range at least; of a block on a GPU
  int64_t threads = 0; ///< of a block; 0 on a CPU
};

/// One kernel being made from (a part of) a group.
struct KernelTask {
  KernelBuilder &k;
  BodyEvaluator &evaluator;
  GroupOp group;
  /// Values to store, and the operands they are stored to.
  llvm::SmallVector<std::pair<mlir::Value, unsigned>> stores;
  /// The ops that the stores need, in order.
  llvm::SmallVector<mlir::Operation *> ops;
};

/// Whether `body` has an emitter; else `reason` names the op and the limit.
bool canEmit(GroupOp group, std::string &reason);

/// The rows that all reductions of a body share: every reduction combines the
/// same dimensions of one shape, and every output has the rows' shape or one
/// value a row.
struct RowSpace {
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<int64_t> dims; ///< reduced, increasing
  bool trailing = false;
  mlir::Value representative; ///< a value of that shape, for its extents

  bool isReduced(int64_t dim) const { return llvm::is_contained(dims, dim); }
  /// The shape without the reduced dimensions.
  llvm::SmallVector<int64_t> keptShape() const;
};
std::optional<RowSpace> findRowSpace(mlir::Block *body);

/// Values of the body that are computed from a reduction.
llvm::DenseSet<mlir::Value> findReductionDependent(mlir::Block *body);

/// Keeps in the kernel's frame those values of a row of `length` elements that
/// are costly and needed by more than one loop: those of the reductions, and
/// one that computes `last`.
void keepRowValues(KernelTask &task, const RowSpace &rows, int64_t length,
                   llvm::ArrayRef<mlir::Value> last);

/// Computes what there is once a row: the reductions, and what is computed from
/// them (`dependent`), in the body's order up to `end`.
void evaluateRowValues(KernelTask &task, const RowSpace &rows,
                       llvm::ArrayRef<Index> kept,
                       const llvm::DenseSet<mlir::Value> &dependent,
                       mlir::Operation *end);

/// Positions of `to`'s dimensions given those of `from`, when the two shapes
/// differ by unit dimensions only.
std::optional<Coordinates> matchUnitDims(llvm::ArrayRef<int64_t> from,
                                         llvm::ArrayRef<Index> at,
                                         llvm::ArrayRef<int64_t> to);

/// Parts of the innermost dimension in which a concat or a pad reads one
/// operand only: part i is [bounds[i], bounds[i + 1]).
struct InnerSegments {
  llvm::SmallVector<int64_t> bounds;
  /// Called before the code of part i is built, and with the number of bounds
  /// at the end.
  std::function<void(size_t)> enter;
};

/// How the positions of a shape are walked over: those of `inner` along one
/// run, for each of the outer ones, and for each of those between.
struct WalkPlan {
  llvm::SmallVector<size_t> dims; ///< that have more than one position
  size_t firstInner = 0;          ///< in `dims`: where the run begins
  size_t lastUnit = 0;            ///< in `dims`: where `outer` ends
  Extent outer{0, 1}, inner{0, 1};

  /// Whether all positions are one run.
  bool isRun() const { return firstInner == 0; }
};
WalkPlan planWalk(llvm::ArrayRef<Extent> shape, llvm::ArrayRef<bool> canMerge,
                  bool mergeInner);

/// Walks over all positions of `shape`, dimensions merged where `canMerge`
/// (entry d: d with d + 1) says that their accesses stay contiguous, and calls
/// `body` for vectors of positions along the innermost one and for single ones.
/// Returns the units, or nullopt when they are not affine in the batch.
/// With `segments` the innermost dimension is not merged and walked segment by
/// segment.
std::optional<KernelShape>
iterate(KernelTask &task, llvm::ArrayRef<Extent> shape,
        llvm::ArrayRef<bool> canMerge, int64_t costPerElement,
        llvm::function_ref<void(llvm::ArrayRef<Index>)> body,
        const InnerSegments *segments = nullptr);
/// `body` for the elements [begin, end), in vectors then one by one; `length`
/// is their number, if it is known.
void iterateRange(KernelTask &task, mlir::Value begin, mlir::Value end,
                  std::optional<int64_t> length,
                  llvm::function_ref<void(const Index &)> body);
/// Which neighbouring dimensions of `shape` the ops keep together.
llvm::SmallVector<bool> findMergeable(llvm::ArrayRef<mlir::Operation *> ops,
                                      llvm::ArrayRef<int64_t> shape);
/// Rough cost of one element of a store, in flops.
int64_t estimateCost(llvm::ArrayRef<mlir::Operation *> ops);

/// Elementwise and injective ops, windows, contractions: every store at its own
/// positions.
std::optional<KernelShape> emitLoop(KernelTask &task, std::string &reason);
/// Trailing reductions with prologue and epilogue, a row a unit.
std::optional<KernelShape> emitRowReduce(KernelTask &task, const RowSpace &rows,
                                         std::string &reason);
/// The matmul whose left side the body computes, if it can be emitted row by
/// row; else null, and each element is computed where it is read.
MatmulOp findProductWithPrologue(KernelTask &task);
/// Such a product, a row a unit.
KernelShape emitRowProduct(KernelTask &task, MatmulOp matmul);
/// Other reductions, vectors of columns.
std::optional<KernelShape>
emitColumnReduce(KernelTask &task, const RowSpace &rows, std::string &reason);
/// A user's kernel, alone in its group, as one unit.
std::optional<KernelShape> emitUserKernel(KernelTask &task, KernelCallOp call,
                                          std::string &reason);
/// Whether the cpu target compiles it; else `reason` says why not.
bool canEmitUserKernel(KernelCallOp call, std::string &reason);
/// A scatter, with elementwise ops on its operands.
std::optional<KernelShape> emitScatter(KernelTask &task, std::string &reason);
/// What an element becomes by an update, in the element's precision.
mlir::Value combineUpdate(KernelBuilder &k, ScatterKind kind, mlir::Value old,
                          mlir::Value update, mlir::Type element);

/// The same for a GPU (lib/Codegen/Cuda): a block of threads computes `grain`
/// units. A loop's unit is an element.
std::optional<KernelShape> emitCudaLoop(KernelTask &task, std::string &reason);
/// A loop whose outputs transpose what they read, in tiles; nothing is emitted
/// if there is none that gains by it.
std::optional<KernelShape> emitCudaTranspose(KernelTask &task);
/// Rows in registers; a warp, a part of it or a block a row, by the row's size.
std::optional<KernelShape>
emitCudaRowReduce(KernelTask &task, const RowSpace &rows, std::string &reason);
/// Columns, each dealt to several threads.
std::optional<KernelShape> emitCudaColumnReduce(KernelTask &task,
                                                const RowSpace &rows,
                                                std::string &reason);
/// Rows a block, which looks for the indices that name them.
std::optional<KernelShape> emitCudaScatter(KernelTask &task,
                                           std::string &reason);
/// The gradients of attention, stored in order; a unit is a group of heads.
std::optional<KernelShape> emitCudaAttentionGrad(KernelTask &task,
                                                 std::string &reason);

/// Whether each output of `group` is a run of the bytes of the input in its
/// place; then the attribute `fusion.view` has the offsets, and it needs no
/// kernel.
bool markView(GroupOp group);

/// Whether `group` only puts values one behind the other that are computed for
/// it alone; then the attribute `fusion.pieces` has the offset of each input in
/// the output, producers write there, and it needs no kernel.
bool markPieces(GroupOp group);

/// The library's part of a group of kind `library`.
struct LibraryPlan {
  mlir::Operation *root = nullptr;
  mlir::Value chained;  ///< what the library computes, epilogue included
  mlir::Value sum;      ///< the gradient of a bias beside it, or null
  unsigned output = 0;  ///< index of the group's result that holds it
  mlir::Attribute call; ///< the attribute `fusion.call`
  bool hasTail = false;
  llvm::SmallVector<int64_t> tailOperands; ///< indices into inputs ++ outputs
  std::optional<std::pair<int64_t, int64_t>> inPlace; ///< output, input
};
mlir::FailureOr<LibraryPlan> planLibrary(GroupOp group,
                                         const BatchExtents &extents);

/// One of the kernels that a horizontal kernel runs.
struct HorizontalMember {
  mlir::FlatSymbolRefAttr kernel;
  int64_t firstOperand = 0; ///< of the horizontal kernel's operands
  Extent units{0, 0};
  int64_t grain = 1;
  int64_t threads = 0; ///< of a block, on a GPU
};
/// Makes the kernel `name` whose units are those of all members, each weighted
/// by its work. Fails where their number does not fit.
mlir::LogicalResult emitHorizontalKernel(
    mlir::ModuleOp kernels, llvm::StringRef name, mlir::Location loc,
    llvm::ArrayRef<HorizontalMember> members, const llvm::Twine &description);
/// The same for a GPU: each member has a range of blocks.
mlir::LogicalResult emitCudaHorizontalKernel(
    mlir::ModuleOp kernels, llvm::StringRef name, mlir::Location loc,
    llvm::ArrayRef<HorizontalMember> members, const llvm::Twine &description);

/// Tells the builder what is known of the addresses and writers of `operands`,
/// indices into the group's inputs and outputs; `stores` are to positions in
/// it, `inPlace` pairs of an output and an input.
void describeOperands(KernelBuilder &k, GroupOp group,
                      llvm::ArrayRef<int64_t> operands,
                      llvm::ArrayRef<std::pair<mlir::Value, unsigned>> stores,
                      llvm::ArrayRef<std::pair<unsigned, unsigned>> inPlace);

/// Makes the kernel `name` of what the library computes for a group, on the
/// call's operands; null, with a remark, where no emitter takes it or it has
/// more blocks than fit.
mlir::func::FuncOp emitCudaFallback(mlir::ModuleOp kernels,
                                    llvm::StringRef name, GroupOp group,
                                    const LibraryPlan &plan,
                                    const BatchExtents &extents, bool isFast,
                                    const llvm::Twine &description);
/// The same for a launch, from the kernels of its members; null where it has
/// more blocks or operands than fit.
mlir::func::FuncOp emitCudaFallbacks(mlir::ModuleOp kernels,
                                     llvm::StringRef name, GroupOp launch,
                                     llvm::ArrayRef<mlir::func::FuncOp> members,
                                     const llvm::Twine &description);
/// A call with the kernel that stands in for it, and how that is launched; and
/// without, as calls are compared.
mlir::DictionaryAttr withFallback(mlir::DictionaryAttr call,
                                  mlir::func::FuncOp kernel);
mlir::DictionaryAttr withoutFallback(mlir::DictionaryAttr call);

/// Pairs (output, input) of a group whose bytes may be the same. `rows`: those
/// that the group is emitted by, if it is.
llvm::SmallVector<std::pair<unsigned, unsigned>>
findInPlacePairs(GroupOp group, const std::optional<RowSpace> &rows);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_EMITTERS_H

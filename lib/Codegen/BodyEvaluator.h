//===- BodyEvaluator.h - A group's values at a position ---------*- C++ -*-===//
//
// Emitters ask for the value of an op's result at some coordinates; the
// evaluator builds the code that computes it there, from the group's inputs,
// and remembers it as long as the code dominates. So any group of any ops has
// correct code, whatever their index maps; emitters only choose the order of
// the positions and what to evaluate early.
//
// A value is a scalar if all coordinates are uniform, else a vector of kLanes
// elements, of the compute type of its element type and rounded to that
// element type: every op rounds at its own border, so grouping changes no bit.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_BODYEVALUATOR_H
#define FUSION_LIB_CODEGEN_BODYEVALUATOR_H

#include "KernelBuilder.h"

namespace fusion::codegen {

class BodyEvaluator {
public:
  /// `inputs` maps the group's block arguments to operands of the kernel.
  BodyEvaluator(KernelBuilder &kernel, mlir::Block *body);

  /// Reads `value` from an operand of the kernel.
  void bindOperand(mlir::Value value, unsigned operand) {
    operandOf[value] = operand;
  }

  /// The value at `coordinates`, one for each dimension.
  mlir::Value evaluate(mlir::Value tensor, llvm::ArrayRef<Index> coordinates);

  /// Declares that `value` is `tensor` at `coordinates` from here on.
  void remember(mlir::Value tensor, llvm::ArrayRef<Index> coordinates,
                mlir::Value value);

  /// Values remembered inside a scope are forgotten at its end: its code does
  /// not dominate what comes after.
  class Scope {
  public:
    explicit Scope(BodyEvaluator &evaluator)
        : evaluator(evaluator), mark(evaluator.log.size()) {}
    ~Scope() { evaluator.forget(mark); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    BodyEvaluator &evaluator;
    size_t mark;
  };

  /// What is known while one segment of the innermost dimension is built: which
  /// operand a concat reads; whether a pad is inside its input (1) or not (0).
  struct Choice {
    int64_t dim;
    size_t which;
  };
  llvm::DenseMap<mlir::Operation *, Choice> chosen;

  /// A row of values kept in the kernel's frame: filled while one loop over
  /// the row computes it, read by later loops.
  struct RowBuffer {
    mlir::Value pointer;
    bool touched = false; ///< stored by the loop being built
    bool filled = false;
  };
  llvm::MapVector<mlir::Value, RowBuffer> rowBuffers;
  /// The row that the buffers belong to: its shape, the positions of the
  /// dimensions that are not reduced, and the reduced dimensions.
  llvm::SmallVector<int64_t> rowShape;
  Coordinates rowAt;

  /// Combines what a reduction reads, in the accumulator's type, where a block
  /// of threads does so together; null for what it does not know.
  std::function<mlir::Value(ReduceOp, llvm::ArrayRef<Index>, mlir::Type)>
      reduceTogether;

  /// Whole rows in the kernel's frame: where such a value is read, its last
  /// coordinate says which element, and the row is the one at hand.
  llvm::DenseMap<mlir::Value, mlir::Value> heldRows;

  /// Evaluates `tensor` at elements of the current row, in a scope of its own.
  mlir::Value evaluateInRow(mlir::Value tensor,
                            llvm::ArrayRef<Index> coordinates,
                            const Index &position);
  /// The loop that was just built went over the whole row.
  void endRow();

  KernelBuilder &k;

  using Key = llvm::ArrayRef<Index>;
  using Values = llvm::SmallVector<mlir::Value>;

  /// Nested loops over a box of positions, in row-major order; `body` gets the
  /// position and the carried values, in a scope of its own.
  Values nest(llvm::ArrayRef<Size> box, Values carried,
              llvm::function_ref<Values(llvm::ArrayRef<Index>, Values)> body);

private:
  friend class Scope;

  void forget(size_t mark);
  mlir::Value lookup(mlir::Value tensor, Key coordinates);
  mlir::Value evaluateElementwise(mlir::Value tensor, Key at);
  mlir::Value compute(mlir::Operation *op, Key at);
  /// A quotient of a vector by one value, if arithmetic is fast; else null.
  mlir::Value multiplyByReciprocal(mlir::Operation *op, Key at);
  mlir::Value evaluateRoot(mlir::Value tensor, Key at);
  /// Runs lane by lane what has no vector form.
  mlir::Value evaluateSerially(mlir::Value tensor, Key at);

  // EvaluateStructural.cpp
  mlir::Value evaluateBroadcast(BroadcastOp op, Key at);
  mlir::Value evaluateReshape(ReshapeOp op, Key at);
  mlir::Value evaluateConcat(ConcatOp op, Key at);
  mlir::Value evaluateConcatRange(ConcatOp op, Key at,
                                  llvm::ArrayRef<Index> offsets, size_t first,
                                  size_t last);
  mlir::Value evaluatePad(PadOp op, Key at);
  mlir::Value evaluateGather(GatherOp op, Key at);
  mlir::Value evaluateGatherNd(GatherNdOp op, Key at);
  mlir::Value evaluateUpdateSlice(UpdateSliceOp op, Key at);
  mlir::Value evaluateIota(IotaOp op, Key at);
  mlir::Value evaluateRngUniform(RngUniformOp op, Key at);
  Index dataIndex(mlir::Value value, Size size);
  /// `inside ? a() : b()`; both are evaluated when lanes differ.
  mlir::Value choose(mlir::Value inside, mlir::Type element, Key at,
                     llvm::function_ref<mlir::Value()> a,
                     llvm::function_ref<mlir::Value()> b);

  // EvaluateReduction.cpp
  mlir::Value evaluateReduce(ReduceOp op, Key at);
  mlir::Value reduceSequentially(ReduceOp op, Key at);
  mlir::Value reduceByLanes(ReduceOp op, Key at);
  mlir::Value evaluateArgReduce(mlir::Operation *op, mlir::Value input,
                                int64_t axis, bool isMax, bool selectLast,
                                Key at);

  // EvaluateAttention.cpp
  /// At uniform coordinates.
  mlir::Value evaluateAttention(AttentionOp op, Key at);

  // EvaluateWindow.cpp
  struct WindowShape {
    mlir::Value input;
    Layout layout;
    llvm::ArrayRef<int64_t> window, strides, padLow, padHigh, dilations;
  };
  mlir::Value evaluateMaxPool(MaxPoolOp op, Key at);
  mlir::Value evaluateMaxPoolGrad(MaxPoolGradOp op, Key at);
  mlir::Value evaluateAvgPool(AvgPoolOp op, Key at);
  mlir::Value evaluateConv(ConvOp op, Key at);
  mlir::Value evaluateConvTranspose(ConvTransposeOp op, Key at);
  mlir::Value evaluateMatmul(MatmulOp op, Key at);
  mlir::Value finishContraction(mlir::Value sum, mlir::Value bias,
                                const Index &channel, mlir::Type element);
  /// Turns the spatial coordinates `at` into those of the element i of `image`
  /// that a window offset w leads to, clamped: at + pad = i * stride + w *
  /// dilation. Returns whether there is one.
  mlir::Value meetStrided(mlir::Value image, Layout layout,
                          llvm::ArrayRef<Index> offset,
                          llvm::ArrayRef<int64_t> strides,
                          llvm::ArrayRef<int64_t> padLow,
                          llvm::ArrayRef<int64_t> dilations, Coordinates &at);
  /// `changed` where `inside` (null: everywhere), else `old`.
  mlir::Value keepIf(mlir::Value inside, mlir::Value changed, mlir::Value old);

  /// Loops over the window of output position `at`: `body` gets the offset in
  /// the window, the position in the input, whether each lane is inside the
  /// input (null: all are), and the carried values.
  Values overWindow(
      const WindowShape &window, Key at, Values carried,
      llvm::function_ref<Values(llvm::ArrayRef<Index>, llvm::ArrayRef<Index>,
                                mlir::Value, Values)>
          body);
  mlir::Value multiplyAdd(mlir::Value sum, mlir::Value a, mlir::Value b);
  mlir::Value zeroOf(mlir::Type element, bool wide);

  Coordinates canonical(mlir::Value tensor, Key given);
  RowBuffer *activeBuffer(mlir::Value value, Key at);

  Coordinates rowCoordinates; ///< of the elements being evaluated in the row
  Index rowPosition;
  bool inRow = false;
  llvm::DenseMap<mlir::Value, unsigned> operandOf;
  llvm::DenseMap<mlir::Value,
                 llvm::SmallVector<std::pair<Coordinates, mlir::Value>, 1>>
      known;
  llvm::SmallVector<mlir::Value> log; ///< what was remembered, in order
};

/// The value that `combine` leaves unchanged, for a reduction.
mlir::Value reductionIdentity(KernelBuilder &k, ReduceKind kind,
                              mlir::Type compute);
mlir::Value combineReduction(KernelBuilder &k, ReduceKind kind, mlir::Value a,
                             mlir::Value b);

/// `value`, an element or a vector, in the type of the accumulator.
mlir::Value toAccumulator(KernelBuilder &k, mlir::Value value,
                          mlir::Type accumulator);

/// Coordinates of a reduction's operand: the reduced ones from `reduced`, the
/// others from the result's, in order.
Coordinates operandCoordinates(ReduceOp op, llvm::ArrayRef<Index> at,
                               llvm::ArrayRef<Index> reduced);

/// Whether the reduced dimensions are the trailing ones: such a reduction is
/// done in lanes, all others in the order of the elements.
bool isTrailingReduction(ReduceOp op);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_BODYEVALUATOR_H

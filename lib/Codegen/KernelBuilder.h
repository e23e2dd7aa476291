//===- KernelBuilder.h - Arithmetic and memory of a kernel ------*- C++ -*-===//
//
// What every emitter builds a kernel with: the kernel function of the runtime's
// ABI, its operands' addresses, arithmetic on positions, loads and stores that
// convert between memory and compute types, and loops. A float computed with it
// has no fastmath flag.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_KERNELBUILDER_H
#define FUSION_LIB_CODEGEN_KERNELBUILDER_H

#include "KernelIndex.h"

#include "fusion/Analysis/BatchExtents.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fusion::codegen {

/// Lanes of a vector, of every element type: the order of a reduction depends
/// on it, so it is the same for all CPUs.
constexpr int64_t kLanes = 16;

/// What a kernel runs on: a range of units on a thread of a CPU, or one block
/// of threads on a GPU.
enum class Machine { Cpu, Cuda };

/// Elements that a range of units should have at least, to be worth a thread.
constexpr int64_t kGrainElements = 16384;

class KernelBuilder {
public:
  /// Starts the function `name` (in the module `kernels`) of a kernel with
  /// `numOperands` buffers. `extents` covers the group the kernel is made from.
  KernelBuilder(mlir::ModuleOp kernels, llvm::StringRef name,
                unsigned numOperands, mlir::Location loc,
                const BatchExtents &extents, Machine machine = Machine::Cpu);

  /// Says how the kernel is to be run and ends the function. `threads` of a
  /// block; on a CPU there are none.
  void finish(Extent units, int64_t grain, int64_t threads,
              const llvm::Twine &description);

  /// Operand `a` starts at a multiple of `bytes` (else: of 16).
  void limitAlignment(unsigned a, int64_t bytes) { alignments[a] = bytes; }
  /// Nothing writes to the bytes of operand `a` while the kernel runs.
  void markConstant(unsigned a) { constantOperands.insert(a); }

  /// Operands `a` and `b` may be the same bytes.
  void allowInPlace(unsigned a, unsigned b);
  /// Fixes the alias information; called once, before the first access.
  void sealAliases();

  //===--- scalars --------------------------------------------------------===//

  mlir::Value constantI64(int64_t value);
  mlir::Value value(Size size);
  Size size(Extent extent);
  Size size(mlir::Value tensor, int64_t dim) {
    return size(extents.getExtent(tensor, dim));
  }
  llvm::SmallVector<Size> shape(mlir::Value tensor);
  /// Equal factors give the same value, whatever asks.
  Size product(Size a, Size b);
  Size product(llvm::ArrayRef<Size> sizes);
  /// Row-major strides of a shape, in elements.
  llvm::SmallVector<Size> strides(llvm::ArrayRef<Size> shape);

  //===--- positions ------------------------------------------------------===//

  /// The position as a scalar (uniform) or as a vector.
  mlir::Value materialize(const Index &index);
  mlir::Value materializeLanes(const Index &index);
  /// Not a part any more: affine in the lane, or a vector.
  Index resolve(const Index &index);
  /// The position of one lane, given as a scalar.
  Index atLane(const Index &index, mlir::Value lane);
  Index add(const Index &a, const Index &b);
  Index add(const Index &a, int64_t b) { return add(a, Index::of(b)); }
  Index sub(const Index &a, const Index &b);
  Index mul(const Index &a, Size b);
  Index divide(const Index &a, Size b);
  Index remainder(const Index &a, Size b);
  Index minimum(const Index &a, const Index &b);
  Index maximum(const Index &a, const Index &b);
  /// i1, or a vector of it.
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, const Index &a,
                      const Index &b);
  /// `min(max(index, 0), size - 1)`.
  Index clampTo(const Index &index, Size size);
  Index fromSize(Size size) {
    return size.isStatic() ? Index::of(size.constant) : Index::of(size.value);
  }
  /// Row-major flat position.
  Index linearize(llvm::ArrayRef<Index> coordinates,
                  llvm::ArrayRef<Size> shape);
  /// Takes a flat position apart.
  Coordinates delinearize(const Index &flat, llvm::ArrayRef<Size> shape);

  //===--- values ---------------------------------------------------------===//

  mlir::Type computeType(mlir::Type tensorOrElement);
  mlir::VectorType vectorOf(mlir::Type element);
  mlir::Value splat(mlir::Value scalar);
  /// A scalar becomes a vector if `wanted`.
  mlir::Value splatIf(mlir::Value value, bool wanted) {
    return wanted && !llvm::isa<mlir::VectorType>(value.getType())
               ? splat(value)
               : value;
  }
  mlir::Value constant(mlir::Type element, double number);
  mlir::Value constantInt(mlir::Type element, const llvm::APInt &bits);
  mlir::Value constant(mlir::Type element, mlir::Attribute scalar);
  mlir::Value extract(mlir::Value vector, mlir::Value lane);
  mlir::Value insert(mlir::Value vector, mlir::Value scalar, mlir::Value lane);
  mlir::Value shuffle(mlir::Value vector, llvm::ArrayRef<int32_t> mask);
  mlir::Value shuffle(mlir::Value first, mlir::Value second,
                      llvm::ArrayRef<int32_t> mask);
  mlir::Value logicalAnd(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// Rounds a value of the compute type to `element`'s precision.
  mlir::Value round(mlir::Value value, mlir::Type element);
  template <typename OpTy, typename... Args> mlir::Value op(Args &&...args) {
    return OpTy::create(b, loc, std::forward<Args>(args)...).getResult();
  }

  //===--- memory ---------------------------------------------------------===//

  /// Loads elements of type `element` at flat position `index` of operand
  /// `operand`, as the compute type.
  mlir::Value load(unsigned operand, mlir::Type element, const Index &index);
  void store(mlir::Value value, unsigned operand, mlir::Type element,
             const Index &index);
  /// A buffer of the kernel's own frame, allocated once.
  mlir::Value allocate(mlir::Type element, int64_t count);
  mlir::Value loadRaw(mlir::Type type, mlir::Type element, mlir::Value pointer,
                      const Index &index);
  void storeRaw(mlir::Value value, mlir::Type element, mlir::Value pointer,
                const Index &index);

  /// Where an operand starts.
  mlir::Value pointer(unsigned operand) const { return pointers[operand]; }
  mlir::Value getBatch() const { return batch; }

  //===--- control --------------------------------------------------------===//

  /// `for i = begin; i < end; i += step`, carrying values.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value begin, mlir::Value end, int64_t step,
       mlir::ValueRange carried,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body);
  /// `condition ? then() : otherwise()`, evaluating one of them.
  mlir::Value branch(mlir::Value condition, mlir::Type type,
                     llvm::function_ref<mlir::Value()> then,
                     llvm::function_ref<mlir::Value()> otherwise);

  mlir::OpBuilder b;
  mlir::Location loc;
  const BatchExtents &extents;
  /// Lanes of the vectors being built: kLanes, or fewer for the rest of a run.
  int64_t lanes = kLanes;
  /// Within the tolerances, as fast as can be: means of f32 are taken in f32,
  /// and what is divided by one value is multiplied by its reciprocal.
  bool isFast = false;
  mlir::func::FuncOp function;
  const Machine machine;
  mlir::Value begin,
      end; ///< the units to compute; on a GPU an emitter sets them
  mlir::Value block, thread; ///< on a GPU: of the kernel, and in the block; i64

private:
  struct Access {
    mlir::ArrayAttr scopes, others;
    int64_t alignment = 1;
    bool isConstant = false;
  };
  Access accessOf(unsigned operand) const;
  unsigned alignmentOf(const Index &index, mlir::Type storage,
                       const Access &access) const;
  mlir::Value address(mlir::Value pointer, mlir::Type storage,
                      const Index &index);
  mlir::Value toCompute(mlir::Value raw, mlir::Type element);
  mlir::Value toStorage(mlir::Value value, mlir::Type element);
  mlir::Value loadFrom(mlir::Value pointer, mlir::Type element,
                       const Index &index, Access access);
  void storeTo(mlir::Value value, mlir::Value pointer, mlir::Type element,
               const Index &index, Access access);
  template <typename OpTy> Index combine(const Index &a, const Index &b);

  mlir::Value batch;
  llvm::SmallVector<mlir::Value> pointers;
  llvm::SmallVector<unsigned> aliasClass;
  llvm::SmallVector<int64_t> alignments;
  llvm::SmallDenseSet<unsigned> constantOperands;
  llvm::SmallVector<Access> accesses;
  mlir::Operation *entryEnd = nullptr; ///< entry code goes before this op
  llvm::DenseMap<int64_t, mlir::Value> constants;
  llvm::DenseMap<std::pair<int64_t, int64_t>, mlir::Value> extentValues;
  llvm::SmallVector<std::pair<std::pair<Size, Size>, Size>> products;
};

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_KERNELBUILDER_H

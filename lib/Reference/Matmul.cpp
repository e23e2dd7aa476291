//===- Matmul.cpp - Matrix product ----------------------------------------===//
//
// Three loops inside a loop over the batches; the sum is f64 (or i64, wrapping)
// and is rounded once.
//
//===----------------------------------------------------------------------===//

#include "OpRules.h"
#include "Scalars.h"

using namespace fusion;
using namespace fusion::reference;

static llvm::Expected<Tensor> evaluateMatmul(MatmulOp op, Tensors inputs,
                                             const OpContext &context) {
  const Tensor &a = inputs[0], &b = inputs[1];
  int64_t lhsBatchDims = a.getRank() - 2, rhsBatchDims = b.getRank() - 2;
  auto lhsRows = a.getDim(lhsBatchDims),
       lhsColumns = a.getDim(lhsBatchDims + 1);
  auto rhsRows = b.getDim(rhsBatchDims),
       rhsColumns = b.getDim(rhsBatchDims + 1);
  int64_t m = op.getTransposeLhs() ? lhsColumns : lhsRows;
  int64_t k = op.getTransposeLhs() ? lhsRows : lhsColumns;
  int64_t n = op.getTransposeRhs() ? rhsRows : rhsColumns;
  int64_t rhsK = op.getTransposeRhs() ? rhsColumns : rhsRows;
  if (llvm::Error error = requireShape(op, "the rhs's k", {rhsK}, {k}))
    return std::move(error);
  // A rank-2 rhs is shared by all batches.
  Shape batch(a.getShape().drop_back(2));
  if (rhsBatchDims != 0)
    if (llvm::Error error = requireShape(op, "the rhs's batch",
                                         b.getShape().drop_back(2), batch))
      return std::move(error);

  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  llvm::Expected<Tensor> y = context.allocate(a.getKind(), shape);
  if (!y || y->getNumElements() == 0)
    return y;
  int64_t batches = *getNumElements(batch), to = 0;
  for (int64_t i = 0; i < batches; ++i) {
    int64_t lhsStart = i * m * k;
    int64_t rhsStart = rhsBatchDims == 0 ? 0 : i * k * n;
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column, ++to) {
        double floats = 0;
        int64_t ints = 0;
        for (int64_t inner = 0; inner < k; ++inner) {
          int64_t l = lhsStart + (op.getTransposeLhs() ? inner * m + row
                                                       : row * k + inner);
          int64_t r = rhsStart + (op.getTransposeRhs() ? column * k + inner
                                                       : inner * n + column);
          if (a.isFloat())
            floats += a.getFloat(l) * b.getFloat(r);
          else
            ints = wrapAdd(ints, wrapMul(a.getInt(l), b.getInt(r)));
        }
        a.isFloat() ? y->setFloat(to, floats) : y->setInt(to, ints);
      }
    }
  }
  return y;
}

void fusion::reference::addMatmulRules(RuleTable &rules) {
  rules.add(evaluateMatmul);
}

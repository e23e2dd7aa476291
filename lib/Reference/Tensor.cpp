//===- Tensor.cpp - A dense tensor of f64 or i64 --------------------------===//
//
// Storage, bytes and indices. Allocation never throws: what does not fit is an
// error that names the sizes.
//
//===----------------------------------------------------------------------===//

#include "fusion/Reference/Tensor.h"

#include "llvm/Support/MathExtras.h"

#include <cassert>
#include <limits>
#include <new>

using namespace fusion::reference;

std::string fusion::reference::toString(llvm::ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (int64_t size : shape) {
    if (!text.empty())
      text += 'x';
    text += size == std::numeric_limits<int64_t>::min() ? "?"
                                                        : std::to_string(size);
  }
  return text;
}

std::optional<int64_t>
fusion::reference::getNumElements(llvm::ArrayRef<int64_t> shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    empty |= size == 0;
  }
  if (empty)
    return 0;
  for (int64_t size : shape)
    if (llvm::MulOverflow(count, size, count))
      return std::nullopt;
  return count;
}

bool MemoryBudget::take(uint64_t bytes) {
  uint64_t before = used.load();
  do {
    if (bytes > limit || before > limit - bytes)
      return false;
  } while (!used.compare_exchange_weak(before, before + bytes));
  uint64_t now = before + bytes, highest = peak.load();
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
  return true;
}

/// One of the two arrays, by the kind. Gives its bytes back to the budget.
struct Tensor::Storage {
  std::unique_ptr<double[]> floats;
  std::unique_ptr<int64_t[]> ints;
  std::shared_ptr<MemoryBudget> budget;
  uint64_t bytes = 0;

  ~Storage() {
    if (budget)
      budget->giveBack(bytes);
  }
};

llvm::Expected<Tensor> Tensor::create(ElementKind kind,
                                      llvm::ArrayRef<int64_t> shape,
                                      std::shared_ptr<MemoryBudget> budget) {
  std::optional<int64_t> count = reference::getNumElements(shape);
  // A double or an int64_t each; half the address space is the end of it.
  constexpr int64_t kMaxElements = std::numeric_limits<int64_t>::max() / 16;
  if (!count || *count > kMaxElements)
    return fail(FailureKind::Resources,
                "a tensor of " + toString(shape) +
                    " elements has more elements than memory can address; use "
                    "smaller sizes");
  uint64_t bytes = static_cast<uint64_t>(*count) * 8;
  if (budget && !budget->take(bytes))
    return fail(FailureKind::Resources,
                "a tensor of " + toString(shape) + " elements takes " +
                    llvm::Twine(bytes) + " bytes, " +
                    llvm::Twine(budget->getUsed()) + " of " +
                    llvm::Twine(budget->getLimit()) +
                    " are in use; raise the memory limit or use smaller sizes");
  Tensor tensor;
  tensor.kind = kind;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.count = *count;
  tensor.storage = std::make_shared<Storage>();
  if (budget) {
    tensor.storage->budget = std::move(budget);
    tensor.storage->bytes = bytes;
  }
  if (tensor.isFloat())
    tensor.storage->floats.reset(new (std::nothrow) double[*count]());
  else
    tensor.storage->ints.reset(new (std::nothrow) int64_t[*count]());
  if (!tensor.storage->floats && !tensor.storage->ints)
    return fail(FailureKind::Resources,
                "no memory for a tensor of " + toString(shape) + " elements (" +
                    llvm::Twine(bytes) + " bytes); use smaller sizes");
  return tensor;
}

template <typename T>
static llvm::Error checkCount(llvm::ArrayRef<int64_t> shape,
                              llvm::ArrayRef<T> values, int64_t perElement) {
  std::optional<int64_t> count = fusion::reference::getNumElements(shape);
  int64_t needed;
  if (count && !llvm::MulOverflow(*count, perElement, needed) &&
      needed == static_cast<int64_t>(values.size()))
    return llvm::Error::success();
  return fail(FailureKind::Usage,
              "shape " + toString(shape) + " does not fit data of " +
                  llvm::Twine(values.size()) +
                  (perElement == 1 ? " elements" : " bytes"));
}

llvm::Expected<Tensor> Tensor::fromFloats(ElementKind kind,
                                          llvm::ArrayRef<int64_t> shape,
                                          llvm::ArrayRef<double> values) {
  assert(reference::isFloat(kind) && "floats given for an integer type");
  if (llvm::Error error = checkCount(shape, values, 1))
    return std::move(error);
  llvm::Expected<Tensor> tensor = create(kind, shape);
  if (tensor)
    for (int64_t i = 0; i < tensor->count; ++i)
      tensor->setFloat(i, values[i]);
  return tensor;
}

llvm::Expected<Tensor> Tensor::fromInts(ElementKind kind,
                                        llvm::ArrayRef<int64_t> shape,
                                        llvm::ArrayRef<int64_t> values) {
  assert(!reference::isFloat(kind) && "integers given for a float type");
  if (llvm::Error error = checkCount(shape, values, 1))
    return std::move(error);
  llvm::Expected<Tensor> tensor = create(kind, shape);
  if (tensor)
    for (int64_t i = 0; i < tensor->count; ++i)
      tensor->setInt(i, values[i]);
  return tensor;
}

llvm::Expected<Tensor> Tensor::fromBytes(ElementKind kind,
                                         llvm::ArrayRef<int64_t> shape,
                                         llvm::ArrayRef<char> bytes,
                                         std::shared_ptr<MemoryBudget> budget) {
  unsigned size = getByteSize(kind);
  if (llvm::Error error = checkCount(shape, bytes, size))
    return std::move(error);
  llvm::Expected<Tensor> tensor = create(kind, shape, std::move(budget));
  if (!tensor)
    return tensor;
  for (int64_t i = 0; i < tensor->count; ++i) {
    uint64_t bits = 0;
    for (unsigned byte = 0; byte < size; ++byte)
      bits |= uint64_t(static_cast<uint8_t>(bytes[i * size + byte]))
              << (8 * byte);
    if (tensor->isFloat())
      tensor->storage->floats[i] = decodeFloat(bits, kind);
    else
      tensor->storage->ints[i] = decodeInteger(bits, kind);
  }
  return tensor;
}

void Tensor::appendBytes(int64_t begin, int64_t end, std::string &out) const {
  unsigned size = getByteSize(kind);
  for (int64_t i = begin; i < end; ++i) {
    uint64_t bits = isFloat() ? encodeFloat(getFloat(i), kind)
                              : encodeInteger(getInt(i), kind);
    for (unsigned byte = 0; byte < size; ++byte)
      out.push_back(static_cast<char>(bits >> (8 * byte)));
  }
}

std::string Tensor::toBytes() const {
  std::string bytes;
  bytes.reserve(count * getByteSize(kind));
  appendBytes(0, count, bytes);
  return bytes;
}

llvm::ArrayRef<double> Tensor::floats() const {
  assert(isFloat() && "a tensor of integers");
  return {storage->floats.get(), static_cast<size_t>(count)};
}

llvm::ArrayRef<int64_t> Tensor::ints() const {
  assert(!isFloat() && "a tensor of floats");
  return {storage->ints.get(), static_cast<size_t>(count)};
}

void Tensor::setFloat(int64_t i, double value) {
  assert(isFloat() && i >= 0 && i < count);
  storage->floats[i] = roundToKind(value, kind);
}

void Tensor::setInt(int64_t i, int64_t value) {
  assert(!isFloat() && i >= 0 && i < count);
  storage->ints[i] = wrapToKind(value, kind);
}

void Tensor::setFrom(int64_t i, const Tensor &from, int64_t j) {
  assert(kind == from.kind && i >= 0 && i < count && j >= 0 && j < from.count);
  if (isFloat())
    storage->floats[i] = from.storage->floats[j];
  else
    storage->ints[i] = from.storage->ints[j];
}

int64_t Tensor::offsetOf(llvm::ArrayRef<int64_t> index) const {
  assert(index.size() == shape.size());
  int64_t offset = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    assert(index[dim] >= 0 && index[dim] < shape[dim]);
    offset = offset * shape[dim] + index[dim];
  }
  return offset;
}

Tensor Tensor::withShape(llvm::ArrayRef<int64_t> newShape) const {
  assert(reference::getNumElements(newShape) == count);
  Tensor view = *this;
  view.shape.assign(newShape.begin(), newShape.end());
  return view;
}

void fusion::reference::forEachIndex(
    llvm::ArrayRef<int64_t> shape,
    llvm::function_ref<void(llvm::ArrayRef<int64_t>)> body) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  Shape index(shape.size(), 0);
  while (true) {
    body(index);
    // Add one to the last dimension and carry.
    int64_t dim = static_cast<int64_t>(shape.size()) - 1;
    while (dim >= 0 && ++index[dim] == shape[dim])
      index[dim--] = 0;
    if (dim < 0)
      return;
  }
}

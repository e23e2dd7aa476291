//===- TensorData.cpp - Elements of a tensor known at compile time --------===//
//
// Conversions between attributes, bytes and numbers. Rounding goes through
// APFloat for the 16-bit types and through the processor's own (to nearest
// even) for f32.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/TensorData.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"

#include <cassert>
#include <cstring>

using namespace mlir;
using namespace fusion;

int64_t fusion::getElementBytes(Type elementType) {
  unsigned bits = elementType.getIntOrFloatBitWidth();
  return bits < 8 ? 1 : bits / 8;
}

std::optional<int64_t> fusion::getByteSize(ShapedType type) {
  if (!type.hasStaticShape())
    return std::nullopt;
  int64_t size = getElementBytes(type.getElementType());
  if (llvm::is_contained(type.getShape(), 0))
    return 0;
  for (int64_t extent : type.getShape())
    if (llvm::MulOverflow(size, extent, size))
      return std::nullopt;
  return size;
}

TensorData::TensorData(RankedTensorType type, ArrayRef<char> bytes,
                       bool isSplat, std::shared_ptr<const void> owner)
    : type(type), bytes(bytes),
      elementBytes(::getElementBytes(type.getElementType())), splat(isSplat),
      owner(std::move(owner)) {
  assert(static_cast<int64_t>(bytes.size()) ==
             elementBytes * (isSplat ? 1 : type.getNumElements()) &&
         "size of the bytes");
}

TensorData TensorData::own(RankedTensorType type, std::vector<char> bytes,
                           bool isSplat) {
  // Equal elements are a splat, as an attribute of them would be.
  size_t size = ::getElementBytes(type.getElementType());
  if (!isSplat && !bytes.empty() &&
      std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) ==
          0) {
    bytes.resize(size);
    bytes.shrink_to_fit();
    isSplat = true;
  }
  auto storage = std::make_shared<std::vector<char>>(std::move(bytes));
  ArrayRef<char> view(storage->data(), storage->size());
  return TensorData(type, view, isSplat, std::move(storage));
}

std::optional<TensorData> TensorData::get(ElementsAttr attr) {
  auto type = dyn_cast<RankedTensorType>(attr.getShapedType());
  if (!type || !type.getElementType().isIntOrFloat())
    return std::nullopt;
  std::optional<int64_t> size = getByteSize(type);
  if (!size)
    return std::nullopt;

  if (auto dense = dyn_cast<DenseElementsAttr>(attr)) {
    bool isSplat = dense.isSplat() && type.getNumElements() > 0;
    if (!type.getElementType().isInteger(1)) {
      ArrayRef<char> raw = dense.getRawData();
      if (type.getNumElements() == 0)
        raw = {};
      return TensorData(type, raw, isSplat);
    }
    // Attributes may pack i1; in memory it is a byte.
    std::vector<char> values;
    if (isSplat)
      values.push_back(dense.getSplatValue<bool>());
    else
      for (bool value : dense.getValues<bool>())
        values.push_back(value);
    return own(type, std::move(values), isSplat);
  }
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || static_cast<int64_t>(blob->getData().size()) != *size)
      return std::nullopt;
    return TensorData(type, blob->getData(), /*isSplat=*/false);
  }
  return std::nullopt;
}

double TensorData::getFloat(int64_t i) const {
  return loadFloat(getElementType(), getElement(i));
}

int64_t TensorData::getInt(int64_t i) const {
  return loadInt(getElementType(), getElement(i));
}

TensorData TensorData::withType(RankedTensorType newType) const {
  return TensorData(newType, bytes, splat, owner);
}

ElementsAttr TensorData::getAttr(StringRef name) const {
  if (getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : bytes)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(type, values);
  }
  if (splat || getStoredBytes() <= kInlineBytes)
    return DenseElementsAttr::getFromRawBuffer(type, bytes);
  return DenseResourceElementsAttr::get(
      type, name,
      HeapAsmResourceBlob::allocateAndCopyWithAlign(bytes, /*align=*/64,
                                                    /*dataIsMutable=*/false));
}

static const llvm::fltSemantics &getSmallSemantics(Type elementType) {
  return elementType.isF16() ? APFloat::IEEEhalf() : APFloat::BFloat();
}

double fusion::loadFloat(Type elementType, const char *from) {
  if (elementType.isF64()) {
    double value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  if (elementType.isF32()) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  if (elementType.isBF16()) {
    uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
  APFloat value(APFloat::IEEEhalf(), APInt(16, bits));
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

void fusion::storeFloat(Type elementType, double value, char *to) {
  if (elementType.isF64()) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  if (elementType.isF32()) {
    float narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, sizeof(narrow));
    return;
  }
  APFloat rounded(value);
  bool losesInfo;
  rounded.convert(getSmallSemantics(elementType), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  uint16_t bits =
      static_cast<uint16_t>(rounded.bitcastToAPInt().getZExtValue());
  std::memcpy(to, &bits, sizeof(bits));
}

int64_t fusion::loadInt(Type elementType, const char *from) {
  unsigned width = elementType.getIntOrFloatBitWidth();
  if (width == 1)
    return *from != 0;
  uint64_t bits = 0;
  std::memcpy(&bits, from, width / 8);
  return llvm::SignExtend64(bits, width);
}

void fusion::storeInt(Type elementType, int64_t value, char *to) {
  unsigned width = elementType.getIntOrFloatBitWidth();
  if (width == 1) {
    *to = value & 1;
    return;
  }
  std::memcpy(to, &value, width / 8);
}

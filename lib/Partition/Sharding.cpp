//===- Sharding.cpp - How a tensor is cut over the mesh -------------------===//
//
// See Sharding.h.
//
//===----------------------------------------------------------------------===//
#include "Sharding.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

Mesh::Mesh(MeshOp op) : op(op) {
  for (auto [name, size] :
       llvm::zip_equal(op.getAxisNames().getAsValueRange<StringAttr>(),
                       op.getAxisSizes())) {
    names.push_back(name);
    sizes.push_back(size);
  }
}

std::optional<unsigned> Mesh::find(StringRef name) const {
  const auto *it = llvm::find(names, name);
  if (it == names.end())
    return std::nullopt;
  return it - names.begin();
}

int64_t Mesh::ranks(ArrayRef<unsigned> axes) const {
  int64_t product = 1;
  for (unsigned axis : axes)
    product *= sizes[axis];
  return product;
}

int64_t Mesh::ranks(AxisSet axes) const {
  int64_t product = 1;
  for (unsigned axis = 0; axis < size(); ++axis)
    product *= has(axes, axis) ? sizes[axis] : 1;
  return product;
}

ArrayAttr Mesh::getAxes(ArrayRef<unsigned> axes) const {
  SmallVector<StringRef> list;
  for (unsigned axis : axes)
    list.push_back(names[axis]);
  return Builder(op->getContext()).getStrArrayAttr(list);
}

FlatSymbolRefAttr Mesh::getSymbol() const {
  return FlatSymbolRefAttr::get(op.getSymNameAttr());
}

Sharding Sharding::replicated(RankedTensorType type) {
  Sharding sharding;
  for (int64_t size : type.getShape())
    sharding.dims.push_back({{}, size});
  return sharding;
}

std::optional<unsigned> Sharding::findDim(unsigned axis) const {
  for (auto [dim, cut] : llvm::enumerate(dims))
    if (llvm::is_contained(cut.axes, axis))
      return dim;
  return std::nullopt;
}

AxisSet Sharding::getAxes() const {
  AxisSet set = 0;
  for (const DimSharding &cut : dims)
    for (unsigned axis : cut.axes)
      set |= axisBit(axis);
  return set;
}

bool Sharding::isPadded(RankedTensorType global, const Mesh &mesh) const {
  for (auto [size, cut] : llvm::zip_equal(global.getShape(), dims))
    if (!cut.axes.empty() && cut.local * mesh.ranks(cut.axes) != size)
      return true;
  return false;
}

RankedTensorType Sharding::getLocalType(RankedTensorType global) const {
  SmallVector<int64_t> shape;
  for (const DimSharding &cut : dims)
    shape.push_back(cut.local);
  return RankedTensorType::get(shape, global.getElementType());
}

FailureOr<Sharding>
fusion::parseSharding(Attribute attribute, RankedTensorType type,
                      const Mesh &mesh,
                      llvm::function_ref<InFlightDiagnostic()> error) {
  auto lists = dyn_cast<ArrayAttr>(attribute);
  if (!lists || int64_t(lists.size()) != type.getRank()) {
    error() << "'" << kShardingAttr
            << "' must have one list of axes for each of " << type.getRank()
            << " dimensions";
    return failure();
  }
  Sharding sharding = Sharding::replicated(type);
  AxisSet used = 0;
  for (auto [dim, list] : llvm::enumerate(lists)) {
    auto axes = dyn_cast<ArrayAttr>(list);
    if (!axes) {
      error() << "'" << kShardingAttr << "' must be a list of lists of axes";
      return failure();
    }
    for (Attribute entry : axes) {
      auto name = dyn_cast<StringAttr>(entry);
      std::optional<unsigned> axis =
          name ? mesh.find(name.getValue()) : std::nullopt;
      if (!axis) {
        error() << "the mesh @" << mesh.op.getSymName() << " has no axis "
                << entry << ", in '" << kShardingAttr << "'";
        return failure();
      }
      if (has(used, *axis)) {
        error() << "'" << kShardingAttr << "' names the axis " << entry
                << " twice";
        return failure();
      }
      used |= axisBit(*axis);
      if (mesh.sizes[*axis] > 1)
        sharding.dims[dim].axes.push_back(*axis);
    }
    DimSharding &cut = sharding.dims[dim];
    if (cut.axes.empty())
      continue;
    if (type.isDynamicDim(dim)) {
      error() << "dimension " << dim
              << " is the batch '?' and can't be cut: give the model a static "
                 "batch";
      return failure();
    }
    cut.local = llvm::divideCeil(type.getDimSize(dim), mesh.ranks(cut.axes));
  }
  return sharding;
}

ArrayAttr fusion::getShardingAttr(const Sharding &sharding, const Mesh &mesh) {
  SmallVector<Attribute> lists;
  for (const DimSharding &cut : sharding.dims)
    lists.push_back(mesh.getAxes(cut.axes));
  return ArrayAttr::get(mesh.op->getContext(), lists);
}

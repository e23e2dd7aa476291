//===- CudaHorizontal.cpp - One launch for the kernels of many ------------===//
//
// Each member has a range of the launch's blocks, as long as its own launch
// would be. A block finds its member by where the ranges begin: by a division
// where all members have as many blocks, else by comparisons with constants, or
// with sums of the members' blocks where the batch decides them. Threads that a
// member has no use for leave at once. A block runs one member only, so all
// have the same shared memory, as large as the most that one of them needs.
//
//===----------------------------------------------------------------------===//
#include "BlockBuilder.h"
#include "LowerCudaKernels.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Blocks of a member, not fewer than it has units for at any batch.
static std::optional<Extent> countBlocks(const HorizontalMember &member) {
  const Extent &units = member.units;
  if (units.isStatic())
    return Extent{0, int64_t(llvm::divideCeil(uint64_t(units.base),
                                              uint64_t(member.grain)))};
  if (units.scale < 0 || units.base < 0)
    return std::nullopt;
  return Extent{
      int64_t(llvm::divideCeil(uint64_t(units.scale), uint64_t(member.grain))),
      int64_t(llvm::divideCeil(uint64_t(units.base), uint64_t(member.grain)))};
}

namespace {

class CudaHorizontal {
public:
  CudaHorizontal(ModuleOp kernels, Location loc,
                 ArrayRef<HorizontalMember> members, ArrayRef<Extent> blocks)
      : b(OpBuilder::atBlockEnd(kernels.getBody())), loc(loc), members(members),
        blocks(blocks) {}

  func::FuncOp build(StringRef name);

private:
  void findMember();
  Value look(ArrayRef<int64_t> column, StringRef name);
  void buildCall(const HorizontalMember &member, Value first);
  void uniteShared();
  Value i64(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  template <typename OpTy, typename... Args> Value op(Args &&...args) {
    return OpTy::create(b, loc, std::forward<Args>(args)...).getResult();
  }

  OpBuilder b;
  Location loc;
  ArrayRef<HorizontalMember> members;
  ArrayRef<Extent> blocks;
  func::FuncOp function;
  /// What runs a member: its kernel, or a copy of it for this launch.
  llvm::MapVector<Attribute, FlatSymbolRefAttr> bodyOf;
  Value buffers, batch, block;
  Value member, firstBlock; ///< of this block
};

} // namespace

/// Which member this block belongs to, and the number of its first block.
void CudaHorizontal::findMember() {
  bool equal = llvm::all_of(
      blocks, [&](const Extent &extent) { return extent == blocks.front(); });
  auto valueOf = [&](const Extent &extent) {
    Value value = i64(extent.base);
    if (extent.scale != 0)
      value =
          op<arith::AddIOp>(op<arith::MulIOp>(batch, i64(extent.scale)), value);
    return value;
  };
  if (equal) {
    Value each = valueOf(blocks.front());
    member = op<arith::DivUIOp>(block, each);
    firstBlock = op<arith::MulIOp>(member, each);
    return;
  }
  member = firstBlock = i64(0);
  Extent begin{0, 0};
  for (size_t i = 1; i < members.size(); ++i) {
    begin.scale += blocks[i - 1].scale;
    begin.base += blocks[i - 1].base;
    Value from = valueOf(begin);
    Value isBehind = op<arith::CmpIOp>(arith::CmpIPredicate::uge, block, from);
    member = op<arith::SelectOp>(isBehind, i64(i), member);
    firstBlock = op<arith::SelectOp>(isBehind, from, firstBlock);
  }
}

/// The entry of the member in a column of numbers.
Value CudaHorizontal::look(ArrayRef<int64_t> column, StringRef name) {
  // Most columns are one number, or grow evenly.
  int64_t step = column.size() > 1 ? column[1] - column[0] : 0;
  bool even = true;
  for (size_t i = 1; i < column.size(); ++i)
    even &= column[i] - column[i - 1] == step;
  if (even) {
    Value value = i64(column.front());
    if (step != 0)
      value = op<arith::AddIOp>(op<arith::MulIOp>(member, i64(step)), value);
    return value;
  }
  LLVM::GlobalOp table;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    int64_t size = column.size();
    table = LLVM::GlobalOp::create(
        b, loc, LLVM::LLVMArrayType::get(b.getI64Type(), size),
        /*isConstant=*/true, LLVM::Linkage::Internal,
        (function.getSymName() + "." + name).str(),
        DenseElementsAttr::get(RankedTensorType::get({size}, b.getI64Type()),
                               column));
  }
  Value address = LLVM::AddressOfOp::create(b, loc, table);
  Value slot = LLVM::GEPOp::create(b, loc, address.getType(), b.getI64Type(),
                                   address, ValueRange{member});
  return LLVM::LoadOp::create(b, loc, b.getI64Type(), slot);
}

void CudaHorizontal::buildCall(const HorizontalMember &member, Value first) {
  Value start = LLVM::GEPOp::create(
      b, loc, buffers.getType(), buffers.getType(), buffers, ValueRange{first});
  func::CallOp::create(
      b, loc, bodyOf[member.kernel], TypeRange(),
      ValueRange{start, batch, op<arith::SubIOp>(block, firstBlock)});
}

/// The shared arrays of a kernel, in the order of their symbols' first use.
static llvm::SetVector<LLVM::GlobalOp> sharedArrays(func::FuncOp kernel) {
  llvm::SetVector<LLVM::GlobalOp> arrays;
  auto module = kernel->getParentOfType<ModuleOp>();
  kernel.walk([&](LLVM::AddressOfOp address) {
    auto global =
        module.lookupSymbol<LLVM::GlobalOp>(address.getGlobalNameAttr());
    if (global && global.getAddrSpace() == kSharedSpace)
      arrays.insert(global);
  });
  return arrays;
}

/// The assembler adds up the arrays of all members, and 48 KiB are few: where
/// several have arrays, they run as copies whose arrays are parts of one.
void CudaHorizontal::uniteShared() {
  auto module = function->getParentOfType<ModuleOp>();
  auto kernelOf = [&](Attribute name) {
    return module.lookupSymbol<func::FuncOp>(
        cast<FlatSymbolRefAttr>(name).getAttr());
  };
  unsigned users = 0;
  for (auto [name, body] : bodyOf)
    users += !sharedArrays(kernelOf(name)).empty();
  if (users < 2)
    return;
  std::string unionName = (function.getSymName() + ".shared").str();
  int64_t largest = 0;
  for (auto &[name, body] : bodyOf) {
    func::FuncOp kernel = kernelOf(name);
    llvm::SetVector<LLVM::GlobalOp> arrays = sharedArrays(kernel);
    if (arrays.empty())
      continue;
    llvm::StringMap<int64_t> offsets;
    int64_t size = 0;
    for (LLVM::GlobalOp array : arrays) {
      offsets[array.getSymName()] = size;
      auto type = cast<LLVM::LLVMArrayType>(array.getGlobalType());
      int64_t bits = type.getElementType().getIntOrFloatBitWidth();
      size += llvm::alignTo(type.getNumElements() * llvm::divideCeil(bits, 8),
                            kSharedAlignment);
    }
    largest = std::max(largest, size);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    auto copy = cast<func::FuncOp>(b.clone(*kernel));
    copy.setSymName((function.getSymName() + "." + kernel.getSymName()).str());
    body = FlatSymbolRefAttr::get(copy.getSymNameAttr());
    copy.walk([&](LLVM::AddressOfOp address) {
      auto offset = offsets.find(address.getGlobalName());
      if (offset == offsets.end())
        return;
      address.setGlobalName(unionName);
      if (offset->second == 0)
        return;
      b.setInsertionPointAfter(address);
      auto part = LLVM::GEPOp::create(
          b, address.getLoc(), address.getType(), b.getI8Type(), address,
          ArrayRef<LLVM::GEPArg>{int32_t(offset->second)});
      address.getResult().replaceAllUsesExcept(part, part);
    });
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(function);
  LLVM::GlobalOp::create(
      b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), largest),
      /*isConstant=*/false, LLVM::Linkage::Internal, unionName, Attribute(),
      kSharedAlignment, kSharedSpace);
}

func::FuncOp CudaHorizontal::build(StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64Type = b.getI64Type();
  function = func::FuncOp::create(
      b, loc, name, b.getFunctionType({pointer, i64Type, i64Type}, {}));
  Block *entry = function.addEntryBlock();
  buffers = entry->getArgument(0);
  batch = entry->getArgument(1);
  block = entry->getArgument(2);
  b.setInsertionPointToEnd(entry);
  findMember();

  // The distinct kernels, numbered, with one of their members each.
  llvm::MapVector<Attribute, const HorizontalMember *> distinct;
  SmallVector<int64_t> numbers, operands;
  for (const HorizontalMember &each : members) {
    auto known = distinct.insert({each.kernel, &each}).first;
    bodyOf.insert({each.kernel, each.kernel});
    numbers.push_back(known - distinct.begin());
    operands.push_back(each.firstOperand);
  }
  uniteShared();
  Value first = look(operands, "operands");
  int64_t threads = 0;
  for (const HorizontalMember &each : members)
    threads = std::max(threads, each.threads);
  auto fill = [&](const HorizontalMember &each) {
    if (each.threads == threads)
      return buildCall(each, first);
    Value x = op<arith::ExtUIOp>(
        i64Type, NVVM::ThreadIdXOp::create(b, loc, b.getI32Type()).getResult());
    Value isUsed =
        op<arith::CmpIOp>(arith::CmpIPredicate::ult, x, i64(each.threads));
    auto branch = scf::IfOp::create(b, loc, isUsed, false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    buildCall(each, first);
  };
  if (distinct.size() == 1) {
    fill(*distinct.front().second);
  } else {
    auto cases = llvm::to_vector(llvm::seq<int64_t>(0, distinct.size() - 1));
    Value index =
        op<arith::IndexCastOp>(b.getIndexType(), look(numbers, "kernels"));
    auto choice = scf::IndexSwitchOp::create(b, loc, TypeRange(), index, cases,
                                             cases.size());
    auto fillRegion = [&](Region &region, const HorizontalMember &each) {
      OpBuilder::InsertionGuard guard(b);
      b.createBlock(&region);
      fill(each);
      scf::YieldOp::create(b, loc);
    };
    for (auto [region, each] : llvm::zip(choice.getCaseRegions(), distinct))
      fillRegion(region, *each.second);
    fillRegion(choice.getDefaultRegion(), *distinct.back().second);
  }
  func::ReturnOp::create(b, loc);
  return function;
}

LogicalResult codegen::emitCudaHorizontalKernel(
    ModuleOp kernels, StringRef name, Location loc,
    ArrayRef<HorizontalMember> members, const Twine &description) {
  Extent total{0, 0};
  SmallVector<Extent> blocks;
  int64_t threads = 0, operands = 0;
  std::optional<int64_t> resident; // of those that say so
  for (const HorizontalMember &member : members) {
    std::optional<Extent> count = countBlocks(member);
    if (!count || llvm::AddOverflow(total.scale, count->scale, total.scale) ||
        llvm::AddOverflow(total.base, count->base, total.base) ||
        total.scale > kMostBlocks || total.base > kMostBlocks)
      return failure();
    blocks.push_back(*count);
    threads = std::max(threads, member.threads);
    auto own = kernels.lookupSymbol<func::FuncOp>(member.kernel.getAttr());
    operands = std::max(
        operands,
        member.firstOperand +
            own->getAttrOfType<IntegerAttr>("fusion.operands").getInt());
    if (auto blocks = own->getAttrOfType<IntegerAttr>(kResidentBlocksAttr))
      resident = std::max(resident.value_or(1), blocks.getInt());
  }
  func::FuncOp function =
      CudaHorizontal(kernels, loc, members, blocks).build(name);
  Builder b(kernels.getContext());
  function->setAttr("fusion.units", ExtentAttr::get(kernels.getContext(),
                                                    total.scale, total.base));
  function->setAttr("fusion.grain", b.getI64IntegerAttr(1));
  function->setAttr("fusion.threads", b.getI64IntegerAttr(threads));
  function->setAttr("fusion.operands", b.getI64IntegerAttr(operands));
  if (resident)
    function->setAttr(
        kResidentBlocksAttr,
        b.getI64IntegerAttr(std::clamp<int64_t>(512 / threads, 1, *resident)));
  function->setAttr("fusion.description", b.getStringAttr(description));
  return success();
}

//===- Inputs.cpp - Where the arguments come from -------------------------===//
//
// A file for one rank, a file for all, a member of the archive, a file of the
// folder, random numbers: the first that there is.
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"

#include "fusion/IR/FusionDialect.h"
#include "fusion/Reference/Npy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace fusion;
using namespace fusion::interpret;
using namespace fusion::reference;

std::string interpret::getFileName(llvm::StringRef tensorName) {
  std::string name;
  for (size_t i = 0; i < tensorName.size(); ++i) {
    unsigned char c = tensorName[i];
    bool plain =
        c > ' ' && c != '/' && c != '%' && c != 0x7f && !(i == 0 && c == '.');
    if (plain)
      name += static_cast<char>(c);
    else
      name += '%' + llvm::toHex(llvm::StringRef(tensorName.data() + i, 1));
  }
  return name + ".npy";
}

/// One step of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
static uint64_t nextRandom(uint64_t &state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

llvm::Error Inputs::addFile(llvm::StringRef specification) {
  auto [name, path] = specification.split('=');
  if (name.empty() || path.empty())
    return fail(FailureKind::Usage,
                "--input '" + specification +
                    "' is not name=file.npy or name@rank=file.npy");
  if (!files.emplace(name.str(), path.str()).second)
    return fail(FailureKind::Usage, "input '" + name + "' is given twice");
  return llvm::Error::success();
}

std::vector<std::string> Inputs::getPaths(mlir::func::FuncOp function) const {
  std::vector<std::string> paths{archive};
  for (const auto &[name, path] : files)
    paths.push_back(path);
  if (!directory.empty())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      llvm::SmallString<128> path(directory);
      llvm::sys::path::append(path, getFileName(getArgumentName(function, i)));
      paths.push_back(path.str().str());
    }
  return paths;
}

llvm::Error Inputs::addArchive(llvm::StringRef path) {
  archive = path.str();
  auto archive = readNpz(path);
  if (!archive)
    return archive.takeError();
  members = std::move(*archive);
  return llvm::Error::success();
}

llvm::Expected<Tensor>
Inputs::makeRandom(mlir::RankedTensorType type, llvm::StringRef name,
                   int64_t rank, int64_t batch,
                   std::shared_ptr<MemoryBudget> budget) {
  Shape shape(type.getShape());
  for (int64_t &size : shape)
    if (mlir::ShapedType::isDynamic(size))
      size = batch;
  llvm::Expected<Tensor> tensor = Tensor::create(
      *getElementKind(type.getElementType()), shape, std::move(budget));
  if (!tensor)
    return tensor;
  uint64_t state = *seed + static_cast<uint64_t>(rank);
  for (unsigned char c : name)
    state = (state ^ c) * 0x100000001b3; // FNV-1a over the name
  for (int64_t i = 0; i < tensor->getNumElements(); ++i) {
    uint64_t bits = nextRandom(state);
    if (tensor->isFloat())
      tensor->setFloat(i, static_cast<double>(bits % 9) - 4);
    else
      tensor->setInt(i, bits & (tensor->getKind() == ElementKind::I1 ? 1 : 3));
  }
  return tensor;
}

llvm::Expected<std::vector<Tensor>>
Inputs::collect(mlir::func::FuncOp function, int64_t rank, int64_t batch,
                std::shared_ptr<MemoryBudget> budget) {
  std::vector<Tensor> result;
  if (batch == 0) {
    auto bounds = function->getAttrOfType<mlir::DenseI64ArrayAttr>(
        FusionDialect::kBatchAttr);
    batch = bounds ? bounds[1] : 1;
  }
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string name = getArgumentName(function, i);
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(
        function.getArgument(i).getType());
    std::optional<ElementKind> kind =
        type ? getElementKind(type.getElementType()) : std::nullopt;
    if (!kind)
      return fail(FailureKind::Program,
                  "input '" + name + "' is no tensor of the dialect");
    std::string ofRank = name + "@" + std::to_string(rank);
    auto read = [&]() -> llvm::Expected<Tensor> {
      for (const std::string &key : {ofRank, name}) {
        auto file = files.find(key);
        if (file != files.end()) {
          taken.insert(key);
          return readNpy(file->second, *kind, budget);
        }
      }
      auto member = members.find(name);
      if (member != members.end()) {
        taken.insert(name);
        return parseNpy(member->second, *kind, name, budget);
      }
      if (!directory.empty()) {
        llvm::SmallString<128> path(directory);
        llvm::sys::path::append(path, getFileName(name));
        return readNpy(path, *kind, budget);
      }
      if (seed)
        return makeRandom(type, name, rank, batch, budget);
      return fail(FailureKind::Usage, "it is missing; give --input " + name +
                                          "=file.npy, or --random-inputs SEED");
    };
    llvm::Expected<Tensor> tensor = read();
    if (!tensor) {
      FailureKind why;
      std::string message = takeMessage(tensor.takeError(), why);
      return fail(why, "input '" + name + "' (" + getName(*kind) + " " +
                           toString(type.getShape()) + "): " + message);
    }
    result.push_back(std::move(*tensor));
  }
  return result;
}

llvm::Error Inputs::checkAllTaken() const {
  for (const auto *named : {&files, &members})
    for (const auto &[name, ignored] : *named)
      if (!taken.count(name))
        return fail(FailureKind::Usage,
                    "input '" + name +
                        "' is given, but no function that runs takes it");
  return llvm::Error::success();
}

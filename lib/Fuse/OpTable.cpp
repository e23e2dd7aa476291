//===- OpTable.cpp - The ops of a graph by stable names -------------------===//
//
// One walk over the block. Hashes are of bytes only, never of pointers, so they
// are the same in every process.
//
//===----------------------------------------------------------------------===//
#include "fusion/Fuse/OpTable.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace fusion;

/// Names that a message proposes or lists.
static constexpr size_t kMaxProposals = 4;

/// Answers with proposals: each looks at all names.
static constexpr unsigned kMaxProposalAnswers = 16;

//===----------------------------------------------------------------------===//
// Hashing
//===----------------------------------------------------------------------===//

namespace {

/// Hashes of ops from those of their operands.
class OpHasher {
public:
  void addArgument(BlockArgument argument);
  uint64_t add(Operation *op);
  uint64_t get(Value value) const { return values.lookup(value); }
  uint64_t hash(Attribute attribute);

private:
  uint64_t hash(Type type);
  void defineValues(ValueRange results, uint64_t hash);

  llvm::DenseMap<Value, uint64_t> values;
  llvm::DenseMap<Attribute, uint64_t> attributes;
  llvm::DenseMap<Type, uint64_t> types;
};

/// Bytes to be hashed.
class HashInput {
public:
  void add(uint64_t number) {
    for (unsigned i = 0; i < 8; ++i)
      bytes.push_back(static_cast<char>(number >> (8 * i)));
  }
  void add(StringRef text) {
    add(text.size());
    bytes.append(text);
  }
  void add(ArrayRef<char> data) { add(StringRef(data.data(), data.size())); }
  void add(unsigned number) { add(uint64_t(number)); }
  uint64_t finish() const { return llvm::xxh3_64bits(bytes.str()); }
  StringRef str() const { return bytes.str(); }

private:
  SmallString<256> bytes;
};

} // namespace

/// Attributes nest as deep as their text does, never as deep as the graph.
uint64_t OpHasher::hash(Attribute attribute) {
  auto [it, isNew] = attributes.try_emplace(attribute, 0);
  if (!isNew)
    return it->second;
  HashInput input;
  if (auto dictionary = dyn_cast<DictionaryAttr>(attribute)) {
    for (NamedAttribute entry : dictionary) {
      input.add(entry.getName().getValue());
      input.add(hash(entry.getValue()));
    }
  } else if (auto array = dyn_cast<ArrayAttr>(attribute)) {
    input.add(StringRef("array"));
    for (Attribute element : array)
      input.add(hash(element));
  } else if (auto dense = dyn_cast<DenseElementsAttr>(attribute)) {
    // The text of large ones depends on printing flags.
    input.add(hash(dense.getType()));
    if (isa<DenseStringElementsAttr>(dense))
      for (StringRef text : dense.getValues<StringRef>())
        input.add(text);
    else
      input.add(dense.getRawData());
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(attribute)) {
    input.add(hash(resource.getType()));
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      input.add(blob->getData());
  } else {
    std::string text;
    llvm::raw_string_ostream os(text);
    attribute.print(os);
    input.add(StringRef(text));
  }
  // Nested attributes were added meanwhile: look the entry up again.
  return attributes[attribute] = input.finish();
}

uint64_t OpHasher::hash(Type type) {
  auto [it, isNew] = types.try_emplace(type, 0);
  if (isNew) {
    std::string text;
    llvm::raw_string_ostream os(text);
    type.print(os);
    it->second = llvm::xxh3_64bits(text);
  }
  return it->second;
}

void OpHasher::addArgument(BlockArgument argument) {
  HashInput input;
  input.add(StringRef("argument"));
  input.add(argument.getArgNumber());
  input.add(hash(argument.getType()));
  values[argument] = input.finish();
}

void OpHasher::defineValues(ValueRange results, uint64_t hash) {
  for (auto [i, result] : llvm::enumerate(results)) {
    HashInput input;
    input.add(hash);
    input.add(i);
    values[result] = input.finish();
  }
}

uint64_t OpHasher::add(Operation *op) {
  uint64_t result = 0;
  // Ops of regions first: an op is hashed with what it holds.
  op->walk([&](Operation *nested, const WalkStage &stage) {
    if (stage.isBeforeAllRegions())
      for (Region &region : nested->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            addArgument(argument);
    if (!stage.isAfterAllRegions())
      return;
    HashInput input;
    input.add(nested->getName().getStringRef());
    input.add(hash(nested->getAttrDictionary()));
    for (Type type : nested->getResultTypes())
      input.add(hash(type));
    input.add(nested->getNumOperands());
    for (Value operand : nested->getOperands())
      input.add(values.lookup(operand));
    for (Region &region : nested->getRegions())
      for (Block &block : region)
        for (Operation &inner : block) {
          input.add(inner.getName().getStringRef());
          for (Value operand : inner.getOperands())
            input.add(values.lookup(operand));
          for (Value value : inner.getResults())
            input.add(values.lookup(value));
        }
    result = input.finish();
    defineValues(nested->getResults(), result);
  });
  return result;
}

OpTable::OpTable(Block &block) {
  OpHasher hasher;
  HashInput graph;
  for (BlockArgument argument : block.getArguments()) {
    hasher.addArgument(argument);
    graph.add(hasher.get(argument));
  }
  if (auto batch = block.getParentOp()->getAttr(FusionDialect::kBatchAttr))
    graph.add(hasher.hash(batch));
  for (Operation &op : block.without_terminator()) {
    uint64_t hash = hasher.add(&op);
    indexOf[&op] = ops.size();
    byHash[static_cast<uint32_t>(hash)].push_back(ops.size());
    OpFamily family = getOpFamily(&op);
    bool isMinor = family == OpFamily::Source || family == OpFamily::View ||
                   isCheapToClone(&op);
    ops.push_back({op.getName(), op.getLoc(), hash, family, isMinor});
    graph.add(hash);
  }
  for (Value result : block.getTerminator()->getOperands())
    graph.add(hasher.get(result));
  llvm::SHA256 sha;
  sha.update(graph.str());
  std::array<uint8_t, 32> digest = sha.final();
  graphHash = llvm::toHex(ArrayRef(digest).take_front(16), /*LowerCase=*/true);
}

//===----------------------------------------------------------------------===//
// Naming
//===----------------------------------------------------------------------===//

std::optional<unsigned> OpTable::find(Operation *op) const {
  auto it = indexOf.find(op);
  if (it == indexOf.end())
    return std::nullopt;
  return it->second;
}

static StringRef getShortName(OperationName name) {
  StringRef text = name.getStringRef();
  text.consume_front("fusion.");
  return text;
}

static std::string formatHash(uint64_t hash) {
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format("%08x", static_cast<uint32_t>(hash));
  return text;
}

std::string OpTable::getId(unsigned op) const {
  return (getShortName(ops[op].name) + "#" + Twine(op) + ":" +
          formatHash(ops[op].hash))
      .str();
}

/// Calls `visit` with each name and each line that a location holds.
static void forEachPlace(Location loc,
                         llvm::function_ref<void(StringRef, unsigned)> visit) {
  loc->walk([&](Location inner) {
    if (auto name = dyn_cast<NameLoc>(inner))
      visit(name.getName().getValue(), 0);
    else if (auto place = dyn_cast<FileLineColLoc>(inner))
      visit("", place.getLine());
    return WalkResult::advance();
  });
}

std::string OpTable::getLocationName(unsigned op) const {
  std::string first;
  forEachPlace(ops[op].loc, [&](StringRef name, unsigned) {
    if (first.empty())
      first = name.str();
  });
  return first;
}

std::string OpTable::describe(unsigned op) const {
  std::string text = (getShortName(ops[op].name) + "#" + Twine(op)).str();
  std::string name = getLocationName(op);
  if (!name.empty())
    return text + " \"" + name + "\"";
  unsigned line = 0;
  forEachPlace(ops[op].loc, [&](StringRef, unsigned at) {
    if (line == 0)
      line = at;
  });
  return line ? text + " (line " + std::to_string(line) + ")" : text;
}

llvm::Expected<unsigned> OpTable::selectOnly(ArrayRef<unsigned> found,
                                             StringRef text) const {
  if (found.size() == 1)
    return found.front();
  // What an importer makes of one node are constants and broadcasts around the
  // op that a person means.
  auto isMajor = [&](unsigned op) { return !ops[op].isMinor; };
  if (llvm::count_if(found, isMajor) == 1)
    return *llvm::find_if(found, isMajor);
  std::string list;
  for (unsigned op : found.take_front(kMaxProposals))
    list += (list.empty() ? "" : ", ") + describe(op);
  if (found.size() > kMaxProposals)
    list += " and " + std::to_string(found.size() - kMaxProposals) + " more";
  return llvm::createStringError(
      "'" + text + "' names " + Twine(found.size()) + " ops, " + list +
      "; name one by its number, as in '#" + Twine(found.front()) + "'");
}

llvm::Expected<unsigned> OpTable::lookupIndex(StringRef text) const {
  unsigned index;
  if (text.getAsInteger(10, index))
    return llvm::createStringError("'#" + text +
                                   "' is no number of an op; write '#3'");
  if (index >= ops.size())
    return llvm::createStringError("there is no op #" + text +
                                   "; the graph has the ops #0 to #" +
                                   Twine(ops.size() - 1));
  return index;
}

const OpTable::Places &OpTable::getPlaces() const {
  if (places)
    return *places;
  places = std::make_shared<Places>();
  auto add = [](SmallVectorImpl<unsigned> &list, unsigned op) {
    if (list.empty() || list.back() != op)
      list.push_back(op);
  };
  for (unsigned op = 0; op < ops.size(); ++op)
    forEachPlace(ops[op].loc, [&](StringRef name, unsigned line) {
      if (name.empty())
        return add(places->lines[line], op);
      auto [it, isNew] = places->names.try_emplace(name);
      if (isNew)
        places->order.push_back(it->getKey());
      add(it->second, op);
    });
  return *places;
}

llvm::Expected<unsigned> OpTable::lookupLine(StringRef text) const {
  unsigned line;
  if (text.getAsInteger(10, line) || line == 0)
    return llvm::createStringError("':" + text +
                                   "' is no line of the model; write ':12'");
  auto it = getPlaces().lines.find(line);
  if (it == getPlaces().lines.end())
    return llvm::createStringError("no op of the graph stands in line " + text);
  return selectOnly(it->second, (":" + text).str());
}

/// The nearest of `names`, nearest first, of equally near ones the earlier.
static SmallVector<StringRef> findNearest(StringRef name,
                                          ArrayRef<StringRef> names) {
  SmallVector<std::pair<unsigned, StringRef>> nearest;
  for (StringRef other : names) {
    bool isFull = nearest.size() == kMaxProposals;
    unsigned worst = isFull ? nearest.back().first : name.size() + 1;
    unsigned distance = name.edit_distance(other, true, worst);
    if (distance >= worst)
      continue;
    if (isFull)
      nearest.pop_back();
    nearest.insert(llvm::upper_bound(nearest, distance,
                                     [](unsigned value, auto &near) {
                                       return value < near.first;
                                     }),
                   {distance, other});
  }
  return llvm::map_to_vector(nearest, [](auto &near) { return near.second; });
}

llvm::Expected<unsigned> OpTable::lookupName(StringRef name) const {
  const Places &all = getPlaces();
  auto it = all.names.find(name);
  if (it != all.names.end())
    return selectOnly(it->second, ("@" + name).str());
  std::string list;
  if (numProposals++ < kMaxProposalAnswers)
    for (StringRef other : findNearest(name, all.order))
      list += (list.empty() ? "'@" : ", '@") + other.str() + "'";
  return llvm::createStringError(
      "no op of the graph is called '@" + name + "'" +
      (all.order.empty()
           ? "; its ops have no names: name one by its number, as in '#3'"
       : list.empty() ? ""
                      : "; the nearest names are " + list));
}

llvm::Expected<unsigned> OpTable::lookupId(StringRef text) const {
  auto [name, rest] = text.split('#');
  auto [number, digits] = rest.split(':');
  unsigned index;
  uint32_t hash;
  if (name.empty() || number.getAsInteger(10, index) || digits.size() != 8 ||
      digits.getAsInteger(16, hash))
    return llvm::createStringError(
        "'" + text +
        "' names no op; write 'conv#3:1f2e3d4c', '#3', '@name' "
        "or ':12' for line 12");
  auto fits = [&, name = name](unsigned op) {
    return getShortName(ops[op].name) == name &&
           static_cast<uint32_t>(ops[op].hash) == hash;
  };
  if (index < ops.size() && fits(index))
    return index;
  SmallVector<unsigned> found;
  if (auto it = byHash.find(hash); it != byHash.end())
    llvm::copy_if(it->second, std::back_inserter(found), fits);
  if (found.size() > 1)
    return selectOnly(found, text);
  if (!found.empty())
    return found.front();
  return llvm::createStringError(
      "the graph has no op " + text + "; " +
      (index < ops.size()
           ? "op #" + std::to_string(index) + " is " + getId(index)
           : "it has the ops #0 to #" + std::to_string(ops.size() - 1)));
}

llvm::Expected<unsigned> OpTable::lookup(StringRef text) const {
  if (ops.empty())
    return llvm::createStringError("the graph has no ops");
  if (text.consume_front("@"))
    return lookupName(text);
  if (text.consume_front("#"))
    return lookupIndex(text);
  if (text.consume_front(":"))
    return lookupLine(text);
  return lookupId(text);
}

//===- DeviceModel.cpp - Device files -------------------------------------===//
//
// One table of keys serves reading, checking and printing. The JSON parser
// forgets lines and takes the last of two equal keys, so a scan of the text
// that it accepted finds both.
//
//===----------------------------------------------------------------------===//
#include "DeviceReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace fusion;

//===----------------------------------------------------------------------===//
// The keys
//===----------------------------------------------------------------------===//

namespace {

struct IntegerKey {
  StringLiteral name;
  int64_t DeviceModel::*field;
  int64_t least;
};

struct RealKey {
  StringLiteral name;
  double DeviceModel::*field;
  bool mayBeZero;
};

struct RateKey {
  StringLiteral table, name;
  Arithmetic arithmetic;
};

} // namespace

static constexpr IntegerKey kIntegers[] = {
    {"units", &DeviceModel::units, 1},
    {"saturating_units", &DeviceModel::saturatingUnits, 1},
    {"threads_per_block", &DeviceModel::threadsPerBlock, 1},
    {"resident_blocks", &DeviceModel::residentBlocks, 1},
    {"block_elements", &DeviceModel::blockElements, 1},
    {"vector_bytes", &DeviceModel::vectorBytes, 1},
    {"registers_per_unit", &DeviceModel::registersPerUnit, 1},
    {"registers_per_thread", &DeviceModel::registersPerThread, 1},
    {"register_overhead", &DeviceModel::registerOverhead, 0},
    {"shared_bytes_per_unit", &DeviceModel::sharedBytesPerUnit, 0},
    {"shared_bytes_per_block", &DeviceModel::sharedBytesPerBlock, 0},
    {"parameter_bytes", &DeviceModel::parameterBytes, 1},
    {"cache_bytes", &DeviceModel::cacheBytes, 0},
    {"streams", &DeviceModel::streams, 1},
    {"memory_bytes", &DeviceModel::memoryBytes, 1},
};

static constexpr RealKey kReals[] = {
    {"cache_bandwidth", &DeviceModel::cacheBandwidth, false},
    {"memory_bandwidth", &DeviceModel::memoryBandwidth, false},
    {"launch_gap_us", &DeviceModel::launchGapUs, true},
};

static constexpr StringLiteral kVector = "vector_flops";
static constexpr StringLiteral kMatrix = "matrix_flops";
static constexpr RateKey kRates[] = {
    {kVector, "f64", Arithmetic::VectorF64},
    {kVector, "f32", Arithmetic::VectorF32},
    {kMatrix, "f64", Arithmetic::MatrixF64},
    {kMatrix, "f32", Arithmetic::MatrixF32},
    {kMatrix, "tf32", Arithmetic::MatrixTf32},
    {kMatrix, "f16", Arithmetic::MatrixF16},
    {kMatrix, "bf16", Arithmetic::MatrixBf16},
    {kMatrix, "i8", Arithmetic::MatrixI8},
};
static_assert(std::size(kRates) == kNumArithmetic);

static constexpr StringLiteral kRun = "run_us";
static constexpr StringLiteral kKernels = "kernels";
static constexpr StringLiteral kClasses[] = {
    "loop",        "row_reduce", "column_reduce", "transpose", "product",
    "convolution", "other",      "operand_sum",   "slope"};
static_assert(std::size(kClasses) == kNumKernelClasses);

namespace {

struct FigureKey {
  StringLiteral name;
  double KernelFigures::*field;
  bool mayBeZero;
};

} // namespace

static constexpr FigureKey kFigures[] = {
    {"fixed_us", &KernelFigures::fixedUs, true},
    {"memory_share", &KernelFigures::memoryShare, false},
    {"arithmetic_share", &KernelFigures::arithmeticShare, false},
    {"reread_share", &KernelFigures::rereadShare, true},
    {"spread", &KernelFigures::spread, false},
};

StringRef fusion::getKernelClassName(KernelClass kernel) {
  return kClasses[static_cast<unsigned>(kernel)];
}

std::string fusion::getArithmeticName(Arithmetic arithmetic) {
  const RateKey *rate = llvm::find_if(
      kRates, [&](const RateKey &key) { return key.arithmetic == arithmetic; });
  return (rate->table + "." + rate->name).str();
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

KeyLines::KeyLines(StringRef text) {
  SmallVector<Level> levels;
  std::string current;
  unsigned line = 1;
  auto join = [](StringRef prefix, const Twine &key) {
    return prefix.empty() ? key.str() : (prefix + "." + key).str();
  };
  auto open = [&](bool isObject) {
    levels.push_back({current, isObject, isObject});
    if (!isObject)
      lines.try_emplace(current = join(levels.back().prefix, "0"), line);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\n') {
      ++line;
    } else if (c == '"') {
      size_t begin = ++i;
      while (i < text.size() && text[i] != '"')
        i += text[i] == '\\' ? 2 : 1;
      if (!levels.empty() && levels.back().isObject &&
          levels.back().expectsKey) {
        levels.back().expectsKey = false;
        current = join(levels.back().prefix, text.slice(begin, i));
        if (!lines.try_emplace(current, line).second && repeated.empty()) {
          repeated = current;
          lines[current] = line;
        }
      }
    } else if (c == '{' || c == '[') {
      open(c == '{');
    } else if (c == '}' || c == ']') {
      if (!levels.empty())
        current = levels.pop_back_val().prefix;
    } else if (c == ',' && !levels.empty()) {
      Level &level = levels.back();
      level.expectsKey = level.isObject;
      if (!level.isObject)
        lines.try_emplace(current = join(level.prefix, Twine(++level.element)),
                          line);
    }
  }
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Error DeviceReader::checkKeys(const json::Object &object, StringRef prefix,
                              ArrayRef<StringRef> keys,
                              ArrayRef<StringRef> optional) const {
  // The first in the text: the order of `object` is not one.
  std::string unknown;
  for (auto &entry : object) {
    std::string key = getPath(prefix, StringRef(entry.first));
    if (!is_contained(keys, StringRef(entry.first)) &&
        !is_contained(optional, StringRef(entry.first)) &&
        (unknown.empty() || std::pair(lines.getLine(key), key) <
                                std::pair(lines.getLine(unknown), unknown)))
      unknown = key;
  }
  if (!unknown.empty()) {
    SmallVector<StringRef> known(keys);
    llvm::append_range(known, optional);
    return fail(unknown,
                "unknown key '" + unknown +
                    "', device file, the keys are: " + join(known, ", "));
  }
  for (StringRef key : keys)
    if (!object.get(key))
      return fail(prefix, "missing key '" + getPath(prefix, key) +
                              "', device file, add it; a shipped device file "
                              "shows all keys");
  return Error::success();
}

/// Rates, times and sizes beyond this are typing errors, and products of them
/// would be infinite.
static constexpr double kMostReal = 1e30;

Expected<double> DeviceReader::getNumber(const json::Object &object,
                                         StringRef prefix, StringRef key,
                                         bool mayBeZero) const {
  std::optional<double> number = object.getNumber(key);
  if (number && *number > kMostReal)
    return fail(getPath(prefix, key), "too large a value of '" +
                                          getPath(prefix, key) +
                                          "', device file, give a number of at "
                                          "most 1e30");
  if (!number || !std::isfinite(*number) || *number < 0 ||
      (!mayBeZero && *number == 0))
    return fail(getPath(prefix, key),
                "bad value of '" + getPath(prefix, key) +
                    "', device file, give a number " +
                    (mayBeZero ? "of at least 0" : "above 0"));
  return *number;
}

Expected<int64_t> DeviceReader::getWhole(std::optional<double> number,
                                         StringRef path, int64_t least,
                                         int64_t most) const {
  if (number && *number >= least && *number <= most &&
      *number == std::floor(*number))
    return static_cast<int64_t>(*number);
  std::string range =
      most < kMost ? ("from " + Twine(least) + " to " + Twine(most)).str()
                   : (number && *number > most ? "of at most " + Twine(most)
                                               : "of at least " + Twine(least))
                         .str();
  return fail(path, (number && *number > most ? "too large a" : "bad") +
                        Twine(" value of '") + path +
                        "', device file, give a whole number " + range);
}

Expected<int64_t> DeviceReader::getWhole(const json::Object &object,
                                         StringRef prefix, StringRef key,
                                         int64_t least, int64_t most) const {
  return getWhole(object.getNumber(key), getPath(prefix, key), least, most);
}

Expected<std::string> DeviceReader::getText(const json::Object &object,
                                            StringRef prefix,
                                            StringRef key) const {
  std::optional<StringRef> text = object.getString(key);
  if (!text || text->empty())
    return fail(getPath(prefix, key), "bad value of '" + getPath(prefix, key) +
                                          "', device file, give a text");
  return text->str();
}

Error DeviceReader::readRates(const json::Object &root,
                              DeviceModel &device) const {
  for (StringRef table : {kVector, kMatrix}) {
    const json::Object *object = root.getObject(table);
    if (!object)
      return fail(table, "bad value of '" + table +
                             "', device file, give an object of rates by type");
    SmallVector<StringRef> keys;
    for (const RateKey &rate : kRates)
      if (rate.table == table)
        keys.push_back(rate.name);
    if (Error error = checkKeys(*object, table, keys))
      return error;
    for (const RateKey &rate : kRates) {
      if (rate.table != table)
        continue;
      Expected<double> number = getNumber(*object, table, rate.name, false);
      if (!number)
        return number.takeError();
      device.flops[static_cast<unsigned>(rate.arithmetic)] = *number;
    }
  }
  return Error::success();
}

Error DeviceReader::readKernels(const json::Object &root,
                                DeviceModel &device) const {
  if (!root.get(kKernels))
    return Error::success();
  const json::Object *object = root.getObject(kKernels);
  if (!object)
    return fail(kKernels,
                "bad value of 'kernels', device file, give an object of "
                "figures by class of kernels");
  if (Error error = checkKeys(*object, kKernels, {},
                              SmallVector<StringRef>(ArrayRef(kClasses))))
    return error;
  for (auto [kernel, name] : enumerate(kClasses)) {
    if (!object->get(name))
      continue;
    std::string prefix = getPath(kKernels, name);
    const json::Object *entry = object->getObject(name);
    if (!entry)
      return fail(prefix,
                  "bad value of '" + prefix + "', device file, give an object");
    SmallVector<StringRef> keys;
    for (const FigureKey &key : kFigures)
      keys.push_back(key.name);
    if (Error error = checkKeys(*entry, prefix, keys))
      return error;
    for (const FigureKey &key : kFigures) {
      Expected<double> number =
          getNumber(*entry, prefix, key.name, key.mayBeZero);
      if (!number)
        return number.takeError();
      device.kernels[kernel].*key.field = *number;
    }
  }
  return Error::success();
}

Error DeviceReader::readLinks(const json::Object &root,
                              DeviceModel &device) const {
  const json::Array *array = root.getArray("links");
  if (!array)
    return fail("links", "bad value of 'links', device file, give a list");
  for (auto [i, element] : enumerate(*array)) {
    std::string prefix = "links." + std::to_string(i);
    const json::Object *object = element.getAsObject();
    if (!object)
      return fail(prefix,
                  "bad value of '" + prefix + "', device file, give an object");
    if (Error error =
            checkKeys(*object, prefix, {"name", "bandwidth", "latency_us"}))
      return error;
    DeviceLink link;
    Expected<std::string> name = getText(*object, prefix, "name");
    if (!name)
      return name.takeError();
    link.name = *name;
    Expected<double> bandwidth = getNumber(*object, prefix, "bandwidth", false);
    if (!bandwidth)
      return bandwidth.takeError();
    link.bandwidth = *bandwidth;
    Expected<double> latency = getNumber(*object, prefix, "latency_us", true);
    if (!latency)
      return latency.takeError();
    link.latencyUs = *latency;
    device.links.push_back(std::move(link));
  }
  return Error::success();
}

Error DeviceReader::read(const json::Value &value, DeviceModel &device) {
  const json::Object *root = value.getAsObject();
  if (!root)
    return fail("", "not an object, device file, begin with '{'");
  if (!lines.repeated.empty())
    return fail(lines.repeated, "key '" + lines.repeated +
                                    "' stands twice, device file, keep one");
  SmallVector<StringRef> keys{"name", "kind", "source"};
  for (const IntegerKey &key : kIntegers)
    keys.push_back(key.name);
  for (const RealKey &key : kReals)
    keys.push_back(key.name);
  llvm::append_range(keys, ArrayRef<StringRef>{kVector, kMatrix, "links"});
  if (Error error = checkKeys(*root, "", keys, {kRun, kKernels, kComm}))
    return error;
  for (auto [key, field] : {std::pair("name", &DeviceModel::name),
                            std::pair("source", &DeviceModel::source)}) {
    Expected<std::string> text = getText(*root, "", key);
    if (!text)
      return text.takeError();
    device.*field = *text;
  }
  StringRef kind = root->getString("kind").value_or("");
  if (kind != "gpu" && kind != "cpu")
    return fail("kind",
                "bad value of 'kind', device file, the kinds are: gpu, cpu");
  device.isGpu = kind == "gpu";
  for (const IntegerKey &key : kIntegers) {
    Expected<int64_t> number = getWhole(*root, "", key.name, key.least);
    if (!number)
      return number.takeError();
    device.*key.field = *number;
  }
  for (const RealKey &key : kReals) {
    Expected<double> number = getNumber(*root, "", key.name, key.mayBeZero);
    if (!number)
      return number.takeError();
    device.*key.field = *number;
  }
  if (root->get(kRun)) {
    Expected<double> number = getNumber(*root, "", kRun, /*mayBeZero=*/true);
    if (!number)
      return number.takeError();
    device.runUs = *number;
  }
  if (Error error = readRates(*root, device))
    return error;
  if (Error error = readKernels(*root, device))
    return error;
  if (Error error = readLinks(*root, device))
    return error;
  return readComm(*root, device);
}

/// Whether brackets nest deeper than any device file needs: the parser
/// recurses.
static bool isTooDeep(StringRef text) {
  int depth = 0;
  for (char c : text) {
    if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (depth > 64)
      return true;
  }
  return false;
}

Expected<DeviceModel> DeviceModel::parse(StringRef text, StringRef path) {
  if (isTooDeep(text))
    return createStringError(std::make_error_code(std::errc::invalid_argument),
                             path + ":1: arrays and objects nested more than "
                                    "64 deep, device file, correct it");
  Expected<json::Value> root = json::parse(text);
  if (!root) {
    // "[line:column, byte=n]: what"
    std::string message = toString(root.takeError());
    StringRef rest(message);
    StringRef line = "1";
    if (rest.consume_front("[")) {
      line = rest.take_until([](char c) { return c == ':'; });
      rest = rest.split("]: ").second;
    }
    return createStringError(std::make_error_code(std::errc::invalid_argument),
                             path + ":" + line + ": not JSON: " + rest +
                                 ", device file, correct it");
  }
  DeviceModel device;
  if (Error error = DeviceReader(text, path).read(*root, device))
    return std::move(error);
  SHA256 hash;
  hash.update(text);
  device.hash = toHex(hash.final(), /*LowerCase=*/true);
  return device;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

void DeviceModel::print(raw_ostream &os) const {
  json::OStream out(os, /*IndentSize=*/2);
  out.object([&] {
    out.attribute("name", name);
    out.attribute("kind", isGpu ? "gpu" : "cpu");
    out.attribute("source", source);
    for (const IntegerKey &key : kIntegers)
      out.attribute(key.name, this->*key.field);
    for (const RealKey &key : kReals)
      out.attribute(key.name, this->*key.field);
    out.attribute(kRun, runUs);
    for (StringRef table : {kVector, kMatrix})
      out.attributeObject(table, [&] {
        for (const RateKey &rate : kRates)
          if (rate.table == table)
            out.attribute(rate.name, getFlops(rate.arithmetic));
      });
    out.attributeObject(kKernels, [&] {
      for (auto [kernel, name] : enumerate(kClasses))
        out.attributeObject(name, [&, kernel = kernel] {
          for (const FigureKey &key : kFigures)
            out.attribute(key.name, kernels[kernel].*key.field);
        });
    });
    out.attributeArray("links", [&] {
      for (const DeviceLink &link : links)
        out.object([&] {
          out.attribute("name", link.name);
          out.attribute("bandwidth", link.bandwidth);
          out.attribute("latency_us", link.latencyUs);
        });
    });
    if (comm)
      out.attributeObject(kComm, [&] { printComm(*comm, out); });
  });
  os << '\n';
}

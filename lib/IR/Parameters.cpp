//===- Parameters.cpp - Reading the bytes of parameters -------------------===//
//
// The weights file is untrusted: its path is confined to the module's folder,
// its header is bounded before it is parsed, each tensor's range is checked
// against the file, and the bytes against the parameter's hash.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/Parameters.h"
#include "Sha256.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir;
using namespace fusion;

/// Longest safetensors header that is read; the format's own limit.
static constexpr uint64_t kMaxHeaderBytes = 100'000'000;
/// Deepest nesting a header can need: the file, a tensor, its shape.
static constexpr int kMaxNesting = 8;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(
      std::make_error_code(std::errc::invalid_argument), message);
}

std::string fusion::getParameterFolder(ModuleOp module, StringRef override) {
  if (!override.empty())
    return override.str();
  auto location = module.getLoc()->findInstanceOf<FileLineColLoc>();
  if (!location || location.getFilename().strref() == "-")
    return ".";
  StringRef folder = llvm::sys::path::parent_path(location.getFilename());
  return folder.empty() ? "." : folder.str();
}

//===----------------------------------------------------------------------===//
// Safetensors
//===----------------------------------------------------------------------===//

namespace {
/// A file descriptor that closes itself.
struct Descriptor {
  int value = -1;
  explicit Descriptor(int value) : value(value) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (value >= 0)
      ::close(value);
  }
};
} // namespace

/// Opens `folder/path` component by component, so that no link or `..` leads
/// out of the folder.
static llvm::Expected<int> openInside(StringRef folder, StringRef path,
                                      StringRef what) {
  auto fail = [&](const llvm::Twine &why) {
    return makeError("cannot read " + what + " '" + path + "' in '" + folder +
                     "': " + why);
  };
  if (path.empty() || path.contains('\0') || llvm::sys::path::is_absolute(path))
    return fail("the path must be relative and not empty");
  SmallVector<StringRef> components;
  path.split(components, '/', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  int current =
      ::open(folder.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (current < 0)
    return fail(std::strerror(errno));
  for (auto [i, component] : llvm::enumerate(components)) {
    bool isLast = i + 1 == components.size();
    if (component == "..") {
      ::close(current);
      return fail("the path must not contain '..'");
    }
    int next = ::openat(current, component.str().c_str(),
                        O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK |
                            (isLast ? 0 : O_DIRECTORY));
    int error = errno;
    ::close(current);
    if (next < 0)
      return fail(error == ELOOP ? "it is a symbolic link"
                                 : std::strerror(error));
    current = next;
  }
  return current;
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
fusion::openModelFile(StringRef folder, StringRef path, StringRef what) {
  llvm::Expected<int> opened = openInside(folder, path, what);
  if (!opened)
    return opened.takeError();
  Descriptor descriptor(*opened);
  struct stat status;
  if (::fstat(descriptor.value, &status) != 0 || !S_ISREG(status.st_mode))
    return makeError(what + " '" + path + "' is not a regular file");
  auto buffer = llvm::MemoryBuffer::getOpenFile(
      descriptor.value, path, status.st_size, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeError("cannot map " + what + " '" + path +
                     "': " + buffer.getError().message());
  return std::move(*buffer);
}

SafetensorsFile::SafetensorsFile() = default;
SafetensorsFile::~SafetensorsFile() = default;

llvm::Expected<std::shared_ptr<const SafetensorsFile>>
SafetensorsFile::open(StringRef folder, StringRef path) {
  auto buffer = openModelFile(folder, path, "weights file");
  if (!buffer)
    return buffer.takeError();
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->buffer = std::move(*buffer);
  if (llvm::Error error = file->parse(path))
    return std::move(error);
  return file;
}

/// Bits of an element of a safetensors dtype, or 0 if we have no such type.
static unsigned getDtypeBytes(StringRef dtype) {
  return llvm::StringSwitch<unsigned>(dtype)
      .Cases({"F64", "I64", "U64"}, 8)
      .Cases({"F32", "I32", "U32"}, 4)
      .Cases({"F16", "BF16", "I16", "U16"}, 2)
      .Cases({"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"}, 1)
      .Default(0);
}

/// Whether brackets nest deeper than any header does. The JSON parser recurses,
/// so this is asked first.
static bool nestsTooDeep(StringRef text) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
      continue;
    }
    if (c == '"')
      inString = true;
    else if (c == '[' || c == '{') {
      if (++depth > kMaxNesting)
        return true;
    } else if (c == ']' || c == '}')
      --depth;
  }
  return false;
}

llvm::Error SafetensorsFile::parse(StringRef name) {
  auto fail = [&](const llvm::Twine &why) {
    return makeError("weights file '" + name + "' is damaged: " + why);
  };
  StringRef bytes = buffer->getBuffer();
  if (bytes.size() < 8)
    return fail("it has less than 8 bytes");
  uint64_t headerSize = llvm::support::endian::read64le(bytes.data());
  if (headerSize > kMaxHeaderBytes || headerSize > bytes.size() - 8)
    return fail("its header of " + llvm::Twine(headerSize) +
                " bytes does not fit");
  StringRef header = bytes.substr(8, headerSize);
  if (nestsTooDeep(header))
    return fail("its header nests too deep");
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(header);
  if (!json) {
    std::string why = llvm::toString(json.takeError());
    return fail("its header is not JSON: " + why);
  }
  const llvm::json::Object *object = json->getAsObject();
  if (!object)
    return fail("its header is not an object");

  uint64_t dataStart = 8 + headerSize;
  uint64_t dataSize = bytes.size() - dataStart;
  for (const auto &[key, value] : *object) {
    if (key == "__metadata__")
      continue;
    const llvm::json::Object *fields = value.getAsObject();
    if (!fields)
      return fail("tensor '" + key.str() + "' is not an object");
    Entry entry;
    std::optional<StringRef> dtype = fields->getString("dtype");
    const llvm::json::Array *shape = fields->getArray("shape");
    const llvm::json::Array *offsets = fields->getArray("data_offsets");
    if (!dtype || !shape || !offsets || offsets->size() != 2)
      return fail("tensor '" + key.str() +
                  "' needs dtype, shape and data_offsets");
    entry.dtype = dtype->str();
    int64_t size = getDtypeBytes(*dtype);
    for (const llvm::json::Value &extent : *shape) {
      std::optional<int64_t> number = extent.getAsInteger();
      if (!number || *number < 0 || llvm::MulOverflow(size, *number, size))
        return fail("tensor '" + key.str() + "' has a bad shape");
      entry.shape.push_back(*number);
    }
    std::optional<uint64_t> begin = (*offsets)[0].getAsUINT64();
    std::optional<uint64_t> end = (*offsets)[1].getAsUINT64();
    if (!begin || !end || *begin > *end || *end > dataSize)
      return fail("tensor '" + key.str() + "' lies outside the file");
    if (size != 0 && *end - *begin != static_cast<uint64_t>(size))
      return fail("tensor '" + key.str() + "' has " +
                  llvm::Twine(*end - *begin) + " bytes, its type needs " +
                  llvm::Twine(size));
    entry.begin = dataStart + *begin;
    entry.end = dataStart + *end;
    entries.emplace(key.str(), std::move(entry));
  }
  return llvm::Error::success();
}

const SafetensorsFile::Entry *SafetensorsFile::find(StringRef key) const {
  auto found = entries.find(key.str());
  return found == entries.end() ? nullptr : &found->second;
}

ArrayRef<char> SafetensorsFile::getBytes(const Entry &entry) const {
  return ArrayRef<char>(buffer->getBufferStart() + entry.begin,
                        entry.end - entry.begin);
}

//===----------------------------------------------------------------------===//
// ParameterReader
//===----------------------------------------------------------------------===//

/// The safetensors name of an element type.
static StringRef getDtypeName(Type type) {
  if (type.isF64())
    return "F64";
  if (type.isF32())
    return "F32";
  if (type.isF16())
    return "F16";
  if (type.isBF16())
    return "BF16";
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return "BOOL";
  case 8:
    return "I8";
  case 32:
    return "I32";
  default:
    return "I64";
  }
}

llvm::Expected<TensorData> ParameterReader::readFile(ParameterOp parameter) {
  std::string path = parameter.getFile()->str();
  auto fail = [&](const llvm::Twine &why) {
    return makeError("parameter @" + parameter.getSymName() + ": " + why);
  };
  std::shared_ptr<const SafetensorsFile> &file = files[path];
  if (!file) {
    auto opened = SafetensorsFile::open(folder, path);
    if (!opened)
      return fail(llvm::toString(opened.takeError()));
    file = *opened;
  }
  StringRef key = *parameter.getKey();
  const SafetensorsFile::Entry *entry = file->find(key);
  if (!entry)
    return fail("weights file '" + path + "' has no tensor '" + key.str() +
                "'");
  auto type = cast<RankedTensorType>(parameter.getType());
  if (entry->dtype != getDtypeName(type.getElementType()))
    return fail("its element type is " + getDtypeName(type.getElementType()) +
                ", weights file '" + path + "' has " + entry->dtype);
  if (ArrayRef<int64_t>(entry->shape) != type.getShape())
    return fail("its shape differs from that in weights file '" + path + "'");
  ArrayRef<char> bytes = file->getBytes(*entry);
  if (std::optional<StringRef> expected = parameter.getSha256()) {
    // LLVM's own hash is wrong from 512 MiB on: it counts bits in 32 bits.
    auto hash = rt::sha256(bytes.data(), bytes.size());
    if (!hash.ok())
      return fail(hash.status().message());
    if (!expected->equals_insensitive(rt::toHex(*hash)))
      return fail("its bytes in weights file '" + path +
                  "' do not have the hash that the module names");
  }
  return TensorData(type, bytes, /*isSplat=*/false, file);
}

llvm::Expected<TensorData> ParameterReader::read(ParameterOp parameter) {
  if (std::optional<ElementsAttr> value = parameter.getValue()) {
    if (std::optional<TensorData> data = TensorData::get(*value))
      return *data;
    return makeError("parameter @" + parameter.getSymName() +
                     ": its value cannot be read (a resource that is missing "
                     "or has the wrong size)");
  }
  auto [found, isNew] = cache.try_emplace(parameter.getSymName().str());
  if (isNew) {
    llvm::Expected<TensorData> data = readFile(parameter);
    if (!data) {
      cache.erase(found);
      return data.takeError();
    }
    found->second = *data;
  }
  return found->second;
}

//===----------------------------------------------------------------------===//
// ConstantReader
//===----------------------------------------------------------------------===//

ConstantReader::ConstantReader(ModuleOp module, std::string folder)
    : reader(std::move(folder)) {
  for (auto parameter : module.getOps<ParameterOp>())
    add(parameter);
}

void ConstantReader::add(ParameterOp parameter) {
  parameters[parameter.getSymNameAttr()] = parameter;
}

ParameterOp ConstantReader::getParameter(Value value) const {
  auto get = value.getDefiningOp<GetParameterOp>();
  if (!get)
    return {};
  return dyn_cast_or_null<ParameterOp>(
      parameters.lookup(get.getParameterAttr().getAttr()));
}

bool ConstantReader::isConstant(Value value) const {
  if (value.getDefiningOp<ConstantOp>())
    return true;
  ParameterOp parameter = getParameter(value);
  return parameter && parameter.getKind() == ParameterKind::Const;
}

std::optional<TensorData> ConstantReader::read(Value value,
                                               std::string *reason) {
  auto refuse = [&](std::string why) -> std::optional<TensorData> {
    if (reason)
      *reason = std::move(why);
    return std::nullopt;
  };
  if (auto constant = value.getDefiningOp<ConstantOp>()) {
    if (std::optional<TensorData> data = TensorData::get(constant.getValue()))
      return data;
    return refuse("a resource that is missing or has the wrong size");
  }
  ParameterOp parameter = getParameter(value);
  if (!parameter)
    return refuse("computed at run time");
  if (parameter.getKind() != ParameterKind::Const)
    return refuse("state parameter @" + parameter.getSymName().str() +
                  ", which the program updates");
  llvm::Expected<TensorData> data = reader.read(parameter);
  if (!data)
    return refuse("cannot be read (" + llvm::toString(data.takeError()) + ")");
  return *data;
}

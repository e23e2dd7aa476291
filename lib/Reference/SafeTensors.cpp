//===- SafeTensors.cpp - Parameters in safetensors files ------------------===//
//
// Layout: 8 bytes of header length (little-endian), a JSON object of that
// length, then the data that its offsets refer to.
//
//===----------------------------------------------------------------------===//

#include "SafeTensors.h"
#include "Sha256.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::reference;

/// Larger headers are refused, as the format's own reader does.
static constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// Opens each component with O_NOFOLLOW below the one before, so that neither a
/// link nor `..` leads out of the folder, whatever happens to it meanwhile.
static int openBelow(llvm::StringRef directory, llvm::StringRef path,
                     std::string &reason) {
  llvm::SmallVector<llvm::StringRef> components;
  path.split(components, '/');
  for (llvm::StringRef component : components)
    if (component.empty() || component == "." || component == ".." ||
        component.contains('\0')) {
      reason = "the path is not a plain relative one";
      return -1;
    }
  std::string base = directory.empty() ? "." : directory.str();
  int fd = ::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (size_t i = 0; fd >= 0 && i < components.size(); ++i) {
    bool last = i + 1 == components.size();
    int flags = O_NOFOLLOW | O_CLOEXEC |
                (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY);
    int next = ::openat(fd, components[i].str().c_str(), flags);
    int error = errno;
    ::close(fd);
    errno = error;
    fd = next;
  }
  if (fd < 0) {
    reason = errno == ELOOP || errno == ENOTDIR
                 ? "a part of the path is a link or no folder"
                 : std::strerror(errno);
    return -1;
  }
  struct stat status;
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    reason = "it is no regular file";
    ::close(fd);
    return -1;
  }
  return fd;
}

/// Reads exactly `size` bytes from `offset`.
static bool readFully(int fd, uint64_t offset, char *to, uint64_t size) {
  while (size > 0) {
    ssize_t got = ::pread(fd, to, size, offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    to += got;
    offset += got;
    size -= got;
  }
  return true;
}

llvm::Expected<std::unique_ptr<SafeTensorsFile>>
SafeTensorsFile::open(llvm::StringRef directory, llvm::StringRef path) {
  std::string reason;
  int fd = openBelow(directory, path, reason);
  if (fd < 0)
    return fail(FailureKind::Program,
                "cannot open '" + path + "' in '" +
                    (directory.empty() ? "." : directory) + "': " + reason +
                    "; put the weights beside the module");
  std::unique_ptr<SafeTensorsFile> file(new SafeTensorsFile(fd, path.str()));
  if (llvm::Error error = file->readHeader())
    return std::move(error);
  return file;
}

SafeTensorsFile::~SafeTensorsFile() { ::close(fd); }

llvm::Error SafeTensorsFile::failure(const llvm::Twine &message) const {
  return fail(FailureKind::Program, "'" + name + "': " + message +
                                        "; the file is damaged or not the "
                                        "one the module was made with");
}

/// The parser recurses on nesting; a header nests three deep.
static bool nestsTooDeep(llvm::StringRef json) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '{' || c == '[') {
      if (++depth > 8)
        return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

llvm::Error SafeTensorsFile::readHeader() {
  struct stat status;
  if (::fstat(fd, &status) != 0)
    return failure("cannot get its size");
  uint64_t fileSize = status.st_size;
  unsigned char prefix[8];
  if (fileSize < 8 || !readFully(fd, 0, reinterpret_cast<char *>(prefix), 8))
    return failure("it has no header");
  uint64_t headerSize = 0;
  for (int i = 7; i >= 0; --i)
    headerSize = headerSize << 8 | prefix[i];
  if (headerSize > fileSize - 8 || headerSize > kMaxHeaderBytes)
    return failure("its header of " + llvm::Twine(headerSize) +
                   " bytes does not fit");
  std::string header(headerSize, '\0');
  if (!readFully(fd, 8, header.data(), headerSize))
    return failure("its header cannot be read");
  dataStart = 8 + headerSize;
  dataSize = fileSize - dataStart;

  if (nestsTooDeep(header))
    return failure("its header nests too deep");
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(header);
  if (!json)
    return failure("its header is no JSON: " +
                   llvm::toString(json.takeError()));
  const llvm::json::Object *object = json->getAsObject();
  if (!object)
    return failure("its header is no JSON object");
  for (const auto &[key, value] : *object) {
    llvm::StringRef tensorName = key;
    if (tensorName == "__metadata__")
      continue;
    const llvm::json::Object *fields = value.getAsObject();
    auto type = fields ? fields->getString("dtype") : std::nullopt;
    const auto *sizes = fields ? fields->getArray("shape") : nullptr;
    const auto *offsets = fields ? fields->getArray("data_offsets") : nullptr;
    if (!type || !sizes || !offsets || offsets->size() != 2)
      return failure("the entry of '" + tensorName + "' is incomplete");
    Entry entry;
    entry.type = type->str();
    for (const llvm::json::Value &size : *sizes) {
      std::optional<int64_t> number = size.getAsInteger();
      if (!number || *number < 0)
        return failure("the shape of '" + tensorName + "' is no list of sizes");
      entry.shape.push_back(*number);
    }
    std::optional<int64_t> begin = (*offsets)[0].getAsInteger();
    std::optional<int64_t> end = (*offsets)[1].getAsInteger();
    if (!begin || !end || *begin < 0 || *end < *begin ||
        static_cast<uint64_t>(*end) > dataSize)
      return failure("the bytes of '" + tensorName +
                     "' lie outside of the file");
    entry.begin = *begin;
    entry.end = *end;
    entries.emplace(tensorName.str(), std::move(entry));
  }
  return llvm::Error::success();
}

static llvm::StringRef getTypeName(ElementKind kind) {
  static constexpr const char *names[] = {"F64",  "F32", "F16", "BF16",
                                          "BOOL", "I8",  "I32", "I64"};
  return names[static_cast<unsigned>(kind)];
}

llvm::Expected<Tensor>
SafeTensorsFile::read(llvm::StringRef key, ElementKind kind,
                      llvm::ArrayRef<int64_t> shape, llvm::StringRef sha256,
                      std::shared_ptr<MemoryBudget> budget) const {
  auto it = entries.find(key.str());
  if (it == entries.end())
    return failure("it has no tensor '" + key + "'");
  const Entry &entry = it->second;
  if (entry.type != getTypeName(kind) || llvm::ArrayRef(entry.shape) != shape)
    return failure("'" + key + "' is " + entry.type + " " +
                   toString(entry.shape) + ", the module needs " +
                   getTypeName(kind) + " " + toString(shape));
  std::optional<int64_t> count = getNumElements(shape);
  uint64_t size = entry.end - entry.begin;
  if (!count || size % getByteSize(kind) != 0 ||
      size / getByteSize(kind) != static_cast<uint64_t>(*count))
    return failure("'" + key + "' has " + llvm::Twine(size) +
                   " bytes, which is not what its shape takes");
  if (budget && size > budget->getLimit())
    return fail(FailureKind::Resources,
                "'" + key + "' of '" + name + "' takes " + llvm::Twine(size) +
                    " bytes, more than the memory limit; raise it");
  std::string bytes(size, '\0');
  if (!readFully(fd, dataStart + entry.begin, bytes.data(), size))
    return failure("the bytes of '" + key + "' cannot be read");
  if (!sha256.empty()) {
    // LLVM's own hash is wrong from 512 MiB on: it counts bits in 32 bits.
    rt::Expected<rt::Digest> hash = rt::sha256(bytes.data(), bytes.size());
    if (!hash.ok())
      return failure(hash.status().message());
    if (rt::toHex(*hash) != sha256.lower())
      return failure("the hash of '" + key + "' is " + rt::toHex(*hash) +
                     ", the module says " + sha256);
  }
  return Tensor::fromBytes(kind, shape, bytes, std::move(budget));
}

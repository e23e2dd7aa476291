//===- Npy.cpp - Tensors in .npy files ------------------------------------===//
//
// A tiny grammar for the header (a Python dict literal with exactly the keys
// descr, fortran_order and shape), not an evaluator: no pickles, no objects.
//
//===----------------------------------------------------------------------===//
#include "Npy.h"
#include "Checked.h"
#include "Text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;

static constexpr size_t kMaxHeader = 64 << 10;

namespace {

/// Reads the header's dict.
class HeaderParser {
public:
  HeaderParser(const char *begin, const char *end) : at(begin), end(end) {}

  bool parse();

  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;

private:
  void skipSpace() {
    while (at != end && (*at == ' ' || *at == '\n' || *at == '\t'))
      ++at;
  }
  bool consume(char c) {
    skipSpace();
    if (at == end || *at != c)
      return false;
    ++at;
    return true;
  }
  bool consumeWord(const char *word) {
    skipSpace();
    size_t length = std::strlen(word);
    if (size_t(end - at) < length || std::memcmp(at, word, length) != 0)
      return false;
    at += length;
    return true;
  }
  bool parseString(std::string &value) {
    skipSpace();
    if (at == end || (*at != '\'' && *at != '"'))
      return false;
    char quote = *at++;
    const char *start = at;
    while (at != end && *at != quote && *at != '\\')
      ++at;
    if (at == end || *at != quote)
      return false;
    value.assign(start, at++);
    return true;
  }
  bool parseNumber(int64_t &value) {
    skipSpace();
    if (at == end || *at < '0' || *at > '9')
      return false;
    value = 0;
    for (; at != end && *at >= '0' && *at <= '9'; ++at) {
      auto next = checkedMul<int64_t>(value, 10);
      next = next ? checkedAdd<int64_t>(*next, *at - '0') : next;
      if (!next)
        return false;
      value = *next;
    }
    if (at != end && *at == 'L') // written by old versions
      ++at;
    return true;
  }
  bool parseShape() {
    if (!consume('('))
      return false;
    while (!consume(')')) {
      int64_t size;
      if (shape.size() == 32 || !parseNumber(size))
        return false;
      shape.push_back(size);
      if (!consume(',')) {
        // A one-element tuple needs its comma; longer ones may end without.
        return shape.size() > 1 && consume(')');
      }
    }
    return true;
  }

  const char *at, *end;
};

} // namespace

bool HeaderParser::parse() {
  bool hasDescr = false, hasOrder = false, hasShape = false;
  if (!consume('{'))
    return false;
  while (!consume('}')) {
    std::string key;
    if (!parseString(key) || !consume(':'))
      return false;
    if (key == "descr" && !hasDescr)
      hasDescr = parseString(descr);
    else if (key == "fortran_order" && !hasOrder)
      hasOrder = consumeWord("False") || (fortran = consumeWord("True"));
    else if (key == "shape" && !hasShape)
      hasShape = parseShape();
    else
      return false;
    if (!consume(',')) {
      if (!consume('}'))
        return false;
      break;
    }
  }
  skipSpace();
  return at == end && hasDescr && hasOrder && hasShape;
}

static bool dtypeOf(const std::string &descr, DType &dtype) {
  struct Entry {
    const char *descr;
    DType dtype;
  };
  static const Entry table[] = {
      {"<f8", DType::F64},  {"<f4", DType::F32},  {"<f2", DType::F16},
      {"<u2", DType::BF16}, {"<V2", DType::BF16}, {"|V2", DType::BF16},
      {"|b1", DType::I1},   {"|i1", DType::I8},   {"<i4", DType::I32},
      {"<i8", DType::I64},
  };
  for (const Entry &entry : table)
    if (descr == entry.descr) {
      dtype = entry.dtype;
      return true;
    }
  return false;
}

/// Reorders column-major elements to row-major.
static void fromFortran(Tensor &tensor) {
  size_t rank = tensor.shape.size(), element = elementSize(tensor.dtype);
  size_t count = tensor.bytes.size() / element;
  std::vector<uint8_t> result(tensor.bytes.size());
  std::vector<int64_t> index(rank);
  std::vector<size_t> strides(rank, 1);
  for (size_t i = 1; i < rank; ++i)
    strides[i] = strides[i - 1] * size_t(tensor.shape[i - 1]);
  size_t source = 0;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&result[i * element], &tensor.bytes[source * element], element);
    for (size_t d = rank; d-- > 0;) {
      source += strides[d];
      if (++index[d] < tensor.shape[d])
        break;
      source -= strides[d] * size_t(tensor.shape[d]);
      index[d] = 0;
    }
  }
  tensor.bytes = std::move(result);
}

Expected<Tensor> fusion::rt::parseNpy(const uint8_t *data, size_t size,
                                      const std::string &name) {
  auto bad = [&](const std::string &what) {
    return Status(Code::Usage, "'" + escape(name) + "': " + what);
  };
  if (size < 10 || std::memcmp(data, "\x93NUMPY", 6) != 0)
    return bad("not a .npy file");
  if ((data[6] != 1 && data[6] != 2) || data[7] != 0)
    return bad(".npy format " + std::to_string(data[6]) + "." +
               std::to_string(data[7]) + " is not supported (1.0 and 2.0 are)");
  size_t start = data[6] == 1 ? 10 : 12;
  if (size < start)
    return bad("truncated .npy header");
  uint64_t length = data[8] | uint64_t(data[9]) << 8;
  if (data[6] == 2)
    length |= uint64_t(data[10]) << 16 | uint64_t(data[11]) << 24;
  if (length > kMaxHeader)
    return bad(".npy header is larger than 64 KiB");
  if (length > size - start)
    return bad("truncated .npy header");
  const char *text = reinterpret_cast<const char *>(data) + start;
  HeaderParser parser(text, text + length);
  if (!parser.parse())
    return bad("malformed .npy header");
  Tensor tensor;
  if (!dtypeOf(parser.descr, tensor.dtype))
    return bad("element type '" + escape(parser.descr) +
               "' is not supported; use f8 f4 f2 i1 i4 i8 b1, or u2 for bf16");
  std::vector<Affine> dims;
  for (int64_t dim : parser.shape)
    dims.push_back({0, dim});
  auto bytes = byteCount(dims, tensor.dtype, 1);
  if (!bytes)
    return bad("shape is too large");
  uint64_t available = size - start - length;
  if (*bytes != available)
    return bad(std::to_string(available) + " bytes of data, the shape needs " +
               std::to_string(*bytes));
  tensor.shape = parser.shape;
  tensor.bytes.assign(data + start + length, data + size);
  if (tensor.dtype == DType::I1)
    for (uint8_t &byte : tensor.bytes)
      byte = byte != 0;
  if (parser.fortran && tensor.shape.size() > 1)
    fromFortran(tensor);
  return tensor;
}

std::vector<uint8_t> fusion::rt::encodeNpy(const Tensor &tensor) {
  static const char *const descrs[] = {"<f8", "<f4", "<f2", "<u2",
                                       "|b1", "|i1", "<i4", "<i8"};
  std::string header = std::string("{'descr': '") +
                       descrs[uint8_t(tensor.dtype)] +
                       "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    header += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  header += tensor.shape.size() == 1 ? ",), }" : "), }";
  // Data starts at a multiple of 64; the header ends in a newline.
  while ((10 + header.size() + 1) % 64 != 0)
    header += ' ';
  header += '\n';
  std::vector<uint8_t> bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  bytes.push_back(uint8_t(header.size()));
  bytes.push_back(uint8_t(header.size() >> 8));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  return bytes;
}

Expected<std::vector<uint8_t>>
fusion::rt::readWholeFile(const std::string &path) {
  auto failed = [&](int code) {
    bool isLimit = code == ENOMEM || code == EMFILE || code == ENFILE;
    return Status(isLimit ? Code::Resources : Code::Usage,
                  "can't read '" + escape(path) + "': " + std::strerror(code));
  };
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return failed(errno);
  struct Closer {
    int file;
    ~Closer() { close(file); }
  } closer{file};
  struct stat info;
  if (fstat(file, &info) != 0)
    return failed(errno);
  if (!S_ISREG(info.st_mode))
    return Status(Code::Usage, "'" + escape(path) + "': not a regular file");
  std::vector<uint8_t> bytes(size_t(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = read(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return failed(errno);
    if (count == 0)
      return Status(Code::Usage,
                    "'" + escape(path) + "': became shorter while it was read");
    done += size_t(count);
  }
  return bytes;
}

Expected<Tensor> fusion::rt::readNpyFile(const std::string &path) {
  auto bytes = readWholeFile(path);
  if (!bytes)
    return bytes.status();
  return parseNpy(bytes->data(), bytes->size(), path);
}

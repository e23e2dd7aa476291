//===- Npy.cpp - Tensors in .npy files ------------------------------------===//
//
// The header is a Python dictionary of three known keys; it is scanned, and
// whatever does not look exactly so is refused.
//
//===----------------------------------------------------------------------===//

#include "fusion/Reference/Npy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace fusion::reference;

static constexpr llvm::StringLiteral kMagic("\x93NUMPY");
static constexpr size_t kMaxHeaderBytes = 64 * 1024;

/// NumPy's name of the type that a kind is stored as.
static llvm::StringRef getDescr(ElementKind kind) {
  static constexpr const char *names[] = {"<f8", "<f4", "<f2", "<u2",
                                          "|b1", "|i1", "<i4", "<i8"};
  return names[static_cast<unsigned>(kind)];
}

/// bf16 has no name in NumPy; extension types write it as two raw bytes.
static bool isStoredAs(llvm::StringRef descr, ElementKind kind) {
  return descr == getDescr(kind) ||
         (kind == ElementKind::BF16 && (descr == "<V2" || descr == "|V2"));
}

namespace {
struct Header {
  llvm::StringRef descr;
  bool fortranOrder = false;
  Shape shape;
};

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
class HeaderScanner {
public:
  explicit HeaderScanner(llvm::StringRef text) : text(text) {}

  bool scan(Header &header) {
    unsigned seen = 0; // a bit for each key
    if (!take("{"))
      return false;
    while (!take("}")) {
      llvm::StringRef key;
      if (!takeString(key) || !take(":"))
        return false;
      bool good;
      if (key == "descr") {
        good = takeString(header.descr);
        seen |= 1;
      } else if (key == "fortran_order") {
        header.fortranOrder = take("True");
        good = header.fortranOrder || take("False");
        seen |= 2;
      } else if (key == "shape") {
        good = takeShape(header.shape);
        seen |= 4;
      } else {
        return false;
      }
      if (!good || (!take(",") && !text.ltrim().starts_with("}")))
        return false;
    }
    return seen == 7 && text.trim().empty();
  }

private:
  bool take(llvm::StringRef token) {
    text = text.ltrim();
    return text.consume_front(token);
  }

  bool takeString(llvm::StringRef &value) {
    text = text.ltrim();
    if (!text.starts_with("'") && !text.starts_with("\""))
      return false;
    size_t end = text.find(text.front(), 1);
    if (end == llvm::StringRef::npos)
      return false;
    value = text.slice(1, end);
    text = text.drop_front(end + 1);
    return true;
  }

  bool takeShape(Shape &shape) {
    if (!take("("))
      return false;
    shape.clear();
    while (!take(")")) {
      int64_t size;
      text = text.ltrim();
      if (text.consumeInteger(10, size) || size < 0)
        return false;
      shape.push_back(size);
      if (!take(",") && !text.ltrim().starts_with(")"))
        return false;
    }
    return true;
  }

  llvm::StringRef text;
};
} // namespace

/// Elements in column-major order under their row-major positions.
static llvm::Expected<Tensor>
fromColumnMajor(const Tensor &stored, std::shared_ptr<MemoryBudget> budget) {
  llvm::Expected<Tensor> tensor =
      Tensor::create(stored.getKind(), stored.getShape(), std::move(budget));
  if (!tensor)
    return tensor;
  Shape reversed(llvm::reverse(stored.getShape()));
  int64_t from = 0;
  forEachIndex(reversed, [&](llvm::ArrayRef<int64_t> index) {
    Shape target(llvm::reverse(index));
    tensor->setFrom(tensor->offsetOf(target), stored, from++);
  });
  return tensor;
}

llvm::Expected<Tensor>
fusion::reference::parseNpy(llvm::StringRef bytes, ElementKind kind,
                            llvm::StringRef where,
                            std::shared_ptr<MemoryBudget> budget) {
  auto failure = [&](const llvm::Twine &message) {
    return fail(FailureKind::Usage, "'" + where + "' " + message);
  };
  if (!bytes.consume_front(kMagic) || bytes.size() < 4)
    return failure("is no .npy file; write it with numpy.save");
  unsigned major = static_cast<uint8_t>(bytes[0]);
  if (major != 1 && major != 2)
    return failure("has .npy version " + llvm::Twine(major) +
                   "; versions 1 and 2 are read");
  unsigned lengthBytes = major == 1 ? 2 : 4;
  bytes = bytes.drop_front(2);
  if (bytes.size() < lengthBytes)
    return failure("is cut short in its header");
  size_t length = 0;
  for (unsigned i = 0; i < lengthBytes; ++i)
    length |= size_t(static_cast<uint8_t>(bytes[i])) << (8 * i);
  bytes = bytes.drop_front(lengthBytes);
  if (length > kMaxHeaderBytes || length > bytes.size())
    return failure("has a header of " + llvm::Twine(length) +
                   " bytes, which does not fit");
  Header header;
  if (!HeaderScanner(bytes.take_front(length)).scan(header))
    return failure("has a header that is not NumPy's");
  bytes = bytes.drop_front(length);
  if (!isStoredAs(header.descr, kind))
    return failure("has elements of type '" + header.descr + "', " +
                   getName(kind) + " needs '" + getDescr(kind) + "'");
  std::optional<int64_t> count = getNumElements(header.shape);
  if (!count || bytes.size() % getByteSize(kind) != 0 ||
      bytes.size() / getByteSize(kind) != static_cast<size_t>(*count))
    return failure("has " + llvm::Twine(bytes.size()) +
                   " bytes of elements, which is not what " +
                   toString(header.shape) + " of " + getName(kind) + " takes");
  llvm::Expected<Tensor> tensor =
      Tensor::fromBytes(kind, header.shape, bytes, budget);
  if (!tensor || !header.fortranOrder)
    return tensor;
  return fromColumnMajor(*tensor, std::move(budget));
}

llvm::Expected<Tensor>
fusion::reference::readNpy(llvm::StringRef path, ElementKind kind,
                           std::shared_ptr<MemoryBudget> budget) {
  // A pipe would never end, a folder has no bytes.
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status))
    return fail(FailureKind::Usage,
                "cannot read '" + path + "': " + error.message());
  if (!llvm::sys::fs::is_regular_file(status))
    return fail(FailureKind::Usage,
                "cannot read '" + path + "': it is no regular file");
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail(FailureKind::Usage,
                "cannot read '" + path + "': " + buffer.getError().message());
  return parseNpy((*buffer)->getBuffer(), kind, path, std::move(budget));
}

/// Magic, version 1, and a header padded to a multiple of 64 bytes, as NumPy
/// writes it.
static std::string makeHeader(const Tensor &tensor) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "{'descr': '" << getDescr(tensor.getKind())
     << "', 'fortran_order': False, 'shape': (";
  llvm::interleave(tensor.getShape(), os, ", ");
  os << (tensor.getRank() == 1 ? ",), }" : "), }");
  size_t prefix = kMagic.size() + 2 + 2;
  text.append(63 - (prefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header = (kMagic + llvm::StringRef("\x01\x00", 2)).str();
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

llvm::Error fusion::reference::writeNpy(llvm::StringRef path,
                                        const Tensor &tensor) {
  auto failure = [&](const llvm::Twine &message) {
    return fail(FailureKind::Resources,
                "cannot write '" + path + "': " + message);
  };
  llvm::Expected<llvm::sys::fs::TempFile> file =
      llvm::sys::fs::TempFile::create(path + ".%%%%%%.tmp");
  if (!file)
    return failure(llvm::toString(file.takeError()));
  std::error_code error;
  {
    llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
    os << makeHeader(tensor);
    constexpr int64_t kPiece = 1 << 16; // elements
    for (int64_t i = 0; i < tensor.getNumElements(); i += kPiece) {
      std::string bytes;
      tensor.appendBytes(i, std::min(i + kPiece, tensor.getNumElements()),
                         bytes);
      os << bytes;
    }
    os.flush();
    error = os.error();
    os.clear_error();
  }
  if (error) {
    llvm::consumeError(file->discard());
    return failure(error.message());
  }
  if (llvm::Error problem = file->keep(path))
    return failure(llvm::toString(std::move(problem)));
  return llvm::Error::success();
}

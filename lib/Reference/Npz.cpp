//===- Npz.cpp - Zip archives of .npy files -------------------------------===//
//
// Reads what numpy.savez and savez_compressed write. The central directory at
// the end of the archive says where members are; each is checked against its
// sizes and its CRC-32. ZIP64 archives (4 GiB and more) are refused.
//
//===----------------------------------------------------------------------===//

#include "fusion/Reference/Npy.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <zlib.h>

using namespace fusion::reference;
using llvm::support::endian::read16le;
using llvm::support::endian::read32le;

// Sizes and signatures of the records, from PKWARE's APPNOTE, section 4.3.
static constexpr size_t kEndSize = 22, kEntrySize = 46, kLocalSize = 30;
static constexpr uint32_t kEndSignature = 0x06054b50;
static constexpr uint32_t kEntrySignature = 0x02014b50;
static constexpr uint32_t kLocalSignature = 0x04034b50;

/// Inflates raw deflate data to exactly `size` bytes.
static bool inflateTo(llvm::StringRef data, std::string &out) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return false;
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  int status = inflate(&stream, Z_FINISH);
  bool good = status == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return good;
}

/// The member that the directory's entry at `entry` describes, or nullopt if it
/// is damaged.
static std::optional<std::string> readMember(llvm::StringRef file,
                                             const char *entry) {
  uint16_t flags = read16le(entry + 8), method = read16le(entry + 10);
  uint32_t crc = read32le(entry + 16);
  uint64_t packed = read32le(entry + 20), size = read32le(entry + 24);
  uint64_t local = read32le(entry + 42);
  bool encrypted = flags & 1;
  if (encrypted || (method != 0 && method != 8) ||
      local + kLocalSize > file.size())
    return std::nullopt;
  const char *header = file.data() + local;
  uint64_t start =
      local + kLocalSize + read16le(header + 26) + read16le(header + 28);
  if (read32le(header) != kLocalSignature || start > file.size() ||
      packed > file.size() - start)
    return std::nullopt;
  llvm::StringRef data = file.substr(start, packed);
  // Deflate packs at most 1032 to 1: a larger size is a lie, not worth memory.
  if (method == 0 ? size != packed : size / 1040 > packed)
    return std::nullopt;
  std::string bytes(size, '\0');
  if (method == 0)
    bytes = data.str();
  else if (!inflateTo(data, bytes))
    return std::nullopt;
  uint32_t actual = crc32(0, reinterpret_cast<const Bytef *>(bytes.data()),
                          static_cast<uInt>(bytes.size()));
  if (actual != crc)
    return std::nullopt;
  return bytes;
}

llvm::Expected<std::map<std::string, std::string>>
fusion::reference::readNpz(llvm::StringRef path) {
  auto failure = [&](const llvm::Twine &message) {
    return fail(FailureKind::Usage, "'" + path + "' " + message);
  };
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status))
    return failure("cannot be read: " + error.message());
  if (!llvm::sys::fs::is_regular_file(status))
    return failure("is no regular file");
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return failure("cannot be read: " + buffer.getError().message());
  llvm::StringRef file = (*buffer)->getBuffer();

  // The end record is the last thing but for a comment of at most 64 KiB.
  size_t end = llvm::StringRef::npos;
  if (file.size() >= kEndSize)
    for (size_t back = kEndSize;
         back <= std::min<size_t>(file.size(), kEndSize + 0xffff); ++back)
      if (read32le(file.data() + file.size() - back) == kEndSignature) {
        end = file.size() - back;
        break;
      }
  if (end == llvm::StringRef::npos)
    return failure("is no .npz archive; write it with numpy.savez");
  unsigned entries = read16le(file.data() + end + 10);
  uint64_t at = read32le(file.data() + end + 16);
  if (entries == 0xffff || at == 0xffffffff)
    return failure("is a ZIP64 archive; split it or use .npy files");

  std::map<std::string, std::string> members;
  uint64_t total = 0;
  for (unsigned i = 0; i < entries; ++i) {
    if (at + kEntrySize > end || read32le(file.data() + at) != kEntrySignature)
      return failure("has a damaged directory");
    const char *entry = file.data() + at;
    uint64_t nameSize = read16le(entry + 28);
    uint64_t next = at + kEntrySize + nameSize + read16le(entry + 30) +
                    read16le(entry + 32);
    if (next > end)
      return failure("has a damaged directory");
    llvm::StringRef name = file.substr(at + kEntrySize, nameSize);
    total += read32le(entry + 24);
    if (total > 0xffffffff)
      return failure("unpacks to more than 4 GiB; use .npy files");
    std::optional<std::string> bytes = readMember(file, entry);
    if (!bytes)
      return failure("has a damaged member '" + name + "'");
    name.consume_back(".npy");
    members[name.str()] = std::move(*bytes);
    at = next;
  }
  return members;
}

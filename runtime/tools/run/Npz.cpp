//===- Npz.cpp - Tensors in .npz files ------------------------------------===//
//
// Reads the central directory of a zip archive, then each member, stored or
// deflated (zlib). Sizes are checked before memory is allocated and a member
// may not grow more than a thousandfold. Zip64 members are understood.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Npy.h"
#include "Text.h"

#include <cstring>
#include <zlib.h>

using namespace fusion::rt;

namespace {

uint64_t get(const uint8_t *at, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i)
    value |= uint64_t(at[i]) << (8 * i);
  return value;
}

class ZipReader {
public:
  ZipReader(const std::vector<uint8_t> &file, const std::string &path)
      : file(file), path(path) {}

  Expected<std::map<std::string, Tensor>> read();

private:
  Status bad(const std::string &what) {
    return Status(Code::Usage, "'" + escape(path) + "': " + what);
  }
  bool has(uint64_t offset, uint64_t size) const {
    return rangeFits(offset, size, file.size());
  }
  Status readMember(uint64_t &at, std::map<std::string, Tensor> &tensors);
  Expected<std::vector<uint8_t>> inflateMember(uint64_t offset,
                                               uint64_t packedSize,
                                               uint64_t size, unsigned method,
                                               const std::string &name);

  const std::vector<uint8_t> &file;
  const std::string &path;
};

} // namespace

Expected<std::vector<uint8_t>>
ZipReader::inflateMember(uint64_t offset, uint64_t packedSize, uint64_t size,
                         unsigned method, const std::string &name) {
  if (method == 0) {
    if (packedSize != size)
      return bad("member '" + escape(name) + "' is damaged");
    return std::vector<uint8_t>(file.begin() + long(offset),
                                file.begin() + long(offset + size));
  }
  if (method != 8)
    return bad("member '" + escape(name) + "' uses an unknown compression");
  // Deflate can't do better than 1032:1.
  if (size / 1032 > packedSize + 1 || size > UINT32_MAX ||
      packedSize > UINT32_MAX)
    return bad("member '" + escape(name) + "' has an impossible size");
  std::vector<uint8_t> result(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return Status(Code::Resources, "out of memory while inflating");
  stream.next_in = const_cast<Bytef *>(file.data() + offset);
  stream.avail_in = uInt(packedSize);
  stream.next_out = result.data();
  stream.avail_out = uInt(size);
  int outcome = inflate(&stream, Z_FINISH);
  bool complete = outcome == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  if (!complete)
    return bad("member '" + escape(name) + "' is damaged");
  return result;
}

Status ZipReader::readMember(uint64_t &at,
                             std::map<std::string, Tensor> &tensors) {
  if (!has(at, 46) || get(&file[at], 4) != 0x02014b50)
    return bad("zip directory is damaged");
  const uint8_t *entry = &file[at];
  unsigned flags = unsigned(get(entry + 8, 2));
  unsigned method = unsigned(get(entry + 10, 2));
  uint64_t checksum = get(entry + 16, 4);
  uint64_t packedSize = get(entry + 20, 4), size = get(entry + 24, 4);
  uint64_t nameSize = get(entry + 28, 2), extraSize = get(entry + 30, 2);
  uint64_t commentSize = get(entry + 32, 2), offset = get(entry + 42, 4);
  if (!has(at, 46 + nameSize + extraSize + commentSize))
    return bad("zip directory is damaged");
  std::string name(reinterpret_cast<const char *>(entry) + 46, nameSize);
  // The Zip64 extra field (id 1) holds, in order, the fields that are all ones.
  const uint8_t *extra = entry + 46 + nameSize;
  for (uint64_t i = 0; i + 4 <= extraSize;) {
    uint64_t id = get(extra + i, 2), length = get(extra + i + 2, 2);
    if (length > extraSize - i - 4)
      return bad("zip directory is damaged");
    uint64_t read = 0;
    for (uint64_t *field : {&size, &packedSize, &offset})
      if (id == 1 && *field == UINT32_MAX && read + 8 <= length) {
        *field = get(extra + i + 4 + read, 8);
        read += 8;
      }
    i += 4 + length;
  }
  at += 46 + nameSize + extraSize + commentSize;
  if (flags & 1)
    return bad("member '" + escape(name) + "' is encrypted");
  if (!has(offset, 30) || get(&file[offset], 4) != 0x04034b50)
    return bad("member '" + escape(name) + "' is damaged");
  uint64_t skip = 30 + get(&file[offset + 26], 2) + get(&file[offset + 28], 2);
  if (!has(offset, skip) || !has(offset + skip, packedSize))
    return bad("member '" + escape(name) + "' is outside the file");
  auto bytes = inflateMember(offset + skip, packedSize, size, method, name);
  if (!bytes)
    return bytes.status();
  if (crc32_z(0, bytes->data(), bytes->size()) != checksum)
    return bad("member '" + escape(name) + "' is damaged (checksum)");
  auto tensor = parseNpy(bytes->data(), bytes->size(), path + ":" + name);
  if (!tensor)
    return tensor.status();
  if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0)
    name.resize(name.size() - 4);
  if (!tensors.emplace(name, std::move(*tensor)).second)
    return bad("member '" + escape(name) + "' appears twice");
  return {};
}

Expected<std::map<std::string, Tensor>> ZipReader::read() {
  // The end record is the last thing in the file but for a comment.
  if (file.size() < 22)
    return bad("not a .npz file");
  uint64_t end = file.size() - 22;
  uint64_t lowest = end > 65535 ? end - 65535 : 0;
  while (get(&file[end], 4) != 0x06054b50) {
    if (end == lowest)
      return bad("not a .npz file");
    --end;
  }
  uint64_t count = get(&file[end + 10], 2), at = get(&file[end + 16], 4);
  if (count == UINT16_MAX || at == UINT32_MAX) {
    if (end < 20 || get(&file[end - 20], 4) != 0x07064b50)
      return bad("zip directory is damaged");
    uint64_t record = get(&file[end - 12], 8);
    if (!has(record, 56) || get(&file[record], 4) != 0x06064b50)
      return bad("zip directory is damaged");
    count = get(&file[record + 32], 8);
    at = get(&file[record + 48], 8);
  }
  std::map<std::string, Tensor> tensors;
  for (uint64_t i = 0; i < count; ++i)
    if (Status status = readMember(at, tensors); !status.ok())
      return status;
  return tensors;
}

Expected<std::map<std::string, Tensor>>
fusion::rt::readNpzFile(const std::string &path) {
  auto bytes = readWholeFile(path);
  if (!bytes)
    return bytes.status();
  return ZipReader(*bytes, path).read();
}

//===- ModuleWriter.cpp - Module structs -> bytes and files ---------------===//
//
// Lays the sections out (ModuleFormat.h), hashes them and writes them. A file
// is only ever replaced as a whole.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "HeaderCodec.h"
#include "ModuleFile.h"
#include "ModuleFormat.h"
#include "Process.h"
#include "Text.h"
#include "VerifyModule.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::format;

namespace {

/// A part of a file: bytes followed by zeros up to the alignment.
struct Piece {
  const uint8_t *data;
  uint64_t size;
};

/// Everything a file consists of; `pieces` point into the module and into
/// `front` and `header`.
struct Layout {
  std::vector<uint8_t> front; ///< preamble and section table
  std::vector<uint8_t> header;
  std::vector<Piece> pieces;
  uint64_t totalSize = 0;
};

void put(uint8_t *at, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i)
    at[i] = uint8_t(value >> (8 * i));
}

uint64_t paddingAfter(uint64_t size) { return -size % kAlignment; }

} // namespace

static Status layOut(const Module &module, Layout &layout) {
  FUSION_RT_TRY(verifyModule(module, module.constants.size()));
  auto header = encodeHeader(module);
  if (!header)
    return header.status();
  layout.header = std::move(*header);

  struct Section {
    SectionKind kind;
    Piece piece;
  };
  std::vector<Section> sections;
  auto add = [&](SectionKind kind, const std::vector<uint8_t> &bytes) {
    if (!bytes.empty())
      sections.push_back({kind, {bytes.data(), bytes.size()}});
  };
  add(SectionKind::Header, layout.header);
  add(SectionKind::NativeCode, module.nativeCode);
  add(SectionKind::Constants, module.constants);
  add(SectionKind::DeviceCode, module.deviceCode);
  add(SectionKind::Ptx, module.ptx);

  layout.front.assign(kPreambleSize + kEntrySize * sections.size(), 0);
  layout.pieces.push_back({layout.front.data(), layout.front.size()});
  uint64_t offset = layout.front.size();
  uint8_t *entry = layout.front.data() + kPreambleSize;
  for (const Section &section : sections) {
    auto digest = sha256(section.piece.data, section.piece.size);
    if (!digest)
      return digest.status();
    put(entry, uint64_t(section.kind), 4);
    put(entry + 8, offset, 8);
    put(entry + 16, section.piece.size, 8);
    std::memcpy(entry + 32, digest->data(), digest->size());
    entry += kEntrySize;
    layout.pieces.push_back(section.piece);
    // Sizes of vectors in memory: their padded sum can't wrap 64 bits.
    offset += section.piece.size + paddingAfter(section.piece.size);
  }
  layout.totalSize = offset;

  uint8_t *preamble = layout.front.data();
  std::memcpy(preamble, kMagic, sizeof(kMagic));
  put(preamble + 8, kMajor, 2);
  put(preamble + 10, kMinor, 2);
  put(preamble + 12, sections.size(), 4);
  put(preamble + 16, layout.totalSize, 8);
  std::vector<uint8_t> hashed(preamble, preamble + kHashedPreamble);
  hashed.insert(hashed.end(), layout.front.begin() + kPreambleSize,
                layout.front.end());
  auto digest = sha256(hashed.data(), hashed.size());
  if (!digest)
    return digest.status();
  std::memcpy(preamble + kHashedPreamble, digest->data(), digest->size());
  return {};
}

Expected<std::vector<uint8_t>> fusion::rt::writeModule(const Module &module) {
  try {
    Layout layout;
    FUSION_RT_TRY(layOut(module, layout));
    std::vector<uint8_t> bytes;
    bytes.reserve(layout.totalSize);
    for (const Piece &piece : layout.pieces) {
      bytes.insert(bytes.end(), piece.data, piece.data + piece.size);
      bytes.resize(bytes.size() + paddingAfter(piece.size), 0);
    }
    return bytes;
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while writing a module");
  }
}

//===----------------------------------------------------------------------===//
// Atomic files
//===----------------------------------------------------------------------===//

namespace {

/// The new content of a file. It has no name until it is whole, so that nothing
/// stays behind even if the process is killed; on a file system that knows no
/// such files it is a temporary file beside the target.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &path) : target(path) {
    size_t slash = target.rfind('/');
    directory = slash == std::string::npos ? "."
                : slash == 0               ? "/"
                                           : target.substr(0, slash);
  }
  ~TemporaryFile() {
    if (descriptor >= 0)
      close(descriptor);
    if (!name.empty())
      unlink(name.c_str());
    setTemporaryFile(nullptr);
  }

  Status open() {
    struct stat info;
    if (lstat(target.c_str(), &info) == 0) {
      if (S_ISLNK(info.st_mode))
        return Status(Code::Usage, "'" + escape(target) +
                                       "': is a symbolic link; name the file "
                                       "itself or remove the link");
      if (!S_ISREG(info.st_mode))
        return Status(Code::Usage, "'" + escape(target) +
                                       "': exists and is not a regular file");
      keepMode = true;
      mode = info.st_mode & 0777;
    }
    // 0666 lets the umask decide, as for any file a user makes.
    if (access("/proc/self/fd", X_OK) == 0)
      descriptor =
          ::open(directory.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (descriptor >= 0)
      return {};
    return giveName("can't create a temporary file beside", [&] {
      descriptor =
          ::open(name.c_str(),
                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      return descriptor >= 0;
    });
  }

  Status write(const uint8_t *data, uint64_t size) {
    while (size > 0) {
      ssize_t written = ::write(descriptor, data, size);
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        return failed("can't write");
      data += written;
      size -= uint64_t(written);
    }
    return {};
  }

  Status commit(bool synced) {
    if (keepMode && fchmod(descriptor, mode) != 0)
      return failed("can't set the mode of");
    if (synced && fsync(descriptor) != 0)
      return failed("can't sync");
    if (name.empty())
      FUSION_RT_TRY(giveName("can't name the temporary file of", [&] {
        std::string self = "/proc/self/fd/" + std::to_string(descriptor);
        return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(),
                      AT_SYMLINK_FOLLOW) == 0;
      }));
    int closing = descriptor;
    descriptor = -1;
    if (close(closing) != 0)
      return failed("can't close");
    if (rename(name.c_str(), target.c_str()) != 0)
      return failed("can't rename the temporary file to");
    setTemporaryFile(nullptr);
    name.clear();
    if (!synced)
      return {};
    // The rename is durable once its directory is. A directory that can't be
    // opened or synced (some file systems) doesn't undo a complete file.
    int parent = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0) {
      fsync(parent);
      close(parent);
    }
    return {};
  }

private:
  /// Sets `name` to a fresh one beside the target and calls `make`, which makes
  /// a file of that name or fails with errno.
  template <typename Make> Status giveName(const char *what, Make make) {
    for (int attempt = 0; attempt < 16; ++attempt) {
      uint64_t random = 0;
      if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return failed("can't get random bytes for");
      setTemporaryFile(nullptr);
      name = target + "." + std::to_string(random) + ".tmp";
      setTemporaryFile(name.c_str());
      if (make())
        return {};
      if (errno != EEXIST)
        break;
    }
    int code = errno;
    setTemporaryFile(nullptr);
    name.clear();
    errno = code;
    return failed(what);
  }

  Status failed(const char *what) {
    int code = errno;
    bool full = code == ENOSPC || code == EDQUOT || code == EFBIG ||
                code == ENOMEM || code == EMFILE || code == ENFILE;
    return Status(full ? Code::Resources : Code::Usage,
                  std::string(what) + " '" + escape(target) +
                      "': " + std::strerror(code) +
                      (full ? "; free space or choose another place"
                            : "; check the path and its permissions"));
  }

  std::string target, directory, name;
  int descriptor = -1;
  bool keepMode = false;
  mode_t mode = 0;
};

} // namespace

static Status writePieces(const std::string &path,
                          const std::vector<Piece> &pieces, bool padded,
                          bool synced) {
  static const uint8_t zeros[kAlignment] = {};
  TemporaryFile file(path);
  FUSION_RT_TRY(file.open());
  for (const Piece &piece : pieces) {
    FUSION_RT_TRY(file.write(piece.data, piece.size));
    if (padded)
      FUSION_RT_TRY(file.write(zeros, paddingAfter(piece.size)));
  }
  return file.commit(synced);
}

Status fusion::rt::writeModuleFile(const Module &module,
                                   const std::string &path) {
  try {
    Layout layout;
    FUSION_RT_TRY(layOut(module, layout));
    return writePieces(path, layout.pieces, /*padded=*/true, /*synced=*/true);
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while writing a module");
  }
}

Status fusion::rt::writeFileAtomically(const std::string &path,
                                       const void *data, size_t size,
                                       bool synced) {
  try {
    return writePieces(path, {{static_cast<const uint8_t *>(data), size}},
                       /*padded=*/false, synced);
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while writing a file");
  }
}

//===- ModuleReader.cpp - Bytes and files -> verified modules -------------===//
//
// Checks, in this order: preamble, section table, padding, hashes, header
// encoding, program, schedule. Nothing is used before all of it holds. Rule
// names in the messages (M1...) are stable and tested.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "HeaderCodec.h"
#include "Limits.h"
#include "ModuleFile.h"
#include "ModuleFormat.h"
#include "Text.h"
#include "VerifyModule.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::format;

static uint64_t get(const uint8_t *at, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i)
    value |= uint64_t(at[i]) << (8 * i);
  return value;
}

static Status reject(const char *rule, uint64_t offset,
                     const std::string &what) {
  return Status(Code::Rejected, "module file: " + what + " [" + rule +
                                    ", offset " + std::to_string(offset) + "]");
}

static const char *sectionName(uint32_t kind) {
  static const char *const names[] = {"header", "native code", "constants",
                                      "device code", "PTX"};
  return kind >= 1 && kind <= 5 ? names[kind - 1] : "unknown";
}

static bool allZero(const uint8_t *data, uint64_t size) {
  for (uint64_t i = 0; i < size; ++i)
    if (data[i] != 0)
      return false;
  return true;
}

static Status checkPreamble(const uint8_t *data, uint64_t size) {
  if (size < sizeof(kMagic) || std::memcmp(data, kMagic, sizeof(kMagic)) != 0)
    return reject("M1", 0,
                  "not a Fusion module (wrong magic); compile one with "
                  "fusion-compile");
  if (size < kPreambleSize)
    return reject("M2", size, "truncated inside the preamble");
  uint64_t major = get(data + 8, 2), minor = get(data + 10, 2);
  if (major != kMajor || minor > kMinor) {
    std::string version = std::to_string(major) + "." + std::to_string(minor);
    std::string ours = std::to_string(kMajor) + "." + std::to_string(kMinor);
    if (major < kMajor)
      return reject("M3", 8,
                    "format version " + version +
                        " is no longer supported, this runtime reads " +
                        std::to_string(kMajor) + ".0 to " + ours +
                        "; compile the model again");
    return reject(
        "M3", 8,
        "format version " + version + " needs runtime format >= " + version +
            ", this runtime reads up to " + ours + "; update the runtime");
  }
  uint64_t declared = get(data + 16, 8);
  if (declared != size)
    return reject("M4", 16,
                  declared > size ? "truncated: " + std::to_string(size) +
                                        " bytes of " + std::to_string(declared)
                                  : std::to_string(size - declared) +
                                        " bytes after the end of the module");
  if (get(data + 24, 8) != 0)
    return reject("M5", 24, "reserved bytes are not zero");
  return {};
}

/// Checks the section table and padding, fills `view.sections`; `kinds` gets
/// the sections' kinds.
static Status checkSections(const uint8_t *data, uint64_t size,
                            ModuleView &view, std::vector<uint32_t> &kinds) {
  uint64_t count = get(data + 12, 4);
  if (count == 0 || count > limits::kSections)
    return reject("M6", 12,
                  std::to_string(count) +
                      " sections, the format allows 1 to 64");
  uint64_t end = kPreambleSize + count * kEntrySize;
  if (end > size)
    return reject("M6", 12, "section table is longer than the file");

  std::vector<uint8_t> hashed(data, data + kHashedPreamble);
  hashed.insert(hashed.end(), data + kPreambleSize, data + end);
  auto digest = sha256(hashed.data(), hashed.size());
  if (!digest)
    return digest.status();
  if (std::memcmp(digest->data(), data + kHashedPreamble, 32) != 0)
    return reject("M7", kHashedPreamble, "damaged: preamble hash differs");
  view.digest = *digest;

  for (uint64_t i = 0; i < count; ++i) {
    uint64_t at = kPreambleSize + i * kEntrySize;
    const uint8_t *entry = data + at;
    uint32_t kind = uint32_t(get(entry, 4));
    uint64_t offset = get(entry + 8, 8), length = get(entry + 16, 8);
    if (get(entry + 4, 4) != 0 || get(entry + 24, 8) != 0)
      return reject("M5", at, "reserved bytes are not zero");
    if (kind < uint32_t(SectionKind::Header) ||
        kind > uint32_t(SectionKind::Ptx))
      return reject("M8", at, "unknown section kind " + std::to_string(kind));
    if (!kinds.empty() && kind <= kinds.back())
      return reject("M8", at, "sections are not in ascending order");
    if (length == 0)
      return reject("M9", at + 16, "empty section");
    if (offset != end)
      return reject("M9", at + 8,
                    "section does not start where the one before "
                    "it ends");
    if (!rangeFits(offset, length, size))
      return reject("M9", at + 16, "section reaches beyond the file");
    auto padded = checkedAlign(offset + length, kAlignment);
    if (!padded || *padded > size)
      return reject("M9", at + 16, "section's padding reaches beyond the file");
    if (!allZero(data + offset + length, *padded - offset - length))
      return reject("M10", offset + length, "padding is not zero");
    end = *padded;
    kinds.push_back(kind);
    SectionInfo info;
    info.name = sectionName(kind);
    info.offset = offset;
    info.size = length;
    std::memcpy(info.digest.data(), entry + 32, 32);
    view.sections.push_back(std::move(info));
  }
  if (end != size)
    return reject("M9", end, "bytes after the last section");
  if (kinds.front() != uint32_t(SectionKind::Header))
    return reject("M8", kPreambleSize, "header section is missing");
  if (view.sections.front().size > limits::kHeaderBytes)
    return reject("M11", kPreambleSize, "header is larger than 64 MiB");
  return {};
}

static Status checkHash(const SectionInfo &section, const uint8_t *bytes) {
  auto digest = sha256(bytes, section.size);
  if (!digest)
    return digest.status();
  if (*digest != section.digest)
    return reject("M12", section.offset,
                  "damaged: hash of section '" + section.name + "' differs");
  return {};
}

static Status readInto(const uint8_t *data, uint64_t size, ModuleView &view) {
  FUSION_RT_TRY(checkPreamble(data, size));
  view.major = uint16_t(get(data + 8, 2));
  view.minor = uint16_t(get(data + 10, 2));
  view.fileSize = size;
  std::vector<uint32_t> kinds;
  FUSION_RT_TRY(checkSections(data, size, view, kinds));

  // The header and the code are copied before they are hashed: what was
  // verified stays what is used even if the file changes under its mapping.
  std::vector<uint8_t> header, code, deviceCode, ptx;
  auto copyOf = [&](uint32_t kind) -> std::vector<uint8_t> & {
    switch (SectionKind(kind)) {
    case SectionKind::Header:
      return header;
    case SectionKind::DeviceCode:
      return deviceCode;
    case SectionKind::Ptx:
      return ptx;
    default:
      return code;
    }
  };
  for (size_t i = 0; i < kinds.size(); ++i) {
    const SectionInfo &section = view.sections[i];
    const uint8_t *bytes = data + section.offset;
    if (kinds[i] == uint32_t(SectionKind::Constants)) {
      view.constants = bytes;
      view.constantsSize = section.size;
    } else {
      std::vector<uint8_t> &copy = copyOf(kinds[i]);
      copy.assign(bytes, bytes + section.size);
      bytes = copy.data();
    }
    FUSION_RT_TRY(checkHash(section, bytes));
  }
  auto module = decodeHeader(header.data(), header.size());
  if (!module)
    return module.status();
  view.module = std::move(*module);
  view.module.nativeCode = std::move(code);
  view.module.deviceCode = std::move(deviceCode);
  view.module.ptx = std::move(ptx);
  Status valid = verifyModule(view.module, view.constantsSize);
  if (!valid.ok())
    return Status(valid.code() == Code::BadProgram ? Code::Rejected
                                                   : valid.code(),
                  valid.message(), valid.op());
  return {};
}

Expected<ModuleView> fusion::rt::readModule(const void *data, size_t size) {
  try {
    ModuleView view;
    FUSION_RT_TRY(readInto(static_cast<const uint8_t *>(data), size, view));
    return view;
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while reading a module");
  }
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

LoadedModule::~LoadedModule() {
  if (mapping)
    munmap(mapping, mappingSize);
  if (descriptor >= 0)
    close(descriptor);
}

Status LoadedModule::checkUnchanged() const {
  if (descriptor < 0)
    return {};
  struct stat info;
  if (fstat(descriptor, &info) != 0)
    return Status(Code::Environment,
                  "'" + escape(path) + "': " + std::strerror(errno));
  if (uint64_t(info.st_size) != mappingSize ||
      info.st_mtim.tv_sec != changeSeconds ||
      info.st_mtim.tv_nsec != changeNanoseconds)
    return Status(Code::Rejected, "'" + escape(path) +
                                      "': the module file was changed while it "
                                      "was loaded; load it again");
  return {};
}

Expected<std::shared_ptr<LoadedModule>>
fusion::rt::loadModuleFile(const std::string &path) {
  try {
    auto loaded = std::make_shared<LoadedModule>();
    loaded->path = path;
    loaded->descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (loaded->descriptor < 0 || fstat(loaded->descriptor, &info) != 0)
      return Status(errno == EMFILE || errno == ENFILE || errno == ENOMEM
                        ? Code::Resources
                        : Code::Usage,
                    "can't open '" + escape(path) +
                        "': " + std::strerror(errno) + "; check the path");
    if (!S_ISREG(info.st_mode))
      return Status(Code::Rejected,
                    "'" + escape(path) + "': not a regular file");
    if (info.st_size < int64_t(kPreambleSize))
      return Status(Code::Rejected,
                    "'" + escape(path) + "': too short for a module (" +
                        std::to_string(info.st_size) + " bytes)");
    loaded->ownerId = info.st_uid;
    loaded->mode = info.st_mode & 07777;
    loaded->changeSeconds = info.st_mtim.tv_sec;
    loaded->changeNanoseconds = info.st_mtim.tv_nsec;
    loaded->mappingSize = uint64_t(info.st_size);
    void *mapping = mmap(nullptr, loaded->mappingSize, PROT_READ, MAP_PRIVATE,
                         loaded->descriptor, 0);
    if (mapping == MAP_FAILED)
      return Status(Code::Resources, "can't map '" + escape(path) +
                                         "': " + std::strerror(errno));
    loaded->mapping = mapping;
    loaded->bytes = static_cast<const uint8_t *>(mapping);
    auto view = readModule(mapping, loaded->mappingSize);
    if (!view)
      return Status(view.status().code(),
                    "'" + escape(path) + "': " + view.status().message(),
                    view.status().op());
    loaded->view = std::move(*view);
    FUSION_RT_TRY(loaded->checkUnchanged());
    return loaded;
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while loading a module");
  }
}

Expected<std::shared_ptr<LoadedModule>>
fusion::rt::loadModuleMemory(const void *data, size_t size) {
  try {
    if (reinterpret_cast<uintptr_t>(data) % kAlignment != 0)
      return Status(Code::Usage,
                    "module in memory: its address must be a multiple of 64");
    auto loaded = std::make_shared<LoadedModule>();
    loaded->bytes = static_cast<const uint8_t *>(data);
    auto view = readModule(data, size);
    if (!view)
      return view.status();
    loaded->view = std::move(*view);
    return loaded;
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while loading a module");
  }
}

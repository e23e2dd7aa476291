//===- PluginFile.cpp - A plugin's file before it is loaded ---------------===//
//
// The loader maps what the program headers say and trusts them: a file that was
// cut short in copying ends the process with SIGBUS. So the tables, and what
// they name, are held against the file's size first, and against a process's
// addresses. The note with the stamp is read on the way.
//
//===----------------------------------------------------------------------===//
#include "PluginFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>
#include <elf.h>
#include <optional>

using namespace fusion;
using namespace llvm;

namespace {

/// A file's bytes, read within their bounds.
class Bytes {
public:
  explicit Bytes(StringRef data) : data(data) {}

  bool contains(uint64_t offset, uint64_t size) const {
    return offset <= data.size() && size <= data.size() - offset;
  }
  /// The i-th entry of a table that starts at `offset`.
  template <typename T>
  std::optional<T> read(uint64_t offset, uint64_t i = 0) const {
    uint64_t start = SaturatingMultiplyAdd<uint64_t>(i, sizeof(T), offset);
    if (!contains(start, sizeof(T)))
      return std::nullopt;
    T value;
    std::memcpy(&value, data.data() + start, sizeof(T));
    return value;
  }
  StringRef slice(uint64_t offset, uint64_t size) const {
    return contains(offset, size) ? data.substr(offset, size) : StringRef();
  }

private:
  StringRef data;
};

} // namespace

/// Addresses of a process end here.
static constexpr uint64_t kMostAddress = uint64_t(1) << 47;

/// The text of the note "Fusion" in a segment of notes.
static StringRef findStamp(Bytes file, uint64_t offset, uint64_t size) {
  uint64_t end = offset + size;
  while (auto note = file.read<Elf64_Nhdr>(offset)) {
    uint64_t name = offset + sizeof(Elf64_Nhdr);
    uint64_t text = name + alignTo(uint64_t(note->n_namesz), 4);
    uint64_t next = text + alignTo(uint64_t(note->n_descsz), 4);
    if (next > end)
      break;
    if (file.slice(name, note->n_namesz) == StringRef("Fusion\0", 7))
      return file.slice(text, note->n_descsz);
    offset = next;
  }
  return {};
}

std::optional<PluginFault> fusion::readPluginStamp(StringRef path,
                                                   std::string &stamp) {
  // Opening a pipe or a device would wait or never end.
  sys::fs::file_status status;
  std::error_code error = sys::fs::status(path, status);
  if (!error && !sys::fs::is_regular_file(status))
    return PluginFault{"it is no file", "give the path of a shared library"};
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return PluginFault{buffer.getError().message(),
                       "give the path of a shared library"};
  Bytes file((*buffer)->getBuffer());
  auto header = file.read<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_DYN)
    return PluginFault{"it is no shared library",
                       "build it with fusion_add_plugin"};

  PluginFault cut{"it is cut short: its headers point behind its end",
                  "build or copy it again"};
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    auto segment = file.read<Elf64_Phdr>(header->e_phoff, i);
    if (!segment || !file.contains(segment->p_offset, segment->p_filesz))
      return cut;
    if (segment->p_type == PT_LOAD &&
        (segment->p_memsz < segment->p_filesz ||
         SaturatingAdd<uint64_t>(segment->p_vaddr, segment->p_memsz) >
             kMostAddress))
      return PluginFault{"it is damaged: a segment has no place in memory",
                         "build or copy it again"};
    if (segment->p_type == PT_NOTE && stamp.empty())
      stamp = findStamp(file, segment->p_offset, segment->p_filesz).str();
  }
  for (unsigned i = 0; header->e_shoff != 0 && i < header->e_shnum; ++i) {
    auto section = file.read<Elf64_Shdr>(header->e_shoff, i);
    if (!section ||
        (section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS &&
         !file.contains(section->sh_offset, section->sh_size)))
      return cut;
  }
  return std::nullopt;
}

//===- ElfCheck.cpp - What native code may look like ----------------------===//
//
// A small reader of ELF program headers and the dynamic section: exactly the
// parts that the dynamic loader will act on. Section headers, which the loader
// ignores, are ignored here too. All offsets are untrusted.
//
//===----------------------------------------------------------------------===//
#include "ElfCheck.h"
#include "Checked.h"
#include "Text.h"

#include <cstring>
#include <elf.h>
#include <map>
#include <string_view>

using namespace fusion::rt;

namespace {

Status reject(const std::string &what) {
  return Status(Code::Rejected, "native code: " + what);
}

class ElfReader {
public:
  explicit ElfReader(const std::vector<uint8_t> &code) : code(code) {}
  Status check(const std::vector<Kernel> &kernels, size_t importCount);

private:
  Status readHeaders();
  Status readDynamic();
  Status readSymbols();
  Status checkRelocations(uint64_t address, uint64_t size);
  Expected<uint64_t> symbolCount();

  template <typename T> bool load(uint64_t offset, T &value) const {
    if (!rangeFits(offset, sizeof(T), code.size()))
      return false;
    std::memcpy(&value, code.data() + offset, sizeof(T));
    return true;
  }
  /// Reads a value at a virtual address that is backed by the file.
  template <typename T> bool loadAt(uint64_t address, T &value) const {
    for (const Elf64_Phdr &header : loads)
      if (address >= header.p_vaddr &&
          rangeFits(address - header.p_vaddr, sizeof(T), header.p_filesz))
        return load(header.p_offset + (address - header.p_vaddr), value);
    return false;
  }
  /// The segment that holds [address, address + size) in memory.
  const Elf64_Phdr *segmentOf(uint64_t address, uint64_t size) const {
    for (const Elf64_Phdr &header : loads)
      if (address >= header.p_vaddr &&
          rangeFits(address - header.p_vaddr, size, header.p_memsz))
        return &header;
    return nullptr;
  }

  const std::vector<uint8_t> &code;
  std::vector<Elf64_Phdr> loads;
  Elf64_Phdr dynamic{}, relro{};
  std::map<int64_t, uint64_t> tags;
  std::map<std::string, Elf64_Sym> symbols;
};

} // namespace

Status ElfReader::readHeaders() {
  Elf64_Ehdr header;
  if (!load(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN ||
      header.e_machine != EM_X86_64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return reject("not an x86-64 ELF shared object");
  if (header.e_phnum == 0 || header.e_phnum > 64)
    return reject("has no or more than 64 program headers");
  bool hasDynamic = false, hasStack = false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    auto offset = checkedAdd<uint64_t>(header.e_phoff, i * sizeof(Elf64_Phdr));
    if (!offset || !load(*offset, segment))
      return reject("program headers are outside the file");
    switch (segment.p_type) {
    case PT_LOAD:
      if (!rangeFits(segment.p_offset, segment.p_filesz, code.size()) ||
          segment.p_filesz > segment.p_memsz ||
          segment.p_memsz > (uint64_t(1) << 32) ||
          segment.p_vaddr > (uint64_t(1) << 40))
        return reject("a segment is outside the file or too large");
      if ((segment.p_flags & PF_W) && (segment.p_flags & PF_X))
        return reject("a segment is writable and executable");
      loads.push_back(segment);
      break;
    case PT_DYNAMIC:
      dynamic = segment;
      hasDynamic = true;
      break;
    case PT_GNU_STACK:
      hasStack = true;
      if (segment.p_flags & PF_X)
        return reject("asks for an executable stack");
      break;
    case PT_GNU_RELRO:
      relro = segment;
      break;
    case PT_INTERP:
      return reject("names an interpreter");
    case PT_TLS:
      return reject("has thread-local storage");
    default:
      break;
    }
  }
  if (!hasStack)
    return reject("doesn't say that its stack is not executable");
  if (!hasDynamic || loads.empty())
    return reject("has no dynamic section");
  return {};
}

Status ElfReader::readDynamic() {
  for (uint64_t i = 0;; ++i) {
    Elf64_Dyn entry;
    if (i > 256 || !loadAt(dynamic.p_vaddr + i * sizeof(entry), entry))
      return reject("dynamic section is damaged");
    if (entry.d_tag == DT_NULL)
      break;
    switch (entry.d_tag) {
    case DT_NEEDED:
    case DT_RPATH:
    case DT_RUNPATH:
    case DT_AUXILIARY:
    case DT_FILTER:
    case DT_AUDIT:
    case DT_DEPAUDIT:
      return reject("depends on other libraries");
    case DT_INIT:
    case DT_FINI:
    case DT_INIT_ARRAY:
    case DT_FINI_ARRAY:
    case DT_PREINIT_ARRAY:
      return reject("has constructors or destructors");
    case DT_TEXTREL:
    case DT_REL:
      return reject("has text relocations");
    case DT_FLAGS:
      if (entry.d_un.d_val & DF_TEXTREL)
        return reject("has text relocations");
      break;
    default:
      break;
    }
    tags[entry.d_tag] = entry.d_un.d_val;
  }
  if (!tags.count(DT_SYMTAB) || !tags.count(DT_STRTAB))
    return reject("has no dynamic symbols");
  if (tags.count(DT_RELA))
    if (Status status = checkRelocations(tags[DT_RELA], tags[DT_RELASZ]);
        !status.ok())
      return status;
  if (tags.count(DT_JMPREL))
    return checkRelocations(tags[DT_JMPREL], tags[DT_PLTRELSZ]);
  return {};
}

Status ElfReader::checkRelocations(uint64_t address, uint64_t size) {
  if (size > code.size())
    return reject("relocations are outside the file");
  for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= size;
       at += sizeof(Elf64_Rela)) {
    Elf64_Rela entry;
    if (!loadAt(address + at, entry))
      return reject("relocations are outside the file");
    if (ELF64_R_TYPE(entry.r_info) == R_X86_64_IRELATIVE ||
        ELF64_R_TYPE(entry.r_info) == R_X86_64_COPY)
      return reject("has indirect functions or copy relocations");
    const Elf64_Phdr *target = segmentOf(entry.r_offset, 8);
    if (!target || !(target->p_flags & PF_W))
      return reject("relocates bytes outside its data");
  }
  return {};
}

Expected<uint64_t> ElfReader::symbolCount() {
  if (tags.count(DT_HASH)) {
    uint32_t chains;
    if (!loadAt(tags[DT_HASH] + 4, chains))
      return reject("symbol hash table is damaged");
    return uint64_t(chains);
  }
  uint32_t header[4];
  if (!tags.count(DT_GNU_HASH) || !loadAt(tags[DT_GNU_HASH], header))
    return reject("has no symbol hash table");
  uint64_t buckets = tags[DT_GNU_HASH] + 16 + uint64_t(header[2]) * 8;
  uint64_t chains = buckets + uint64_t(header[0]) * 4;
  uint64_t last = 0;
  if (header[0] > code.size())
    return reject("symbol hash table is damaged");
  for (uint64_t i = 0; i < header[0]; ++i) {
    uint32_t first;
    if (!loadAt(buckets + 4 * i, first))
      return reject("symbol hash table is damaged");
    last = std::max<uint64_t>(last, first);
  }
  if (last < header[1])
    return uint64_t(header[1]);
  for (;; ++last) {
    uint32_t hash;
    if (last > code.size() || !loadAt(chains + 4 * (last - header[1]), hash))
      return reject("symbol hash table is damaged");
    if (hash & 1)
      return last + 1;
  }
}

Status ElfReader::readSymbols() {
  auto count = symbolCount();
  if (!count)
    return count.status();
  if (*count > code.size() / sizeof(Elf64_Sym))
    return reject("more symbols than the file can hold");
  for (uint64_t i = 1; i < *count; ++i) {
    Elf64_Sym symbol;
    if (!loadAt(tags[DT_SYMTAB] + i * sizeof(symbol), symbol))
      return reject("symbols are outside the file");
    std::string name;
    for (char c = 1; c != 0;) {
      if (name.size() > 4096 ||
          !loadAt(tags[DT_STRTAB] + symbol.st_name + name.size(), c))
        return reject("a symbol's name is outside the file");
      if (c)
        name += c;
    }
    if (symbol.st_shndx == SHN_UNDEF)
      return reject("symbol '" + escape(name) + "' is undefined");
    if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC)
      return reject("has indirect functions");
    symbols[name] = symbol;
  }
  return {};
}

Status ElfReader::check(const std::vector<Kernel> &kernels,
                        size_t importCount) {
  FUSION_RT_TRY(readHeaders());
  FUSION_RT_TRY(readDynamic());
  FUSION_RT_TRY(readSymbols());
  for (const Kernel &kernel : kernels) {
    auto found = symbols.find(kernel.symbol);
    const Elf64_Phdr *segment =
        found == symbols.end() ? nullptr : segmentOf(found->second.st_value, 1);
    if (!segment || !(segment->p_flags & PF_X) ||
        ELF64_ST_TYPE(found->second.st_info) != STT_FUNC)
      return reject("kernel '" + escape(kernel.symbol) + "' is not there");
  }
  if (importCount == 0)
    return {};
  auto found = symbols.find("fusion_imports");
  if (found == symbols.end())
    return reject("there are imports but no array 'fusion_imports'");
  const Elf64_Sym &array = found->second;
  const Elf64_Phdr *segment = segmentOf(array.st_value, array.st_size);
  bool isReadOnly = relro.p_memsz != 0 &&
                    array.st_value < relro.p_vaddr + relro.p_memsz &&
                    array.st_value + array.st_size > relro.p_vaddr;
  if (!segment || !(segment->p_flags & PF_W) || isReadOnly ||
      array.st_value % 8 != 0 || array.st_size < 8 * importCount)
    return reject("'fusion_imports' is not a writable array of " +
                  std::to_string(importCount) + " pointers");
  return {};
}

Status fusion::rt::checkElf(const std::vector<uint8_t> &code,
                            const std::vector<Kernel> &kernels,
                            size_t importCount) {
  return ElfReader(code).check(kernels, importCount);
}

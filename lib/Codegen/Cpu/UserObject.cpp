//===- UserObject.cpp - The object of a user's source ---------------------===//
//
// See UserObject.h. The rules are those of the runtime's ElfCheck, asked of
// sections and symbols, which still have names here. memcpy and its kin are
// written out: compilers call them for copies of structs whatever the flags.
//
//===----------------------------------------------------------------------===//
#include "UserObject.h"

#include "AssembleObject.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace llvm;
using namespace llvm::object;
using namespace fusion;

//===----------------------------------------------------------------------===//
// What may be called
//===----------------------------------------------------------------------===//

/// Functions of the runtime's table by the number of their arguments, in their
/// form for double (runtime/src/cpu/Imports.cpp).
static constexpr StringLiteral kUnary[] = {
    "acos",  "acosh", "asin", "asinh", "atan",      "atanh",  "cbrt",
    "ceil",  "cos",   "cosh", "erf",   "erfc",      "exp",    "exp2",
    "exp10", "expm1", "fabs", "floor", "lgamma",    "log",    "log10",
    "log1p", "log2",  "logb", "rint",  "nearbyint", "round",  "roundeven",
    "sin",   "sinh",  "sqrt", "tan",   "tanh",      "tgamma", "trunc"};
static constexpr StringLiteral kBinary[] = {
    "atan2", "copysign", "fdim",      "fmax", "fmin",
    "fmod",  "hypot",    "nextafter", "pow",  "remainder"};
static constexpr StringLiteral kTernary[] = {"fma"};

std::string codegen::getImportSignature(StringRef name) {
  auto numArguments = [](StringRef base) {
    return is_contained(kUnary, base)     ? 1
           : is_contained(kBinary, base)  ? 2
           : is_contained(kTernary, base) ? 3
                                          : 0;
  };
  StringRef type = "f64";
  unsigned count = numArguments(name);
  if (count == 0 && name.ends_with("f")) {
    type = "f32";
    count = numArguments(name.drop_back());
  }
  if (count == 0)
    return "";
  std::string text = (type + "(" + type).str();
  for (unsigned i = 1; i < count; ++i)
    text += ("," + type).str();
  return text + ")";
}

/// System V ABI: rdi, rsi, rdx are the arguments, rax the result.
static constexpr char kLinked[] = R"(
  .text
  .globl memcpy, memmove, memset, memcmp
  .hidden memcpy, memmove, memset, memcmp
  .type memcpy,@function
  .type memmove,@function
  .type memset,@function
  .type memcmp,@function
  .p2align 4
memmove:
  movq %rdi, %rax
  movq %rdi, %rcx
  subq %rsi, %rcx
  cmpq %rdx, %rcx
  jae memcpy
  movq %rdx, %rcx
  leaq -1(%rdi,%rdx), %rdi
  leaq -1(%rsi,%rdx), %rsi
  std
  rep movsb
  cld
  retq
  .p2align 4
memcpy:
  movq %rdi, %rax
  movq %rdx, %rcx
  rep movsb
  retq
  .p2align 4
memset:
  movq %rdi, %r8
  movl %esi, %eax
  movq %rdx, %rcx
  rep stosb
  movq %r8, %rax
  retq
  .p2align 4
memcmp:
  xorl %ecx, %ecx
1:
  cmpq %rdx, %rcx
  je 2f
  movzbl (%rdi,%rcx), %eax
  movzbl (%rsi,%rcx), %r8d
  incq %rcx
  subl %r8d, %eax
  je 1b
  retq
2:
  xorl %eax, %eax
  retq
  .section .note.GNU-stack,"",@progbits
)";

bool codegen::isLinkedFunction(StringRef name) {
  return StringSwitch<bool>(name)
      .Cases({"memcpy", "memmove", "memset", "memcmp"}, true)
      .Default(false);
}

Expected<SmallVector<char, 0>>
codegen::makeSupportObject(ArrayRef<std::pair<std::string, size_t>> ordinals) {
  std::string text = kLinked;
  text += "  .text\n";
  for (const auto &[name, ordinal] : ordinals)
    text += "  .globl " + name + "\n  .hidden " + name + "\n  .type " + name +
            ",@function\n" + name + ":\n  jmpq *fusion_imports+" +
            std::to_string(8 * ordinal) + "(%rip)\n";
  return assembleObject(text);
}

//===----------------------------------------------------------------------===//
// What an object may hold
//===----------------------------------------------------------------------===//

static Expected<std::unique_ptr<ObjectFile>> open(ArrayRef<char> object) {
  return ObjectFile::createELFObjectFile(
      MemoryBufferRef(StringRef(object.data(), object.size()), "object"));
}

/// The name of a symbol in a section, for messages; "" if there is none.
static std::string findSymbolIn(const ELF64LEObjectFile &file,
                                const SectionRef &section) {
  for (const ELFSymbolRef symbol : file.symbols()) {
    Expected<section_iterator> home = symbol.getSection();
    Expected<StringRef> name = symbol.getName();
    bool found = home && name && *home != file.section_end() &&
                 **home == section && !name->empty() &&
                 symbol.getELFType() == ELF::STT_OBJECT;
    if (!home)
      consumeError(home.takeError());
    if (found)
      return name->str();
    if (!name)
      consumeError(name.takeError());
  }
  return "";
}

/// Sections that the linker makes, and the loader acts on.
static bool isLinkersSection(StringRef name) {
  return is_contained({".interp", ".dynamic", ".dynsym", ".dynstr", ".hash",
                       ".gnu.hash", ".got", ".got.plt", ".plt", ".rela.dyn",
                       ".rela.plt"},
                      name);
}

/// The most bytes of code and data that the runtime loads from one module, with
/// room for what is ours (runtime/src/cpu/ElfCheck.cpp).
static constexpr uint64_t kMostLoadedBytes = uint64_t(1) << 31;

static Error checkSections(const ELF64LEObjectFile &file, bool isPure) {
  uint64_t total = 0;
  for (const ELFSectionRef section : file.sections()) {
    uint64_t flags = section.getFlags();
    // lld would open the libraries that it names.
    if (section.getType() == ELF::SHT_LLVM_DEPENDENT_LIBRARIES)
      return createStringError("asks for other libraries: a kernel has none");
    if (flags & ELF::SHF_ALLOC)
      total = SaturatingAdd(total, section.getSize());
    if (total > kMostLoadedBytes)
      return createStringError("has more than 2 GiB of code and data: pass "
                               "large data as operands");
    if (!(flags & ELF::SHF_ALLOC) || section.getSize() == 0)
      continue;
    Expected<StringRef> name = section.getName();
    if (!name)
      return name.takeError();
    std::string symbol = findSymbolIn(file, section);
    std::string shown = symbol.empty() ? "" : " ('" + symbol + "')";
    if (flags & ELF::SHF_TLS)
      return createStringError("has thread-local data" + shown +
                               ": keep it in a variable of the function");
    uint32_t type = section.getType();
    bool isList = type == ELF::SHT_INIT_ARRAY || type == ELF::SHT_FINI_ARRAY ||
                  type == ELF::SHT_PREINIT_ARRAY;
    for (StringRef start : {".init", ".fini", ".ctors", ".dtors", ".preinit"})
      isList |= name->starts_with(start);
    if (isList)
      return createStringError("has a constructor or destructor: nothing runs "
                               "before or after a kernel");
    if (isLinkersSection(*name))
      return createStringError("has a section '" + *name +
                               "', which is the linker's");
    if (!(flags & ELF::SHF_WRITE) || name->starts_with(".data.rel.ro"))
      continue;
    if (flags & ELF::SHF_EXECINSTR)
      return createStringError("has code that can be written");
    if (isPure)
      return createStringError("has data that it can write" + shown +
                               ": make it const, or say side_effects");
  }
  return Error::success();
}

Expected<std::vector<std::string>>
codegen::checkUserObject(ArrayRef<char> object, bool isPure) {
  Expected<std::unique_ptr<ObjectFile>> opened = open(object);
  if (!opened)
    return opened.takeError();
  auto *file = dyn_cast<ELF64LEObjectFile>(opened->get());
  if (!file)
    return createStringError("is no x86-64 object");
  if (Error error = checkSections(*file, isPure))
    return std::move(error);
  std::set<std::string> called;
  for (const ELFSymbolRef symbol : file->symbols()) {
    Expected<StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    if (symbol.getELFType() == ELF::STT_GNU_IFUNC)
      return createStringError("has '" + *name +
                               "' in several versions, chosen when it is "
                               "loaded: write one");
    if ((*flags & SymbolRef::SF_Common) && isPure)
      return createStringError("has data that it can write ('" + *name +
                               "'): make it const, or say side_effects");
    if (!(*flags & SymbolRef::SF_Undefined) || name->empty() ||
        *name == "_GLOBAL_OFFSET_TABLE_")
      continue;
    if (getImportSignature(*name).empty() && !isLinkedFunction(*name))
      return createStringError("needs '" + *name +
                               "', which no kernel may use: fusion-c/Kernel.h "
                               "lists what may be called");
    called.insert(name->str());
  }
  return std::vector<std::string>(called.begin(), called.end());
}

Expected<SmallVector<char, 0>> codegen::isolateUserObject(
    ArrayRef<char> object,
    ArrayRef<std::pair<std::string, std::string>> entries) {
  Expected<std::unique_ptr<ObjectFile>> opened = open(object);
  if (!opened)
    return opened.takeError();
  auto *file = dyn_cast<ELF64LEObjectFile>(opened->get());
  if (!file)
    return createStringError("is no x86-64 object");
  std::set<std::string> defined;
  for (const ELFSymbolRef symbol : file->symbols()) {
    Expected<StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    if (symbol.getELFType() != ELF::STT_FUNC ||
        symbol.getBinding() == ELF::STB_LOCAL ||
        (*flags & SymbolRef::SF_Undefined))
      continue;
    // An asm statement may have left the compiler in a section of data.
    Expected<section_iterator> home = symbol.getSection();
    if (!home)
      return home.takeError();
    if (*home != file->section_end() &&
        (ELFSectionRef(**home).getFlags() & ELF::SHF_EXECINSTR))
      defined.insert(name->str());
  }
  objcopy::ConfigManager config;
  auto fail = [](Error error) { return error; };
  for (const auto &[entry, name] : entries) {
    if (!defined.count(entry))
      return createStringError("has no function '" + entry +
                               "' in its source that others can call");
    config.Common.SymbolsToRename[entry] = name;
    if (Error error = config.Common.SymbolsToKeepGlobal.addMatcher(
            objcopy::NameOrPattern::create(entry, objcopy::MatchStyle::Literal,
                                           fail)))
      return std::move(error);
  }
  SmallVector<char, 0> isolated;
  raw_svector_ostream stream(isolated);
  if (Error error = objcopy::executeObjcopyOnBinary(config, *file, stream))
    return std::move(error);
  return isolated;
}

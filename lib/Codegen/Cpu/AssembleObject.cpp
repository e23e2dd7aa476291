//===- AssembleObject.cpp - Assembly text to an object --------------------===//
//
// LLVM's assembler as a library: what clang does behind a .s file, except that
// no directive of the text can read a file, or say a few words and mean
// gigabytes: nothing would end that.
//
//===----------------------------------------------------------------------===//
#include "AssembleObject.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/MC/MCAsmBackend.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCObjectFileInfo.h"
#include "llvm/MC/MCObjectWriter.h"
#include "llvm/MC/MCParser/MCAsmParser.h"
#include "llvm/MC/MCParser/MCAsmParserExtension.h"
#include "llvm/MC/MCParser/MCTargetAsmParser.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCStreamer.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"

#include <mutex>

using namespace llvm;
using namespace fusion;

void codegen::initializeX86() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
}

/// The text without directives that set the size of a symbol, which nobody
/// asks for: for one that can't be computed LLVM ends the process.
static std::string dropSizes(StringRef assembly) {
  std::string text;
  while (!assembly.empty()) {
    auto [line, rest] = assembly.split('\n');
    if (!line.ltrim().starts_with(".size"))
      text += line;
    text += '\n';
    assembly = rest;
  }
  return text;
}

namespace {

/// The most bytes that directives may leave out.
constexpr uint64_t kMostFilledBytes = uint64_t(1) << 31;

/// Refuses directives that repeat, which no compiler prints but an asm
/// statement may have, and bounds those that leave bytes out.
class Bounds : public MCAsmParserExtension {
public:
  void Initialize(MCAsmParser &parser) override {
    MCAsmParserExtension::Initialize(parser);
    for (StringRef name :
         {".rept", ".rep", ".irp", ".irpc", ".macro", ".fill", ".dcb", ".dcb.b",
          ".dcb.d", ".dcb.l", ".dcb.s", ".dcb.w", ".dcb.x"})
      handle<&Bounds::refuse>(name);
    for (StringRef name : {".zero", ".skip", ".space"})
      handle<&Bounds::fill>(name);
  }

private:
  /// The parser takes directives in any case, but looks these up as they are
  /// written.
  template <bool (Bounds::*method)(StringRef, SMLoc)>
  void handle(StringRef name) {
    for (unsigned upper = 0; upper < 1u << name.size(); ++upper) {
      std::string spelled = name.str();
      for (size_t i = 0; i < spelled.size(); ++i)
        if (upper >> i & 1)
          spelled[i] = toUpper(spelled[i]);
      auto [it, isNew] = spellings.insert(spelled);
      if (isNew)
        getParser().addDirectiveHandler(
            it->getKey(), {this, HandleDirective<Bounds, method>});
    }
  }
  bool refuse(StringRef directive, SMLoc where) {
    return Error(where, "the directive '" + directive +
                            "' is not supported: write out what it repeats");
  }
  /// `.zero bytes, value`, as LLVM reads it.
  bool fill(StringRef directive, SMLoc where) {
    const MCExpr *size = nullptr;
    int64_t value = 0, bytes = 0;
    if (getParser().checkForValidSection() || getParser().parseExpression(size))
      return true;
    if (getParser().parseOptionalToken(AsmToken::Comma) &&
        getParser().parseAbsoluteExpression(value))
      return true;
    if (getParser().parseEOL())
      return true;
    if (size->evaluateAsAbsolute(bytes) && bytes > 0)
      total = SaturatingAdd(total, uint64_t(bytes));
    if (total > kMostFilledBytes)
      return Error(where, "it has more than 2 GiB of equal bytes");
    getStreamer().emitFill(*size, value, where);
    return false;
  }

  uint64_t total = 0;
  StringSet<> spellings; ///< the parser keeps no text
};

} // namespace

Expected<SmallVector<char, 0>> codegen::assembleObject(StringRef assembly) {
  initializeX86();
  Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return createStringError("no assembler for x86-64: " + error);

  SourceMgr sources(makeIntrusiveRefCnt<vfs::InMemoryFileSystem>());
  std::string firstError;
  auto keepFirst = [](const SMDiagnostic &diagnostic, void *kept) {
    auto &first = *static_cast<std::string *>(kept);
    if (first.empty() && diagnostic.getKind() == SourceMgr::DK_Error)
      first = diagnostic.getMessage().str();
  };
  sources.setDiagHandler(keepFirst, &firstError);
  sources.AddNewSourceBuffer(
      MemoryBuffer::getMemBufferCopy(dropSizes(assembly), "assembly"), SMLoc());

  MCTargetOptions options;
  std::unique_ptr<MCRegisterInfo> registers(target->createMCRegInfo(triple));
  std::unique_ptr<MCAsmInfo> syntax(
      target->createMCAsmInfo(*registers, triple, options));
  std::unique_ptr<MCSubtargetInfo> subtarget(
      target->createMCSubtargetInfo(triple, "", ""));
  MCContext context(triple, syntax.get(), registers.get(), subtarget.get(),
                    &sources, &options);
  // What is found when the text has been read.
  context.setDiagnosticHandler([&](const SMDiagnostic &diagnostic, bool,
                                   const SourceMgr &,
                                   std::vector<const MDNode *> &) {
    keepFirst(diagnostic, &firstError);
  });
  std::unique_ptr<MCObjectFileInfo> sections(
      target->createMCObjectFileInfo(context, /*PIC=*/true));
  context.setObjectFileInfo(sections.get());

  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  std::unique_ptr<MCInstrInfo> instructions(target->createMCInstrInfo());
  std::unique_ptr<MCAsmBackend> backend(
      target->createMCAsmBackend(*subtarget, *registers, options));
  std::unique_ptr<MCObjectWriter> writer = backend->createObjectWriter(stream);
  std::unique_ptr<MCCodeEmitter> emitter(
      target->createMCCodeEmitter(*instructions, context));
  std::unique_ptr<MCStreamer> streamer(target->createMCObjectStreamer(
      triple, context, std::move(backend), std::move(writer),
      std::move(emitter), *subtarget));
  std::unique_ptr<MCAsmParser> parser(
      createMCAsmParser(sources, context, *streamer, *syntax));
  std::unique_ptr<MCTargetAsmParser> targetParser(
      target->createMCAsmParser(*subtarget, *parser, *instructions, options));
  parser->setTargetParser(*targetParser);
  Bounds bounds;
  bounds.Initialize(*parser);
  if (parser->Run(/*NoInitialTextSection=*/false) || context.hadError())
    return createStringError(firstError.empty() ? "it can't be assembled"
                                                : firstError);
  return object;
}

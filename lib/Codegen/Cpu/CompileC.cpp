//===- CompileC.cpp - C to assembly, by the user's compiler ---------------===//
//
// See CompileC.h. The source goes in on stdin behind the public header and the
// prototypes of its entries, so that a definition of other types is the
// compiler's own error. Assembly comes out, which every compiler can print;
// LLVM assembles it, so no file has a name and no assembler is needed.
//
//===----------------------------------------------------------------------===//
#include "CompileC.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace llvm;
using namespace fusion;
using namespace fusion::codegen;

/// The text of fusion-c/Kernel.h.
static constexpr char kHeader[] =
#include "KernelHeader.inc"
    ;

/// What both gcc and clang take. The order of a group: what is compiled, what
/// the code may contain, what floating point may do, what is an error.
static constexpr const char *kFlags[] = {
    "-x", "c", "-std=gnu11", "-S", "-O3",
    // No reference to the outside, no data the loader would refuse.
    "-fPIC", "-fvisibility=hidden", "-fno-stack-protector", "-U_FORTIFY_SOURCE",
    "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions",
    "-fcf-protection=none", "-fno-common", "-fno-lto",
    // No time, name or version in the output.
    "-fno-ident", "-g0", "-Werror=date-time",
    // As in our own kernels: nothing is contracted, no errno.
    "-ffp-contract=off", "-fno-math-errno", "-march=x86-64", "-mtune=generic",
    // What would be a wrong call.
    "-Werror=implicit-function-declaration", "-Werror=implicit-int",
    "-Werror=int-conversion", "-Werror=incompatible-pointer-types",
    "-Werror=return-type", "-fdiagnostics-color=never"};

Expected<std::string> codegen::findCCompiler(StringRef wanted) {
  if (wanted == "off")
    return createStringError("--c-compiler=off forbids to compile it; leave "
                             "the option out or replace the kernel");
  if (wanted.empty()) {
    // The last is what Fusion itself is built with, where there is no other.
    for (StringRef name : {"cc", "clang", "gcc", "clang-22"})
      if (ErrorOr<std::string> found = sys::findProgramByName(name))
        return *found;
    return createStringError("there is no C compiler on PATH (cc, clang, gcc, "
                             "clang-22); "
                             "install one or name one with --c-compiler");
  }
  SmallString<256> path(wanted);
  if (!wanted.contains('/')) {
    ErrorOr<std::string> found = sys::findProgramByName(wanted);
    if (!found)
      return createStringError("there is no program '" + wanted +
                               "' on PATH; give the path of a C compiler "
                               "with --c-compiler");
    path = *found;
  }
  sys::fs::make_absolute(path);
  if (!sys::fs::can_execute(path))
    return createStringError("'" + wanted +
                             "' is no program that can be run; give the path "
                             "of a C compiler with --c-compiler");
  return path.str().str();
}

/// A line for people: no control characters, and not too long.
static std::string clean(StringRef line, size_t length) {
  std::string text = line.trim().take_front(length).str();
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
      c = ' ';
  return text;
}

ChildResult codegen::readVersion(StringRef compiler, unsigned timeoutSeconds) {
  ChildResult result =
      runChild(compiler, {compiler.str(), "--version"}, "", timeoutSeconds);
  result.output = clean(StringRef(result.output).split('\n').first, 200);
  return result;
}

/// Whether a line includes the header that is there already.
static bool includesHeader(StringRef line) {
  line = line.trim();
  if (!line.consume_front("#"))
    return false;
  line = line.ltrim();
  if (!line.consume_front("include"))
    return false;
  line = line.ltrim();
  return line.starts_with("\"fusion-c/Kernel.h\"") ||
         line.starts_with("<fusion-c/Kernel.h>");
}

ChildResult codegen::compileC(StringRef compiler, const CSource &source,
                              ArrayRef<std::string> features, bool isClang,
                              unsigned timeoutSeconds) {
  std::string text = "#line 1 \"fusion-c/Kernel.h\"\n";
  text += kHeader;
  text += "#line 1 \"fusion.kernel_call\"\n";
  for (const std::string &prototype : source.prototypes)
    text += prototype + ";\n";
  std::string name = source.name;
  for (char &c : name)
    if (c == '"' || c == '\\' || !isPrint(c))
      c = '_';
  text += "#line 1 \"" + name + "\"\n";
  SmallVector<StringRef> lines;
  StringRef(source.text).split(lines, '\n');
  for (StringRef line : lines)
    text += (includesHeader(line) ? "" : line.str()) + "\n";

  std::vector<std::string> arguments{compiler.str()};
  for (const char *flag : kFlags)
    arguments.push_back(flag);
  // clang would assemble inline code, and read the files that it names.
  if (isClang)
    arguments.push_back("-fno-integrated-as");
  for (const std::string &feature : features)
    arguments.push_back("-m" + feature);
  arguments.insert(arguments.end(), {"-o", "-", "-"});
  return runChild(compiler, arguments, text, timeoutSeconds);
}

std::string codegen::findError(StringRef messages) {
  SmallVector<StringRef> lines;
  messages.split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef line : lines)
    if (line.contains("error:"))
      return clean(line, 400);
  return lines.empty() ? "" : clean(lines.front(), 400);
}

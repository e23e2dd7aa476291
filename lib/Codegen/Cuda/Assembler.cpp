//===- Assembler.cpp - PTX to machine code --------------------------------===//
//
// Runs NVIDIA's assembler, which reads and writes what this process holds in
// memory: no file has a name that could get into its output. What it says of
// each kernel is read from its messages; those that spill registers to have
// more blocks resident are assembled again, with the registers.
//
//===----------------------------------------------------------------------===//
#include "Assembler.h"

#include "fusion/Codegen/ChildProcess.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

/// The number before `text` in `line`, or 0.
static uint32_t numberBefore(StringRef line, StringRef text) {
  size_t at = line.find(text);
  if (at == StringRef::npos)
    return 0;
  StringRef head = line.take_front(at);
  uint32_t value = 0;
  if (head.substr(head.find_last_not_of("0123456789") + 1)
          .getAsInteger(10, value))
    return 0;
  return value;
}

/// What `-v` prints: "Compiling entry function 'k0' for 'sm_90'", and lines
/// with "N bytes stack frame, N bytes spill stores, N bytes spill loads" and
/// "Used N registers, ..., N bytes smem" behind it.
static void readUsage(StringRef messages, fusion::DeviceCode &code) {
  fusion::KernelUsage *usage = nullptr;
  for (StringRef line : split(messages, '\n')) {
    if (line.contains("Compiling entry function '"))
      usage = &code.usage[line.split('\'').second.split('\'').first.str()];
    if (!usage)
      continue;
    usage->spillBytes += numberBefore(line, " bytes spill stores") +
                         numberBefore(line, " bytes spill loads");
    if (uint32_t stack = numberBefore(line, " bytes stack frame"))
      usage->stackBytes = stack;
    if (uint32_t registers = numberBefore(line, " registers"))
      usage->registers = registers;
    if (uint32_t shared = numberBefore(line, " bytes smem"))
      usage->sharedBytes = shared;
  }
}

/// The kernel that line `number` of `ptx` is in, or "".
static StringRef findKernel(StringRef ptx, unsigned number) {
  StringRef kernel;
  for (StringRef line : split(ptx, '\n')) {
    if (number-- == 0)
      break;
    if (auto [head, tail] = line.split(".entry "); !tail.empty())
      kernel = tail.take_until([](char c) { return c == '('; });
  }
  return kernel;
}

/// The first error in `messages`, of the kernel it is in: "ptxas FILE, line 12;
/// error   : ...", or "ptxas fatal   : ...". The text is kept in a file.
static Error reportRefusal(const fusion::DeviceCodeOptions &options,
                           StringRef ptx, StringRef messages) {
  StringRef first, kernel;
  for (StringRef line : split(messages, '\n')) {
    // A target or a version of PTX that the program does not know.
    if (line.contains("fatal") && (line.contains("is not defined for option") ||
                                   line.contains("Unsupported .version")))
      return createStringError(
          std::make_error_code(std::errc::no_such_file_or_directory),
          "'" + options.ptxas + "' does not know " + options.architecture +
              ": " + line.trim() +
              "; give a newer one with --ptxas, or compile with --ptxas=off");
    if (!first.empty() || !(line.contains("error") || line.contains("fatal")))
      continue;
    first = line.split(" : ").second.trim();
    if (first.empty())
      first = line.trim();
    unsigned number;
    if (!line.split(", line ").second.split(';').first.getAsInteger(10, number))
      kernel = findKernel(ptx, number);
  }
  std::string kept;
  int file;
  SmallString<128> path;
  if (!sys::fs::createTemporaryFile("fusion-refused", "ptx", file, path)) {
    raw_fd_ostream stream(file, /*shouldClose=*/true);
    stream << ptx;
    stream.close();
    if (stream.has_error())
      stream.clear_error();
    else
      kept = ("; its input is kept in '" + path + "'").str();
  }
  return createStringError(
      "internal error: ptxas refuses " +
      (kernel.empty() ? Twine("the kernels") : "kernel '" + kernel + "'") +
      ": " + (first.empty() ? "it says no reason" : first) + kept);
}

/// Adds to the PTX of the kernels that spill registers that one block on a
/// multiprocessor will do; whether there is one that did not say so.
static bool allowRegisters(fusion::DeviceCode &code) {
  std::string ptx;
  bool isSpilling = false, isAllowed = false;
  for (StringRef rest = code.ptx; !rest.empty();) {
    auto [line, tail] = rest.split('\n');
    rest = tail;
    ptx += line;
    ptx += '\n';
    if (StringRef entry = line.split(".entry ").second; !entry.empty()) {
      auto usage = code.usage.find(
          entry.take_until([](char c) { return c == '('; }).str());
      isSpilling = usage != code.usage.end() && usage->second.spillBytes > 0;
    }
    if (!isSpilling || !line.starts_with(".reqntid"))
      continue;
    isSpilling = false;
    if (rest.starts_with(".minnctapersm 1\n"))
      continue;
    if (rest.starts_with(".minnctapersm"))
      rest = rest.split('\n').second;
    ptx += ".minnctapersm 1\n";
    isAllowed = true;
  }
  if (isAllowed)
    code.ptx = std::move(ptx);
  return isAllowed;
}

static Error assembleOnce(const fusion::DeviceCodeOptions &options,
                          fusion::DeviceCode &code) {
  using fusion::ChildResult;
  ChildResult child = fusion::runChild(
      options.ptxas,
      {options.ptxas, "-v", "-O3", "-arch=" + options.architecture,
       "--fmad=false", "-o", "/dev/stdout", "/dev/stdin"},
      code.ptx, options.timeoutSeconds);
  switch (child.kind) {
  case ChildResult::Exited:
    break;
  case ChildResult::TimedOut:
    return createStringError(
        std::make_error_code(std::errc::timed_out),
        "'%s' did not end within %u seconds; compile with --ptxas=off",
        options.ptxas.c_str(), options.timeoutSeconds);
  case ChildResult::NoResources:
    return createStringError(std::make_error_code(std::errc::not_enough_memory),
                             "'%s' can't be run: %s", options.ptxas.c_str(),
                             child.error.c_str());
  case ChildResult::NotStarted:
    return createStringError(
        std::make_error_code(std::errc::no_such_file_or_directory),
        "'%s' can't be run: %s; give another with --ptxas, or compile with "
        "--ptxas=off",
        options.ptxas.c_str(), child.error.c_str());
  case ChildResult::Signaled:
    return createStringError(
        std::make_error_code(std::errc::no_such_file_or_directory),
        "'%s' was ended by signal %d; give another with --ptxas, or compile "
        "with --ptxas=off",
        options.ptxas.c_str(), child.status);
  case ChildResult::TooMuch:
    return createStringError(
        std::make_error_code(std::errc::no_such_file_or_directory),
        "'%s' prints without end; give another with --ptxas, or compile with "
        "--ptxas=off",
        options.ptxas.c_str());
  }
  if (child.status != 0)
    return reportRefusal(options, code.ptx, child.messages + child.output);
  // The file that a driver loads is an ELF object.
  if (!StringRef(child.output)
           .starts_with("\x7f"
                        "ELF"))
    return createStringError(
        std::make_error_code(std::errc::no_such_file_or_directory),
        "'%s' wrote no cubin; give another with --ptxas, or compile with "
        "--ptxas=off",
        options.ptxas.c_str());
  code.cubin.assign(child.output.begin(), child.output.end());
  readUsage(child.messages, code);
  return Error::success();
}

Error fusion::assemble(const DeviceCodeOptions &options, DeviceCode &code) {
  if (Error error = assembleOnce(options, code))
    return error;
  // To have more blocks resident, the assembler spills a few registers that
  // each thread could have.
  if (!allowRegisters(code))
    return Error::success();
  code.usage.clear();
  return assembleOnce(options, code);
}

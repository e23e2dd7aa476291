//===- Assembler.cpp - PTX to machine code --------------------------------===//
//
// Finds and runs NVIDIA's assembler, in a folder of its own that is removed
// again, and reads what it says of each kernel.
//
//===----------------------------------------------------------------------===//
#include "Assembler.h"

#include "fusion/Codegen/ChildProcess.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace llvm;

/// Roots of an installed toolkit, or of a wheel of PyPI, in order.
static std::vector<std::string> findRoots() {
  std::vector<std::string> roots;
  if (const char *home = std::getenv("CUDA_HOME"))
    roots.push_back(home);
  if (auto program = sys::findProgramByName("ptxas"))
    roots.push_back(
        sys::path::parent_path(sys::path::parent_path(*program)).str());
  roots.push_back("/usr/local/cuda");
  // Next to the Python that is first on the path: site-packages/nvidia/cuXX.
  for (const char *name : {"python3", "python"}) {
    auto python = sys::findProgramByName(name);
    if (!python)
      continue;
    SmallString<128> lib(
        sys::path::parent_path(sys::path::parent_path(*python)));
    sys::path::append(lib, "lib");
    std::error_code error;
    for (sys::fs::directory_iterator at(lib, error), end; at != end && !error;
         at.increment(error)) {
      SmallString<128> site(at->path());
      if (!sys::path::filename(site).starts_with("python3"))
        continue;
      sys::path::append(site, "site-packages", "nvidia", "cu13");
      roots.push_back(site.str().str());
    }
  }
  return roots;
}

Expected<std::string> fusion::findAssembler(StringRef wanted) {
  if (wanted == "off")
    return std::string();
  if (!wanted.empty()) {
    if (sys::fs::can_execute(wanted))
      return wanted.str();
    return createStringError("no program '" + wanted +
                             "', --ptxas, give the path of ptxas, or off");
  }
  for (const std::string &root : findRoots()) {
    SmallString<128> path(root);
    sys::path::append(path, "bin", "ptxas");
    if (sys::fs::can_execute(path))
      return path.str().str();
  }
  return std::string();
}

std::string fusion::findLibdevice() {
  for (const std::string &root : findRoots()) {
    SmallString<128> path(root);
    sys::path::append(path, "nvvm", "libdevice", "libdevice.10.bc");
    if (sys::fs::exists(path))
      return path.str().str();
  }
  return "";
}

/// The number before `text` in `line`.
static uint32_t numberBefore(StringRef line, StringRef text) {
  size_t at = line.find(text);
  if (at == StringRef::npos)
    return 0;
  StringRef number = line.take_front(at).rtrim();
  size_t digits = number.find_last_not_of("0123456789");
  uint32_t value = 0;
  if (number.substr(digits + 1).getAsInteger(10, value))
    return 0;
  return value;
}

/// What `-v` prints: "Compiling entry function 'k0' for 'sm_90'", and lines
/// with "N bytes spill stores", "Used N registers", "N bytes smem" behind it.
static void readUsage(StringRef messages, fusion::DeviceCode &code) {
  fusion::KernelUsage *usage = nullptr;
  for (StringRef line : split(messages, '\n')) {
    if (line.contains("Compiling entry function '"))
      usage = &code.usage[line.split('\'').second.split('\'').first.str()];
    if (!usage)
      continue;
    usage->spillBytes += numberBefore(line, " bytes spill stores") +
                         numberBefore(line, " bytes spill loads");
    if (uint32_t registers = numberBefore(line, " registers"))
      usage->registers = registers;
    if (uint32_t shared = numberBefore(line, " bytes smem"))
      usage->sharedBytes = shared;
  }
}

Error fusion::assemble(const DeviceCodeOptions &options, DeviceCode &code) {
  SmallString<128> folder;
  auto systemError = [](std::error_code error, const Twine &what) {
    return createStringError(error, what + ": " + error.message());
  };
  if (std::error_code error =
          sys::fs::createUniqueDirectory("fusion-ptxas", folder))
    return systemError(error, "cannot make a temporary folder");
  scope_exit remove([&] { sys::fs::remove_directories(folder, true); });
  SmallString<128> source(folder), object(folder);
  sys::path::append(source, "kernels.ptx");
  sys::path::append(object, "kernels.cubin");
  {
    std::error_code error;
    raw_fd_ostream stream(source, error);
    if (!error) {
      stream << code.ptx;
      stream.close();
      error = stream.error();
      stream.clear_error();
    }
    if (error)
      return systemError(error, "cannot write '" + source + "'");
  }
  ChildResult child =
      runChild(options.ptxas,
               {options.ptxas, "-v", "-O3", "-arch=" + options.architecture,
                "--fmad=" + std::string(options.contract ? "true" : "false"),
                "-o", object.str().str(), source.str().str()},
               "", options.timeoutSeconds);
  switch (child.kind) {
  case ChildResult::Exited:
    break;
  case ChildResult::TimedOut:
    return createStringError(
        std::make_error_code(std::errc::timed_out),
        "ptxas did not end within %u seconds; compile with --ptxas=off",
        options.timeoutSeconds);
  case ChildResult::NoResources:
    return createStringError(std::make_error_code(std::errc::not_enough_memory),
                             "ptxas can't be run: %s", child.error.c_str());
  case ChildResult::NotStarted:
    return createStringError(
        std::make_error_code(std::errc::no_such_file_or_directory),
        "'%s' can't be run: %s", options.ptxas.c_str(), child.error.c_str());
  case ChildResult::Signaled:
  case ChildResult::TooMuch:
    return createStringError("ptxas crashed or printed without end; compile "
                             "with --ptxas=off");
  }
  std::string messages = child.output + child.messages;
  if (child.status != 0)
    return createStringError("ptxas refuses the kernels: " +
                             StringRef(messages).take_front(2000));
  auto cubin = MemoryBuffer::getFile(object);
  if (!cubin)
    return systemError(cubin.getError(), "cannot read '" + object + "'");
  code.cubin.assign((*cubin)->getBufferStart(), (*cubin)->getBufferEnd());
  readUsage(messages, code);
  return Error::success();
}

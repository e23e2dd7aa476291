//===- NativeCode.cpp - A module's kernels, loaded ------------------------===//
//
// The code never touches the disk: it is written to an anonymous file, sealed,
// and opened through /proc/self/fd. glibc recognizes a library it has already
// loaded by that path, so the descriptor stays open as long as the library:
// its number can't be taken by another module meanwhile.
//
//===----------------------------------------------------------------------===//
#include "NativeCode.h"
#include "CpuFeatures.h"
#include "ElfCheck.h"
#include "Imports.h"
#include "Text.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace fusion::rt;

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

NativeCode::~NativeCode() {
  if (handle)
    dlclose(handle);
  if (descriptor >= 0)
    close(descriptor);
}

static Status systemError(const char *what) {
  int code = errno;
  bool isLimit = code == ENOMEM || code == EMFILE || code == ENFILE ||
                 code == ENOSPC || code == EFBIG;
  return Status(isLimit ? Code::Resources : Code::Environment,
                std::string("native code: ") + what + ": " +
                    std::strerror(code));
}

/// Whether `size` more bytes, and some for the loader itself, can be mapped: it
/// does not say why it failed, except in errno where malloc did.
static bool canMap(size_t size) {
  size += size_t(1) << 20;
  void *bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED)
    return false;
  munmap(bytes, size);
  return true;
}

/// A sealed anonymous file holding `code`, or -1 and errno.
static int makeSealedFile(const std::vector<uint8_t> &code) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Kernels since 6.3 want to be told that the file will be executed; older
  // ones don't know the flag.
  int file = memfd_create("fusion-kernels", flags | MFD_EXEC);
  if (file < 0 && errno == EINVAL)
    file = memfd_create("fusion-kernels", flags);
  if (file < 0)
    return -1;
  size_t done = 0;
  while (done < code.size()) {
    ssize_t written = write(file, code.data() + done, code.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      break;
    done += size_t(written);
  }
  if (done == code.size() &&
      fcntl(file, F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
    return file;
  int code2 = errno;
  close(file);
  errno = code2;
  return -1;
}

Expected<std::unique_ptr<NativeCode>> NativeCode::load(const Module &module) {
  FUSION_RT_TRY(checkCpuFeatures(module.cpu, module.cpuFeatures));
  std::unique_ptr<NativeCode> code(new NativeCode);
  if (module.nativeCode.empty())
    return code;
  std::vector<void *> imports;
  for (const Import &import : module.imports) {
    void *address = findImport(import.name, import.signature);
    if (!address)
      return Status(Code::Rejected,
                    "native code imports '" + escape(import.name) + "' " +
                        escape(import.signature) +
                        ", which this runtime doesn't offer; update it or "
                        "compile the model again");
    imports.push_back(address);
  }
  FUSION_RT_TRY(checkElf(module.nativeCode, module.kernels, imports.size()));

  code->descriptor = makeSealedFile(module.nativeCode);
  if (code->descriptor < 0)
    return systemError("can't make an anonymous file");
  std::string path = "/proc/self/fd/" + std::to_string(code->descriptor);
  errno = 0;
  code->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!code->handle) {
    bool noMemory = errno == ENOMEM || !canMap(module.nativeCode.size());
    const char *why = dlerror();
    return Status(noMemory ? Code::Resources : Code::Environment,
                  std::string("native code: can't be mapped") +
                      (noMemory ? ", memory is short (" : " (") +
                      (why ? why : "unknown reason") + ")");
  }
  if (!imports.empty()) {
    void *array = dlsym(code->handle, "fusion_imports");
    if (!array)
      return Status(Code::Rejected, "native code: no array 'fusion_imports'");
    std::memcpy(array, imports.data(), imports.size() * sizeof(void *));
  }
  for (const Kernel &kernel : module.kernels) {
    void *function = dlsym(code->handle, kernel.symbol.c_str());
    if (!function)
      return Status(Code::Rejected, "native code: kernel '" +
                                        escape(kernel.symbol) +
                                        "' is not there");
    code->functions.push_back(reinterpret_cast<KernelFunction>(function));
  }
  return code;
}

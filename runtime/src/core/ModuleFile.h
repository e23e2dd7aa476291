//===- ModuleFile.h - Writing and reading modules ---------------*- C++ -*-===//
//
// `writeModule` turns the plain structs into bytes; `readModule` checks bytes
// completely (structure, hashes, program and schedule) and gives the structs
// back. The same struct always gives the same bytes.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_MODULEFILE_H
#define FUSION_RUNTIME_CORE_MODULEFILE_H

#include "ModuleData.h"
#include "Sha256.h"
#include "Status.h"

#include <memory>
#include <string>
#include <vector>

namespace fusion::rt {

/// One section as it lies in the file, for listings.
struct SectionInfo {
  std::string name;
  uint64_t offset = 0, size = 0;
  Digest digest{};
};

/// A verified module over bytes that somebody else keeps alive. `module` holds
/// a copy of the native code (so that what was hashed is what runs) but no
/// constants: those stay where they are, at `constants`.
struct ModuleView {
  Module module;
  const uint8_t *constants = nullptr;
  uint64_t constantsSize = 0;
  uint16_t major = 0, minor = 0;
  uint64_t fileSize = 0;
  Digest digest{}; ///< the preamble's hash: identifies the whole file
  std::vector<SectionInfo> sections;
};

/// A verified module together with the memory its constants live in: a private
/// read-only mapping of a file, or a caller's buffer.
class LoadedModule {
public:
  LoadedModule() = default;
  LoadedModule(const LoadedModule &) = delete;
  LoadedModule &operator=(const LoadedModule &) = delete;
  ~LoadedModule();

  ModuleView view;
  /// The owner and mode of the file, for trust decisions; -1 for memory.
  int64_t ownerId = -1;
  uint32_t mode = 0;
  std::string path; ///< empty for memory

  /// Rejects if the mapped file was changed since it was verified: its mapped
  /// bytes may no longer be what was hashed. Costs one system call.
  Status checkUnchanged() const;

  /// The `view.fileSize` bytes that were verified.
  const uint8_t *fileBytes() const { return bytes; }

private:
  friend Expected<std::shared_ptr<LoadedModule>>
  loadModuleFile(const std::string &path);
  friend Expected<std::shared_ptr<LoadedModule>>
  loadModuleMemory(const void *data, size_t size);
  const uint8_t *bytes = nullptr;
  int descriptor = -1;
  void *mapping = nullptr;
  uint64_t mappingSize = 0;
  int64_t changeSeconds = 0, changeNanoseconds = 0;
};

/// The bytes of a module file. Fails with `BadProgram` if `verifyModule`
/// refuses the module or a limit is exceeded (the message says which), with
/// `Resources` if memory runs out.
Expected<std::vector<uint8_t>> writeModule(const Module &module);

/// Writes a module file atomically: a temporary file in the same directory is
/// written, synced and renamed over `path`. On any error the old file is
/// intact and no temporary file is left. Never follows a symbolic link at
/// `path`: a link is an error.
Status writeModuleFile(const Module &module, const std::string &path);

/// Writes `size` bytes to `path` as `writeModuleFile` does. Without `synced`
/// the file is complete or absent for every process, but after a power failure
/// it may be empty.
Status writeFileAtomically(const std::string &path, const void *data,
                           size_t size, bool synced = true);

/// Verifies `size` bytes at `data` (aligned to 64 bytes) completely. The bytes
/// must outlive the view. Fails with `Rejected`.
Expected<ModuleView> readModule(const void *data, size_t size);

/// Maps and verifies a file. Fails with `Environment` if it can't be opened,
/// `Rejected` if it isn't a module this runtime accepts.
Expected<std::shared_ptr<LoadedModule>> loadModuleFile(const std::string &path);

/// Verifies a module in the caller's memory, which must outlive it.
Expected<std::shared_ptr<LoadedModule>> loadModuleMemory(const void *data,
                                                         size_t size);

/// Identifies what a program does, without kernels' code and weights: the
/// SHA-256 of its encoded form. Ranks of one job compare it.
Expected<Digest> scheduleHash(const Program &program);

/// Identifies the build of compiler and runtime: equal in both if they were
/// built from the same sources. The compiler stores it in `Module::buildId`.
const char *buildId();

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_MODULEFILE_H

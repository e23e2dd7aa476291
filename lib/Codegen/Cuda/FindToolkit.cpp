//===- FindToolkit.cpp - Where NVIDIA's toolkit is ------------------------===//
//
// The assembler and the library of math come from a toolkit of CUDA or from the
// wheels of PyPI, in the folders that either has.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/ChildProcess.h"
#include "fusion/Codegen/DeviceCode.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <algorithm>
#include <cstdlib>

using namespace llvm;

/// Seconds that a program has to say its version.
static constexpr unsigned kVersionSeconds = 30;

/// The folder that the folder of the program `name` on PATH is in, by the
/// program's own place and not that of a link to it; empty if there is none.
static std::string findRootOnPath(StringRef name) {
  auto program = sys::findProgramByName(name);
  if (!program)
    return "";
  SmallString<128> real;
  if (sys::fs::real_path(*program, real))
    return "";
  return sys::path::parent_path(sys::path::parent_path(real)).str();
}

/// The folders of wheels next to the Pythons on PATH, which may be links that a
/// virtual environment made:
/// .../bin/python3 -> .../lib/python3.11/site-packages/nvidia/cu13.
static void appendWheels(std::vector<std::string> &roots) {
  for (StringRef name : {"python3", "python"}) {
    auto python = sys::findProgramByName(name);
    if (!python)
      continue;
    SmallString<128> libraries(
        sys::path::parent_path(sys::path::parent_path(*python)));
    sys::path::append(libraries, "lib");
    std::vector<std::string> found;
    std::error_code error;
    for (sys::fs::directory_iterator at(libraries, error), end;
         !error && at != end; at.increment(error))
      if (sys::path::filename(at->path()).starts_with("python3")) {
        SmallString<128> root(at->path());
        sys::path::append(root, "site-packages", "nvidia", "cu13");
        found.push_back(root.str().str());
      }
    // Folders come in no order.
    std::sort(found.begin(), found.end());
    roots.insert(roots.end(), found.begin(), found.end());
  }
}

/// Roots of what may be a toolkit, in order.
static std::vector<std::string> findRoots() {
  std::vector<std::string> roots;
  if (const char *home = std::getenv("CUDA_HOME"); home && *home)
    roots.push_back(home);
  if (std::string root = findRootOnPath("ptxas"); !root.empty())
    roots.push_back(root);
  roots.push_back("/usr/local/cuda");
  appendWheels(roots);
  return roots;
}

Expected<std::string> fusion::findAssembler(StringRef wanted) {
  if (wanted == "off")
    return std::string();
  if (!wanted.empty()) {
    SmallString<128> path(wanted);
    if (!sys::fs::make_absolute(path) && !sys::fs::is_directory(path) &&
        sys::fs::can_execute(path))
      return path.str().str();
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

/// The last word of "Cuda compilation tools, release 13.0, V13.0.88".
Expected<std::string> fusion::getAssemblerVersion(StringRef path) {
  ChildResult child =
      runChild(path, {path.str(), "--version"}, "", kVersionSeconds);
  if (child.kind == ChildResult::Exited && child.status == 0)
    for (StringRef line : split(child.output, '\n')) {
      auto [head, version] = line.split(", V");
      if (head.starts_with("Cuda compilation tools") && !version.empty())
        return version.trim().str();
    }
  return createStringError("'" + path +
                           "' says no version of ptxas, --ptxas, give the path "
                           "of ptxas, or off");
}

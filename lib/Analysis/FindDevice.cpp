//===- FindDevice.cpp - Where device files are ----------------------------===//
//
// A device is a name, of a file that ships beside the tools, or a path.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/DeviceModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <dlfcn.h>

using namespace llvm;
using namespace fusion;

std::string fusion::findDeviceFolder() {
  SmallVector<std::string, 2> places;
  // The library or tool that holds this code, then the program that runs.
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&fusion::findDeviceFolder), &info) &&
      info.dli_fname)
    places.push_back(info.dli_fname);
  places.push_back(sys::fs::getMainExecutable(
      nullptr, reinterpret_cast<void *>(&fusion::findDeviceFolder)));
  for (StringRef place : places) {
    SmallString<256> folder;
    if (place.empty() || sys::fs::real_path(place, folder))
      continue;
    sys::path::remove_filename(folder);
    sys::path::remove_filename(folder);
    sys::path::append(folder, "share", "fusion", "devices");
    if (sys::fs::is_directory(folder))
      return folder.str().str();
  }
  return "";
}

/// The names of the shipped devices, for messages.
static std::string listDevices(StringRef folder) {
  SmallVector<std::string> names;
  std::error_code error;
  if (!folder.empty())
    for (sys::fs::directory_iterator it(folder, error), end;
         it != end && !error; it.increment(error))
      if (sys::path::extension(it->path()) == ".json")
        names.push_back(sys::path::stem(it->path()).str());
  llvm::sort(names);
  return join(names, ", ");
}

Expected<DeviceModel> DeviceModel::load(StringRef nameOrPath) {
  SmallString<256> path(nameOrPath);
  bool isName = !nameOrPath.contains('/') && !nameOrPath.ends_with(".json");
  std::string folder;
  if (isName) {
    folder = findDeviceFolder();
    path = folder;
    sys::path::append(path, nameOrPath + ".json");
  }
  // A device or a pipe might never end.
  ErrorOr<std::unique_ptr<MemoryBuffer>> file =
      std::make_error_code(std::errc::invalid_argument);
  if (!sys::fs::exists(path))
    file = std::make_error_code(std::errc::no_such_file_or_directory);
  else if (sys::fs::is_regular_file(path))
    file = MemoryBuffer::getFile(path);
  if (file)
    return parse((*file)->getBuffer(), path);
  std::string names = listDevices(folder);
  if (isName && names.empty())
    return createStringError(
        std::make_error_code(std::errc::no_such_file_or_directory),
        "no device files found, --device=" + nameOrPath +
            ", install share/fusion/devices beside bin, or give a path");
  if (isName)
    return createStringError(
        std::make_error_code(std::errc::no_such_file_or_directory),
        "unknown device '" + nameOrPath + "', --device, the devices are: " +
            names + "; or give the path of a JSON file");
  return createStringError(
      std::make_error_code(std::errc::no_such_file_or_directory),
      "cannot read '" + nameOrPath + "': " + file.getError().message() +
          ", --device, give a device's name or the path "
          "of a JSON file");
}

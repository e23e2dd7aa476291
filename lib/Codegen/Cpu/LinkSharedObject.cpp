//===- LinkSharedObject.cpp - lld as a library ----------------------------===//
//
// lld reads and writes paths only, so the object goes through two temporary
// files, readable by this user alone.
//
//===----------------------------------------------------------------------===//
#include "LinkSharedObject.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

Expected<std::vector<uint8_t>> fusion::linkSharedObject(ArrayRef<char> object) {
  SmallString<128> folder;
  if (std::error_code error =
          sys::fs::createUniqueDirectory("fusion-link", folder))
    return createStringError(error, "cannot create a temporary folder: " +
                                        error.message());
  SmallString<128> input(folder), output(folder);
  sys::path::append(input, "kernels.o");
  sys::path::append(output, "kernels.so");
  scope_exit cleanUp([&] {
    sys::fs::remove(input);
    sys::fs::remove(output);
    sys::fs::remove(folder);
  });
  {
    std::error_code error;
    raw_fd_ostream stream(input, error);
    if (!error) {
      stream.write(object.data(), object.size());
      stream.close();
      error = stream.error();
      stream.clear_error();
    }
    if (error)
      return createStringError(error, "cannot write '" + input +
                                          "': " + error.message());
  }
  const char *arguments[] = {"ld.lld",
                             "-shared",
                             "-o",
                             output.c_str(),
                             input.c_str(),
                             "-z",
                             "noexecstack",
                             "-z",
                             "now",
                             "--no-undefined",
                             "--build-id=none",
                             "--hash-style=gnu",
                             "--threads=1",
                             "-s"};
  static std::mutex oneLinkAtATime;
  std::string messages;
  raw_string_ostream stream(messages);
  int code;
  {
    std::lock_guard<std::mutex> lock(oneLinkAtATime);
    code =
        lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}})
            .retCode;
  }
  if (code != 0)
    return createStringError("internal error: the kernels do not link: " +
                             messages);
  ErrorOr<std::unique_ptr<MemoryBuffer>> linked = MemoryBuffer::getFile(
      output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!linked)
    return createStringError(linked.getError(),
                             "cannot read '" + output +
                                 "': " + linked.getError().message());
  StringRef bytes = (*linked)->getBuffer();
  return std::vector<uint8_t>(bytes.bytes_begin(), bytes.bytes_end());
}

//===- LinkSharedObject.cpp - lld as a library ----------------------------===//
//
// lld reads and writes paths only. Here they name descriptors: anonymous
// files with the objects, and a pipe that a thread drains, because lld writes
// straight into what isn't a regular file. Nothing is ever on disk, so nothing
// stays behind when the process is killed.
//
//===----------------------------------------------------------------------===//
#include "LinkSharedObject.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace {

/// A file descriptor, closed at the end of its life.
class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() { close(); }

  void close() {
    if (number >= 0)
      ::close(number);
    number = -1;
  }
  int get() const { return number; }
  /// The path by which this process can open it once more.
  std::string getPath() const {
    return "/proc/self/fd/" + std::to_string(number);
  }

private:
  int number;
};

/// Reads a pipe to its end on a thread of its own.
class PipeReader {
public:
  explicit PipeReader(int descriptor) : descriptor(descriptor) {}

  /// Starts the thread; false, with errno set, if there can be none.
  bool start() {
    errno = pthread_create(&thread, nullptr, &PipeReader::drain, this);
    return errno == 0;
  }

  /// Waits for the end of the pipe and gives what was in it.
  std::vector<uint8_t> finish() {
    pthread_join(thread, nullptr);
    return std::move(bytes);
  }

private:
  static void *drain(void *reader) {
    auto &self = *static_cast<PipeReader *>(reader);
    uint8_t block[1 << 16];
    for (;;) {
      ssize_t size = read(self.descriptor, block, sizeof(block));
      if (size < 0 && errno == EINTR)
        continue;
      if (size <= 0)
        return nullptr;
      self.bytes.insert(self.bytes.end(), block, block + size);
    }
  }

  int descriptor;
  pthread_t thread;
  std::vector<uint8_t> bytes;
};

} // namespace

static Error failWithErrno(const char *what) {
  std::error_code code(errno, std::generic_category());
  return createStringError(
      code, Twine(what) + ", linking the kernels: " + code.message() +
                ", free memory or raise this process's "
                "limits");
}

static Error writeAll(int descriptor, ArrayRef<char> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return failWithErrno("cannot hold the kernels' object in memory");
    bytes = bytes.drop_front(size_t(written));
  }
  return Error::success();
}

/// lld says what the system refused it by the system's words only.
static Error failWithMessages(const std::string &messages) {
  for (int code : {ENOMEM, EMFILE, ENFILE, EAGAIN, ENOSPC})
    if (StringRef(messages).contains(std::generic_category().message(code))) {
      errno = code;
      return failWithErrno("lld cannot open its files");
    }
  return createStringError("internal error: the kernels do not link: " +
                           messages);
}

Expected<std::vector<uint8_t>>
fusion::linkSharedObject(ArrayRef<ArrayRef<char>> objects,
                         bool hasUserObjects) {
  std::vector<std::unique_ptr<Descriptor>> inputs;
  std::vector<std::string> paths;
  for (ArrayRef<char> object : objects) {
    auto input = std::make_unique<Descriptor>(
        memfd_create("fusion-kernels", MFD_CLOEXEC));
    if (input->get() < 0)
      return failWithErrno("cannot make an anonymous file");
    if (Error error = writeAll(input->get(), object))
      return std::move(error);
    paths.push_back(input->getPath());
    inputs.push_back(std::move(input));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return failWithErrno("cannot make a pipe");
  Descriptor readEnd(ends[0]), writeEnd(ends[1]);
  std::string to = writeEnd.getPath();
  PipeReader reader(readEnd.get());
  if (!reader.start())
    return failWithErrno("cannot start a thread to link with");
  std::vector<const char *> arguments = {"ld.lld",
                                         "-shared",
                                         "-o",
                                         to.c_str(),
                                         "-z",
                                         "noexecstack",
                                         "-z",
                                         "now",
                                         "--no-undefined",
                                         "--build-id=none",
                                         "--hash-style=gnu",
                                         "--threads=1",
                                         "-s"};
  // Objects refer to each other without an entry in a table.
  if (paths.size() > 1)
    arguments.push_back("-Bsymbolic");
  for (const std::string &path : paths)
    arguments.push_back(path.c_str());
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
  writeEnd.close(); // the last writer: the reader sees the end
  std::vector<uint8_t> linked = reader.finish();
  // Our own objects always link; others may hold what can't be.
  if (code != 0 && hasUserObjects)
    return createStringError(
        std::make_error_code(std::errc::executable_format_error),
        StringRef(messages).split('\n').first.trim().str());
  if (code != 0)
    return failWithMessages(messages);
  return linked;
}

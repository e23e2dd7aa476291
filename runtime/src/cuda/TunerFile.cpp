//===- TunerFile.cpp - What tuners remember -------------------------------===//
//
// A text file: a first line that says what it is, then a line for each call:
// its name, a tab, the name of the fastest way. Names are compared with those
// that the library gives: nothing that is read is trusted. Files are replaced
// as a whole; of two writers at the same time one may lose what it found, which
// is measured again.
//
//===----------------------------------------------------------------------===//
#include "ModuleFile.h"
#include "Text.h"
#include "Tuner.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

static constexpr std::string_view kFirstLine = "fusion autotune 1\n";
/// Of the file, in bytes, and of a line.
static constexpr size_t kMostBytes = size_t(16) << 20, kMostLine = 1024;

std::string Tuner::defaultFile() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  // The standard: a path that is not absolute does not count.
  if (cache && *cache == '/')
    return std::string(cache) + "/fusion/autotune";
  const char *home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/fusion/autotune"
                              : std::string();
}

static bool isPrintable(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c <= '~';
  });
}

/// The bytes of a plain file; 0 or an error number.
static int readWhole(const std::string &path, std::string &text) {
  // Not waiting for a writer, if it is a pipe.
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return errno;
  struct stat info;
  int error = ::fstat(file, &info) != 0          ? errno
              : !S_ISREG(info.st_mode)           ? EINVAL
              : info.st_size > off_t(kMostBytes) ? EFBIG
                                                 : 0;
  char buffer[4096];
  while (error == 0 && text.size() <= kMostBytes) {
    ssize_t got = ::read(file, buffer, sizeof(buffer));
    if (got > 0)
      text.append(buffer, size_t(got));
    else if (got == 0)
      break;
    else if (errno != EINTR)
      error = errno;
  }
  ::close(file);
  return error;
}

bool Tuner::read(Entries &entries) {
  if (file.empty())
    return true;
  std::string text;
  int error = readWhole(file, text);
  if (error == ENOENT || error == ENOTDIR)
    return true;
  std::string named = "'" + escape(file) + "'";
  if (error != 0) {
    note(named + " can't be read (" + std::strerror(error) +
         "): all is measured again, and nothing is remembered");
    return false;
  }
  if (text.empty())
    return true;
  if (text.compare(0, kFirstLine.size(), kFirstLine) != 0) {
    note(named + " is no file of this version's autotune, and is left as it "
                 "is: nothing is remembered; move it away");
    return false;
  }
  size_t damaged = 0;
  for (size_t at = kFirstLine.size(); at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    size_t tab = line.find('\t');
    // The last line has its end too, or was cut.
    if (end == text.size() || line.size() > kMostLine ||
        tab == std::string_view::npos || !isPrintable(line.substr(0, tab)) ||
        !isPrintable(line.substr(tab + 1)))
      ++damaged;
    else
      entries[std::string(line.substr(0, tab))] = line.substr(tab + 1);
    at = end + 1;
  }
  if (damaged)
    note(named + " is damaged (lines: " + std::to_string(damaged) +
         "); what they held is measured again");
  return true;
}

void Tuner::save() {
  if (added.empty() || !mayWrite)
    return;
  if (file.empty()) {
    note("neither XDG_CACHE_HOME nor HOME is set: nothing is remembered");
    added.clear();
    return;
  }
  for (size_t at = file.find('/', 1); at != std::string::npos;
       at = file.find('/', at + 1))
    ::mkdir(file.substr(0, at).c_str(), 0700); // or it is there
  Entries all;
  if (!read(all)) {
    mayWrite = false;
    return;
  }
  for (const auto &[key, name] : added)
    all[key] = name;
  std::string text(kFirstLine);
  for (const auto &[key, name] : all)
    text += key + '\t' + name + '\n';
  Status written = writeFileAtomically(file, text.data(), text.size());
  if (!written.ok())
    note("nothing is remembered: " + written.message());
  added.clear();
}

//===- DeviceReader.h - Reading a device file -------------------*- C++ -*-===//
//
// The JSON parser forgets lines and takes the last of two equal keys, so a scan
// of the text that it accepted finds both. Private to lib/Analysis: the keys of
// a kernel's cost are read in DeviceModel.cpp, those of `comm` in
// DeviceComm.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_ANALYSIS_DEVICEREADER_H
#define FUSION_LIB_ANALYSIS_DEVICEREADER_H

#include "fusion/Analysis/DeviceModel.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace fusion {

inline constexpr llvm::StringLiteral kComm = "comm";

/// Where the keys of an accepted JSON text stand. Keys are dotted paths, list
/// elements count as keys: `links.0.name`.
class KeyLines {
public:
  explicit KeyLines(llvm::StringRef text);

  unsigned getLine(llvm::StringRef path) const {
    auto it = lines.find(path);
    return it == lines.end() ? 1 : it->second;
  }
  llvm::StringMap<unsigned> lines;
  /// The first key that stands twice, if any.
  std::string repeated;

private:
  struct Level {
    std::string prefix;
    bool isObject;
    bool expectsKey;
    unsigned element = 0;
  };
};

/// The dotted path of a key.
inline std::string getPath(llvm::StringRef prefix, llvm::StringRef key) {
  return prefix.empty() ? key.str() : (prefix + "." + key).str();
}

/// Reads one file. Errors have the line of the key.
class DeviceReader {
public:
  DeviceReader(llvm::StringRef text, llvm::StringRef path)
      : path(path), lines(text) {}

  llvm::Error read(const llvm::json::Value &root, DeviceModel &device);

private:
  /// Exact in a double, and any product of two that is formed fits 64 bits or
  /// is formed in doubles.
  static constexpr int64_t kMost = int64_t(1) << 53;

  llvm::Error fail(llvm::StringRef key, const llvm::Twine &message) const {
    return llvm::createStringError(
        std::make_error_code(std::errc::invalid_argument),
        path + ":" + llvm::Twine(lines.getLine(key)) + ": " + message);
  }
  /// Refuses what is neither in `keys` nor in `optional`, and asks for `keys`.
  llvm::Error checkKeys(const llvm::json::Object &object,
                        llvm::StringRef prefix,
                        llvm::ArrayRef<llvm::StringRef> keys,
                        llvm::ArrayRef<llvm::StringRef> optional = {}) const;
  llvm::Expected<double> getNumber(const llvm::json::Object &object,
                                   llvm::StringRef prefix, llvm::StringRef key,
                                   bool mayBeZero) const;
  /// A whole number from `least` to `most`.
  llvm::Expected<int64_t> getWhole(const llvm::json::Object &object,
                                   llvm::StringRef prefix, llvm::StringRef key,
                                   int64_t least, int64_t most = kMost) const;
  llvm::Expected<int64_t> getWhole(std::optional<double> number,
                                   llvm::StringRef path, int64_t least,
                                   int64_t most) const;
  llvm::Expected<std::string> getText(const llvm::json::Object &object,
                                      llvm::StringRef prefix,
                                      llvm::StringRef key) const;
  llvm::Error readRates(const llvm::json::Object &root,
                        DeviceModel &device) const;
  llvm::Error readKernels(const llvm::json::Object &root,
                          DeviceModel &device) const;
  llvm::Error readLinks(const llvm::json::Object &root,
                        DeviceModel &device) const;
  llvm::Expected<const llvm::json::Object *>
  getObject(const llvm::json::Value &value, llvm::StringRef path) const;
  llvm::Error readProtocol(const llvm::json::Object &object,
                           llvm::StringRef prefix,
                           CommProtocol &protocol) const;
  llvm::Error readCommLink(const llvm::json::Object &object,
                           llvm::StringRef prefix, CommLink &link) const;
  llvm::Error readCommTable(const llvm::json::Object &ops,
                            llvm::StringRef prefix, llvm::StringRef op,
                            CommTable &table) const;
  llvm::Error readTransport(const llvm::json::Object &object,
                            llvm::StringRef prefix,
                            CommTransport &transport) const;
  llvm::Error readTransports(const llvm::json::Object &object,
                             DeviceComm &comm) const;
  llvm::Error readComm(const llvm::json::Object &root,
                       DeviceModel &device) const;

  llvm::StringRef path;
  KeyLines lines;
};

/// Writes the members of `comm`.
void printComm(const DeviceComm &comm, llvm::json::OStream &out);

} // namespace fusion

#endif // FUSION_LIB_ANALYSIS_DEVICEREADER_H

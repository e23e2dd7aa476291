//===- Messages.cpp - Errors about a model, for people --------------------===//
//
// See Messages.h. MLIR's own handler finds the file and the line; what it wrote
// is cut here.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/Messages.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace fusion;

/// Bytes of a line, of its part that stays in front, and of a line of a model
/// around the column.
static constexpr size_t kMostBytes = 1000, kHeadBytes = 700, kTailBytes = 250,
                        kSourceBytes = 160;
static constexpr StringLiteral kCut = "...";

/// The first place from `at` on that begins a character of UTF-8.
static size_t getBoundary(StringRef text, size_t at) {
  while (at < text.size() && (text[at] & 0xc0) == 0x80)
    ++at;
  return std::min(at, text.size());
}

static std::string shortenLine(StringRef line) {
  if (line.size() <= kMostBytes)
    return line.str();
  return (line.take_front(getBoundary(line, kHeadBytes)) + kCut +
          line.drop_front(getBoundary(line, line.size() - kTailBytes)))
      .str();
}

std::string fusion::shortenMessage(StringRef message) {
  SmallVector<StringRef> lines;
  message.split(lines, '\n');
  return llvm::join(llvm::map_range(lines, shortenLine), "\n");
}

static bool isMarker(StringRef line) {
  return line.contains('^') && line.find_first_not_of(" ^~") == line.npos;
}

/// The part of a model's line around the column that `marker` points at.
static std::string shortenSource(StringRef line, StringRef marker) {
  size_t column = marker.find('^');
  size_t begin = column < kSourceBytes / 2 ? 0 : column - kSourceBytes / 2;
  begin = getBoundary(line, begin);
  size_t end = getBoundary(line, std::min(begin + kSourceBytes, line.size()));
  std::string source = line.slice(begin, end).str();
  std::string marks = marker.slice(begin, end).rtrim().str();
  if (end < line.size())
    source += kCut;
  if (begin > 0) {
    source = kCut.str() + source;
    marks = std::string(kCut.size(), ' ') + marks;
  }
  return source + "\n" + marks;
}

/// A diagnostic as MLIR prints it: the message, maybe the line, maybe a marker
/// under it.
static std::string shortenDiagnostic(StringRef text) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  std::string result;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0)
      result += '\n';
    if (lines[i].size() > kSourceBytes && i + 1 < lines.size() &&
        isMarker(lines[i + 1])) {
      result += shortenSource(lines[i], lines[i + 1]);
      ++i;
    } else {
      result += shortenLine(lines[i]);
    }
  }
  return result;
}

std::string fusion::describePlace(Location location) {
  if (auto file = location->findInstanceOf<FileLineColLoc>())
    return (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" +
            Twine(file.getColumn()))
        .str();
  if (auto name = location->findInstanceOf<NameLoc>())
    return "op '" + shortenMessage(name.getName().getValue()) + "'";
  return std::string();
}

MessageHandler::MessageHandler(llvm::SourceMgr &sources, MLIRContext *context,
                               llvm::raw_ostream &os)
    : SourceMgrDiagnosticHandler(sources, context, MessageText::stream),
      out(os) {
  setHandler([this](Diagnostic &diagnostic) {
    print(diagnostic.getLocation(), diagnostic.str(), diagnostic.getSeverity());
    for (Diagnostic &note : diagnostic.getNotes())
      print(note.getLocation(), note.str(), note.getSeverity());
  });
}

static StringRef stringify(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return "note";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Remark:
    return "remark";
  }
  llvm_unreachable("a severity");
}

void MessageHandler::print(Location location, const std::string &message,
                           DiagnosticSeverity severity) {
  if (location->findInstanceOf<FileLineColLoc>()) {
    emitDiagnostic(location, message, severity);
    out << shortenDiagnostic(text);
    text.clear();
    return;
  }
  out << stringify(severity) << ": ";
  if (std::string place = describePlace(location); !place.empty())
    out << "at " << place << ": ";
  out << shortenMessage(message) << "\n";
}

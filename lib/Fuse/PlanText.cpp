//===- PlanText.cpp - JSON that knows its lines ---------------------------===//
//
// One pass over the text with a stack of the arrays and objects that are open.
//
//===----------------------------------------------------------------------===//
#include "PlanText.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace fusion;

static constexpr size_t kMaxDepth = 32;

char PlanTextError::ID = 0;

void PlanTextError::log(llvm::raw_ostream &os) const {
  os << "line " << line << ": " << message;
}

std::error_code PlanTextError::convertToErrorCode() const {
  return llvm::inconvertibleErrorCode();
}

llvm::Error fusion::failAt(const PlanValue &value, const llvm::Twine &message) {
  return llvm::make_error<PlanTextError>(value.line, value.column,
                                         message.str());
}

const PlanValue *PlanValue::find(llvm::StringRef key) const {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i] == key)
      return &values[i];
  return nullptr;
}

llvm::StringRef PlanValue::describe() const {
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Boolean:
    return "a boolean";
  case Kind::Number:
    return "a number";
  case Kind::String:
    return "a string";
  case Kind::Array:
    return "an array";
  case Kind::Object:
    return "an object";
  }
  return "";
}

namespace {

class Reader {
public:
  explicit Reader(llvm::StringRef text) : text(text) {}

  llvm::Expected<PlanValue> run();

private:
  /// An array or object whose end was not reached, and the keys seen so far.
  struct Open {
    PlanValue value;
    llvm::StringSet<> keys;
    std::string key;
  };

  llvm::Error fail(const llvm::Twine &message) const {
    return llvm::make_error<PlanTextError>(line, position - lineStart + 1,
                                           message.str());
  }
  void skipSpace();
  char peek() const { return position < text.size() ? text[position] : '\0'; }
  llvm::Expected<std::string> readString();
  llvm::Error readScalar(PlanValue &value);
  llvm::Error readKey(Open &object);
  /// What is expected at a place where something else stands.
  llvm::Error unexpected(llvm::StringRef wanted) const;

  llvm::StringRef text;
  size_t position = 0, lineStart = 0;
  unsigned line = 1;
};

} // namespace

void Reader::skipSpace() {
  for (; position < text.size(); ++position) {
    char c = text[position];
    if (c == '\n') {
      ++line;
      lineStart = position + 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

llvm::Error Reader::unexpected(llvm::StringRef wanted) const {
  if (position >= text.size())
    return fail("the file ends where " + wanted + " is expected");
  char c = text[position];
  std::string found = llvm::isPrint(c)
                          ? std::string(1, c)
                          : "\\x" + llvm::toHex(llvm::StringRef(&c, 1));
  return fail("'" + found + "' where " + wanted + " is expected");
}

llvm::Expected<std::string> Reader::readString() {
  size_t end = position + 1;
  while (end < text.size() && text[end] != '"' && text[end] != '\n')
    end += text[end] == '\\' ? 2 : 1;
  if (end >= text.size() || text[end] != '"')
    return fail("a string without an end");
  llvm::Expected<llvm::json::Value> value =
      llvm::json::parse(text.slice(position, end + 1));
  if (!value) {
    llvm::consumeError(value.takeError());
    return fail("a string with an escape or character that JSON does not have");
  }
  position = end + 1;
  return value->getAsString()->str();
}

llvm::Error Reader::readScalar(PlanValue &value) {
  if (peek() == '"') {
    value.kind = PlanValue::Kind::String;
    llvm::Expected<std::string> string = readString();
    if (!string)
      return string.takeError();
    value.text = std::move(*string);
    return llvm::Error::success();
  }
  llvm::StringRef word = text.substr(position).take_while([](char c) {
    return llvm::isAlnum(c) || c == '.' || c == '+' || c == '-';
  });
  if (word.empty())
    return unexpected("a value");
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(word);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return fail("'" + word.take_front(40) +
                "' is no JSON value; strings stand "
                "in double quotes");
  }
  position += word.size();
  value.text = word.str();
  value.kind =
      parsed->kind() == llvm::json::Value::Number    ? PlanValue::Kind::Number
      : parsed->kind() == llvm::json::Value::Boolean ? PlanValue::Kind::Boolean
                                                     : PlanValue::Kind::Null;
  return llvm::Error::success();
}

llvm::Error Reader::readKey(Open &object) {
  if (peek() != '"')
    return unexpected("a key in double quotes");
  size_t start = position;
  llvm::Expected<std::string> key = readString();
  if (!key)
    return key.takeError();
  if (!object.keys.insert(*key).second) {
    position = start;
    return fail("the key '" + *key + "' stands twice in one object");
  }
  object.key = std::move(*key);
  skipSpace();
  if (peek() != ':')
    return unexpected("':'");
  ++position;
  skipSpace();
  return llvm::Error::success();
}

llvm::Expected<PlanValue> Reader::run() {
  std::vector<Open> stack;
  skipSpace();
  while (true) {
    // A value starts here.
    PlanValue value;
    value.line = line;
    value.column = position - lineStart + 1;
    char c = peek();
    if (c == '{' || c == '[') {
      bool isObject = c == '{';
      value.kind = isObject ? PlanValue::Kind::Object : PlanValue::Kind::Array;
      ++position;
      skipSpace();
      if (peek() != (isObject ? '}' : ']')) {
        if (stack.size() == kMaxDepth)
          return fail("arrays and objects nested more than " +
                      llvm::Twine(kMaxDepth) + " deep");
        stack.push_back({std::move(value), {}, {}});
        if (isObject)
          if (llvm::Error error = readKey(stack.back()))
            return std::move(error);
        continue;
      }
      ++position;
    } else if (llvm::Error error = readScalar(value)) {
      return std::move(error);
    }
    // It is complete, and may complete those around it.
    while (true) {
      skipSpace();
      if (stack.empty()) {
        if (position < text.size())
          return unexpected("the end of the file");
        return value;
      }
      Open &open = stack.back();
      bool isObject = open.value.kind == PlanValue::Kind::Object;
      open.value.values.push_back(std::move(value));
      if (isObject)
        open.value.keys.push_back(std::move(open.key));
      if (peek() == ',') {
        ++position;
        skipSpace();
        if (isObject)
          if (llvm::Error error = readKey(open))
            return std::move(error);
        break;
      }
      if (peek() != (isObject ? '}' : ']'))
        return unexpected(isObject ? "',' or '}'" : "',' or ']'");
      ++position;
      value = std::move(open.value);
      stack.pop_back();
    }
  }
}

llvm::Expected<PlanValue> fusion::parsePlanText(llvm::StringRef text) {
  return Reader(text).run();
}

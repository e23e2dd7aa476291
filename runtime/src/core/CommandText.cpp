//===- CommandText.cpp - A command in a message ---------------------------===//
//
// See CommandText.h. Commands that only order streams come from no op, so they
// have no name: what they do says more than a pair of quotes.
//
//===----------------------------------------------------------------------===//
#include "CommandText.h"
#include "Text.h"

using namespace fusion::rt;

const char *fusion::rt::commandKind(CommandKind kind) {
  switch (kind) {
  case CommandKind::Launch:
    return "launch";
  case CommandKind::Call:
    return "call";
  case CommandKind::Copy:
    return "copy";
  case CommandKind::Collective:
    return "collective";
  case CommandKind::Record:
    return "record";
  case CommandKind::Wait:
    return "wait";
  }
  return "unknown";
}

std::string fusion::rt::commandText(const Program &program, size_t index,
                                    size_t limit) {
  const Command &command = program.commands[index];
  std::string text = "command " + std::to_string(index);
  if (!command.name.empty())
    return text + " '" + escape(command.name, limit) + "'";
  // Which collective it is, is left to the caller.
  return command.kind == CommandKind::Collective
             ? text
             : text + " (" + commandKind(command.kind) + ")";
}

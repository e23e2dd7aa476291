//===- CommandText.h - A command in a message -------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CORE_COMMANDTEXT_H
#define FUSION_RUNTIME_CORE_COMMANDTEXT_H

#include "ModuleData.h"

#include <string>

namespace fusion::rt {

/// "launch", "call", "copy", "collective", "record", "wait".
const char *commandKind(CommandKind kind);

/// "command 79 'x'", with at most `limit` bytes of the name; "command 79
/// (wait)" of one without. What kind of collective it is, is left to the
/// caller. `index` must be one of the program's.
std::string commandText(const Program &program, size_t index,
                        size_t limit = 4096);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_COMMANDTEXT_H

//===- Interrupt.h - Ordered stops on signals -------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_INTERRUPT_H
#define FUSION_RUNTIME_TOOLS_RUN_INTERRUPT_H

#include <csignal>

namespace fusion::rt {

/// Installs the tool's signal handling: the first SIGINT, SIGTERM or SIGHUP
/// asks for an ordered stop, the second kills; SIGPIPE becomes a write error;
/// SIGBUS (a mapped module was truncated) ends with exit code 4. Also makes
/// sure descriptors 0 to 2 are open, so that no file takes their numbers.
void installSignalHandling();

/// The signal that asked for a stop, or 0.
int interruptSignal();

/// Not zero once a stop was asked for; for `SessionOptions::stop`.
const volatile std::sig_atomic_t *interruptFlag();

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_INTERRUPT_H

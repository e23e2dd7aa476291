//===- Trust.h - Whether a module's native code may run ---------*- C++ -*-===//
#ifndef FUSION_RUNTIME_SESSION_TRUST_H
#define FUSION_RUNTIME_SESSION_TRUST_H

#include "ModuleFile.h"
#include "Status.h"

namespace fusion::rt {

/// Decides by `rule` whether the user consents to run native code of `module`:
///
///   own         the file is owned by the effective user, nobody else can write
///               it, and its code comes from this very build
///   all         always
///   signed:KEY  `<path>.sig` is an Ed25519 signature over the whole file by
///               the public key in the PEM file KEY
///
/// A hash shows damage, only a signature shows tampering. Errors: `Rejected`
/// with what to do, `Usage` for an unknown rule or unreadable key.
Status checkTrust(const LoadedModule &module, const std::string &rule);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_SESSION_TRUST_H

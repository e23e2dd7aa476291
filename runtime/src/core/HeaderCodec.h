//===- HeaderCodec.h - Module structs <-> FlatBuffer header -----*- C++ -*-===//
//
// The only place that knows the generated FlatBuffers types.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_HEADERCODEC_H
#define FUSION_RUNTIME_CORE_HEADERCODEC_H

#include "ModuleData.h"
#include "Status.h"

#include <vector>

namespace fusion::rt {

/// The header section of `module` (everything but native code and constants).
/// Throws std::bad_alloc; the caller is `writeModule`.
Expected<std::vector<uint8_t>> encodeHeader(const Module &module);

/// Parses an untrusted header. Checks the encoding, enum values, names and
/// element counts, but not what the program means (that is `verifyModule`).
Expected<Module> decodeHeader(const uint8_t *data, size_t size);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_HEADERCODEC_H

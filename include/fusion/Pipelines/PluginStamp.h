//===- PluginStamp.h - What a plugin was built against ----------*- C++ -*-===//
//
// The text in a plugin's ELF note. Tools and plugins compare it, so that code
// built against other classes is refused before any of it runs.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PIPELINES_PLUGINSTAMP_H
#define FUSION_PIPELINES_PLUGINSTAMP_H

#include "fusion/Pipelines/PluginAbi.inc"
#include "llvm/Config/llvm-config.h"

/// "Fusion 0.1.0 (headers 0123456789ab, LLVM 22.1.8)"; all must agree but
/// LLVM's last number, as its patch releases keep their interface.
#define FUSION_PLUGIN_STAMP                                                    \
  "Fusion " FUSION_PLUGIN_ABI ", LLVM " LLVM_VERSION_STRING ")"

#endif // FUSION_PIPELINES_PLUGINSTAMP_H

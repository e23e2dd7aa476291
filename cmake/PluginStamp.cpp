//===- PluginStamp.cpp - What a plugin was built against ------------------===//
//
// fusion_add_plugin compiles this into every plugin: an ELF note with the
// versions, which the tools read before they load anything of the file.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/PluginStamp.h"

// namesz 7, descsz by the labels, type 1; each padded to 4 bytes.
__asm__(".pushsection .note.fusion,\"a\",%note\n"
        "  .balign 4\n"
        "  .long 7, 2f - 1f, 1\n"
        "  .asciz \"Fusion\"\n"
        "  .balign 4\n"
        "1: .ascii \"" FUSION_PLUGIN_STAMP "\"\n"
        "2: .balign 4\n"
        ".popsection\n");

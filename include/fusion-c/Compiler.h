/*===- fusion-c/Compiler.h - The compiler as a C library ----------*- C -*-===*\
|*
|* Text or bytecode in, artifact out. One call is one compilation; calls from
|* several threads are independent. No exception and no C++ type crosses this
|* border.
|*
\*===----------------------------------------------------------------------===*/
#ifndef FUSION_C_COMPILER_H
#define FUSION_C_COMPILER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FUSION_C_API __attribute__((visibility("default")))

/** Changes when a declaration of this header changes its meaning. */
#define FUSION_COMPILER_ABI 1

/** The ABI that the library was built with: compare with FUSION_COMPILER_ABI.
 */
FUSION_C_API int fusion_compiler_abi(void);

/** The compiler's version, a static string such as "0.1.0". */
FUSION_C_API const char *fusion_compiler_version(void);

/** The outcome of one compilation; owned by the caller. */
typedef struct fusion_compile_result fusion_compile_result;

/**
 * Compiles `source` (MLIR text or bytecode of `size` bytes; need not end in a
 * zero). `options` are `count` strings as on fusion-compile's command line
 * ("--cpu=x86-64-v3", "--stop-after=fuse", "--explain"), without input and
 * output. Parameters' files are relative to `folder` (NULL: the working
 * folder). A model with C kernels starts a C compiler and waits for it, unless
 * "--c-compiler=off" is among the options. Never returns NULL, unless memory
 * for the result itself cannot be had.
 */
FUSION_C_API fusion_compile_result *
fusion_compile(const char *source, size_t size, const char *folder,
               const char *const *options, size_t count);

/** 0 on success, else the exit code of fusion-compile for the same fault. */
FUSION_C_API int
fusion_compile_result_code(const fusion_compile_result *result);

/** Errors and warnings as text, ending in a zero; "" if there are none. */
FUSION_C_API const char *
fusion_compile_result_messages(const fusion_compile_result *result);

/** What --explain prints, ending in a zero; "" without --explain. */
FUSION_C_API const char *
fusion_compile_result_explanation(const fusion_compile_result *result);

/**
 * The executable module, or the IR's text with --stop-after. Sets `*size` to
 * its bytes. NULL with size 0 on failure.
 */
FUSION_C_API const void *
fusion_compile_result_artifact(const fusion_compile_result *result,
                               size_t *size);

/** Frees a result; NULL is allowed. */
FUSION_C_API void fusion_compile_result_free(fusion_compile_result *result);

#ifdef __cplusplus
}
#endif

#endif /* FUSION_C_COMPILER_H */

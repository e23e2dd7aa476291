/*===- fusion_rt.h - C ABI of the Fusion runtime --------------------*- C -*-===
 *
 * Loads executable modules (*.fsn) and runs them on caller-owned buffers. Plain
 * C89 so that any language can bind it. Objects are opaque; every function that
 * can fail returns NULL for success or an error object the caller destroys. No
 * exception crosses this border.
 *
 * Threads: a module may be shared by threads; a session is used by one thread
 * at a time.
 *
 *===----------------------------------------------------------------------===*/
#ifndef FUSION_RT_H
#define FUSION_RT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FUSION_RT_EXPORT __attribute__((visibility("default")))
#else
#define FUSION_RT_EXPORT
#endif

/* Raised when this header changes incompatibly. */
#define FUSION_RT_ABI_VERSION 1

typedef struct fusion_rt_error fusion_rt_error;
typedef struct fusion_rt_module fusion_rt_module;
typedef struct fusion_rt_session fusion_rt_session;

/* What kind of error; also the exit code of the command-line tools. */
typedef enum fusion_rt_code {
  FUSION_RT_OK = 0,
  FUSION_RT_CHECK_FAILED = 1,
  FUSION_RT_USAGE = 2,
  FUSION_RT_BAD_PROGRAM = 3,
  FUSION_RT_REJECTED = 4,
  FUSION_RT_ENVIRONMENT = 5,
  FUSION_RT_RESOURCES = 6,
  FUSION_RT_PEER_FAILED = 7,
  FUSION_RT_TIMEOUT = 8,
  FUSION_RT_INTERNAL = 9
} fusion_rt_code;

/* Element types. i1 is one byte, 0 or 1; f16 and bf16 are 16-bit patterns. */
typedef enum fusion_rt_dtype {
  FUSION_RT_F64 = 0,
  FUSION_RT_F32 = 1,
  FUSION_RT_F16 = 2,
  FUSION_RT_BF16 = 3,
  FUSION_RT_I1 = 4,
  FUSION_RT_I8 = 5,
  FUSION_RT_I32 = 6,
  FUSION_RT_I64 = 7
} fusion_rt_dtype;

/* A dimension: scale * B + base, where B is the batch size of a run. */
typedef struct fusion_rt_dim {
  long scale;
  long base;
} fusion_rt_dim;

/* An input or output; pointers live as long as the module. */
typedef struct fusion_rt_tensor {
  const char *name;
  fusion_rt_dtype dtype;
  size_t rank;
  const fusion_rt_dim *shape;
  long donated_to; /* inputs: the output that takes over its bytes, or -1 */
} fusion_rt_tensor;

typedef struct fusion_rt_session_options {
  size_t struct_size;         /* sizeof(fusion_rt_session_options) */
  const char *backend;        /* "cpu", "cuda", "null"; NULL: the target's */
  const char *trust;          /* "own" (NULL), "all", "signed:KEY" */
  int threads;                /* 0: all CPUs this process may use */
  unsigned long memory_limit; /* bytes; 0: none */
  int device;                 /* cuda: which GPU */
  double timeout;             /* cuda: seconds that a run may take; 0: 60,
                                 negative: any time */
  int autotune;               /* cuda: not 0: time the libraries' algorithms,
                                 and remember the fastest */
} fusion_rt_session_options;

/* Entries into the backend since the session was created. */
typedef struct fusion_rt_counters {
  unsigned long runs, launches, tails, calls, copies, records, waits;
  unsigned long bytes_read, bytes_written; /* planned sizes */
} fusion_rt_counters;

/* Memory of a session in bytes. */
typedef struct fusion_rt_memory {
  unsigned long arena, packed_weights, scratchpad, staging;
} fusion_rt_memory;

/* "0.1.0"; the ABI version the library was built with; the build's id. */
FUSION_RT_EXPORT const char *fusion_rt_version(void);
FUSION_RT_EXPORT int fusion_rt_abi_version(void);
FUSION_RT_EXPORT const char *fusion_rt_build_id(void);

/* The strings live as long as the error. `op` names a command or is "". */
FUSION_RT_EXPORT fusion_rt_code fusion_rt_error_code(const fusion_rt_error *);
FUSION_RT_EXPORT const char *fusion_rt_error_message(const fusion_rt_error *);
FUSION_RT_EXPORT const char *fusion_rt_error_op(const fusion_rt_error *);
FUSION_RT_EXPORT int fusion_rt_error_rank(const fusion_rt_error *);
FUSION_RT_EXPORT void fusion_rt_error_destroy(fusion_rt_error *);

/* Maps or views a module and verifies all of it; runs nothing. The bytes given
 * to the second function are copied. */
FUSION_RT_EXPORT fusion_rt_error *
fusion_rt_module_load_file(const char *path, fusion_rt_module **module);
FUSION_RT_EXPORT fusion_rt_error *
fusion_rt_module_load_memory(const void *data, size_t size,
                             fusion_rt_module **module);
/* Sessions keep what they need: a module may be destroyed before them. */
FUSION_RT_EXPORT void fusion_rt_module_destroy(fusion_rt_module *module);

FUSION_RT_EXPORT const char *
fusion_rt_module_name(const fusion_rt_module *module);
FUSION_RT_EXPORT void
fusion_rt_module_batch_range(const fusion_rt_module *module, long *minimum,
                             long *maximum);
FUSION_RT_EXPORT size_t
fusion_rt_module_input_count(const fusion_rt_module *module);
FUSION_RT_EXPORT size_t
fusion_rt_module_output_count(const fusion_rt_module *module);
/* `index` below the count; NULL otherwise. */
FUSION_RT_EXPORT const fusion_rt_tensor *
fusion_rt_module_input(const fusion_rt_module *module, size_t index);
FUSION_RT_EXPORT const fusion_rt_tensor *
fusion_rt_module_output(const fusion_rt_module *module, size_t index);

/* Loads native code (if `trust` allows it) and allocates everything a run at
 * the largest batch needs. `options` may be NULL. */
FUSION_RT_EXPORT fusion_rt_error *
fusion_rt_session_create(fusion_rt_module *module,
                         const fusion_rt_session_options *options,
                         fusion_rt_session **session);
FUSION_RT_EXPORT void fusion_rt_session_destroy(fusion_rt_session *session);

/* Makes everything for another batch size, so that its first run is fast. */
FUSION_RT_EXPORT fusion_rt_error *
fusion_rt_session_prepare(fusion_rt_session *session, long batch);

/* On the cuda backend, inputs and outputs of a run may be buffers of the host,
 * which are copied, or of the GPU, which are used in place if they start at a
 * multiple of 16 bytes. Outputs that lie in one piece on the GPU, in the
 * module's order and each at a multiple of 256 bytes, let a library compute
 * equal ones at once. */

/* Runs once. inputs[i] and outputs[i] are dense row-major tensors in the
 * module's order; input_sizes[i] and output_sizes[i] are their bytes, which
 * must be exactly what the shapes at `batch` say. Output buffers overlap
 * nothing, except that a donated input may be the very buffer of its output. */
FUSION_RT_EXPORT fusion_rt_error *
fusion_rt_session_run(fusion_rt_session *session, long batch,
                      const void *const *inputs, const size_t *input_sizes,
                      void *const *outputs, const size_t *output_sizes);

/* The same on a CUDA stream (a CUstream or cudaStream_t) of the primary context
 * of the session's GPU: puts the run there and returns. All buffers are the
 * GPU's and start at multiples of 16 bytes; a donated input is its output's
 * buffer. Runs of one session must follow each other.
 *
 * A stream that is being captured gets the session's commands instead, as nodes
 * of the caller's graph; nothing is allocated, waited for or run. The batch has
 * been prepared before (the largest one is, when a session is made), or the
 * answer is FUSION_RT_USAGE; the same for buffers of the host. Such a run
 * counts once, its replays do not. The session lives longer than the graph, and
 * does not know of its replays: the caller keeps them and other runs of the
 * session in order. */
FUSION_RT_EXPORT fusion_rt_error *
fusion_rt_session_enqueue(fusion_rt_session *session, long batch,
                          const void *const *inputs, const size_t *input_sizes,
                          void *const *outputs, const size_t *output_sizes,
                          void *stream);

/* Seconds the last run took, by a monotonic clock. */
FUSION_RT_EXPORT double
fusion_rt_session_last_seconds(const fusion_rt_session *session);
FUSION_RT_EXPORT void
fusion_rt_session_counters(const fusion_rt_session *session,
                           fusion_rt_counters *counters);
/* What the user should know of how the model runs here, one line each: that a
 * library lacks a call, say, and a slower kernel stands in for it. NULL behind
 * the last one. Valid until the session is used again. */
FUSION_RT_EXPORT const char *fusion_rt_session_note(fusion_rt_session *session,
                                                    size_t index);
FUSION_RT_EXPORT void fusion_rt_session_memory(const fusion_rt_session *session,
                                               fusion_rt_memory *memory);

#ifdef __cplusplus
}
#endif

#endif /* FUSION_RT_H */

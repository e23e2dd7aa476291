/*===- no_memory.c - Takes the memory away at the n-th allocation -----------===
 *
 * Preloaded into a tool. Before allocation number $FAIL_AT (from 0) the process
 * gets no more address space, neither for its heap nor for its stack. The file
 * $FAIL_MARK exists afterwards if that allocation was reached.
 *
 *===----------------------------------------------------------------------===*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);

void *malloc(size_t size) {
  static long calls, at = -2;
  if (at == -2) {
    const char *text = getenv("FAIL_AT");
    at = text ? atol(text) : -1;
  }
  if (__atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST) == at) {
    long mark =
        syscall(SYS_open, getenv("FAIL_MARK"), O_CREAT | O_WRONLY, 0600);
    syscall(SYS_close, mark);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_AS, &none);
  }
  return __libc_malloc(size);
}

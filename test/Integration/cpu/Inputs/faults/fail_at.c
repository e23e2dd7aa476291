/*===- fail_at.c - Makes the n-th write to a file fail ----------------------===
 *
 * Preloaded into a tool. Counts the calls that create, fill, sync, link or
 * rename regular files; at call number $FAIL_AT (from 0) it fails with errno
 * $FAIL_ERRNO, or, with $FAIL_SIGNAL, sends that signal to the process first.
 * The file $FAIL_MARK exists afterwards if the call was reached.
 *
 *===----------------------------------------------------------------------===*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;

/* Whether this call must fail; errno is set then. */
static int strike(void) {
  const char *at = getenv("FAIL_AT"), *signal = getenv("FAIL_SIGNAL");
  if (!at || __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST) != atoi(at))
    return 0;
  long mark = syscall(SYS_open, getenv("FAIL_MARK"), O_CREAT | O_WRONLY, 0600);
  syscall(SYS_close, mark);
  if (signal) {
    kill(getpid(), atoi(signal));
    return 0;
  }
  errno = atoi(getenv("FAIL_ERRNO"));
  return 1;
}

static int isRegular(int descriptor) {
  struct stat info;
  return descriptor > 2 && fstat(descriptor, &info) == 0 &&
         S_ISREG(info.st_mode);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *data, size_t size) {
  if (isRegular(descriptor) && strike())
    return -1;
  return syscall(SYS_write, descriptor, data, size);
}

int fsync(int descriptor) {
  if (strike())
    return -1;
  return (int)syscall(SYS_fsync, descriptor);
}

int ftruncate(int descriptor, off_t size) {
  return strike() ? -1 : (int)syscall(SYS_ftruncate, descriptor, size);
}

int ftruncate64(int descriptor, off64_t size) {
  return strike() ? -1 : (int)syscall(SYS_ftruncate, descriptor, size);
}

int rename(const char *from, const char *to) {
  return strike() ? -1 : (int)syscall(SYS_rename, from, to);
}

int link(const char *from, const char *to) {
  return strike() ? -1 : REAL(link)(from, to);
}

int linkat(int fromFolder, const char *from, int toFolder, const char *to,
           int flags) {
  return strike() ? -1 : REAL(linkat)(fromFolder, from, toFolder, to, flags);
}

int mkdir(const char *path, mode_t mode) {
  return strike() ? -1 : REAL(mkdir)(path, mode);
}

static int makes(int flags) {
  return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

/* Devices, and descriptors by their path, are no new files. */
static int isOnDisk(const char *path) {
  return strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0;
}

#define OPEN(name)                                                             \
  int name(const char *path, int flags, ...) {                                 \
    va_list rest;                                                              \
    va_start(rest, flags);                                                     \
    mode_t mode = makes(flags) ? va_arg(rest, mode_t) : 0;                     \
    va_end(rest);                                                              \
    return makes(flags) && isOnDisk(path) && strike()                          \
               ? -1                                                            \
               : (int)syscall(SYS_open, path, flags | O_LARGEFILE, mode);      \
  }
OPEN(open)
OPEN(open64)

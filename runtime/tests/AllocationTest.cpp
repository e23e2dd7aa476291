//===- AllocationTest.cpp - Every allocation may fail ---------------------===//
//
// Replaces the C library's allocators (operator new, oneDNN, the loader and the
// JIT sit on them) and mmap by versions that fail at the n-th call, for every
// n, and goes through load, session and run: the outcome is `Resources` or
// success, never a crash.
//
//===----------------------------------------------------------------------===//
#include "TestModules.h"
#include "fusion-rt/fusion_rt.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Calls until the failing one; negative: never fail. Only this thread counts.
static thread_local long remaining = -1;
static thread_local bool failed = false;

static bool mayAllocate() {
  if (remaining < 0)
    return true;
  if (remaining-- > 0)
    return true;
  remaining = -1; // one failure at a time
  failed = true;
  return false;
}

// The executable's definitions are those of every library in it.
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static void *refuse() {
  errno = ENOMEM;
  return nullptr;
}
void *malloc(size_t size) noexcept {
  return mayAllocate() ? __libc_malloc(size) : refuse();
}
void *calloc(size_t count, size_t size) noexcept {
  return mayAllocate() ? __libc_calloc(count, size) : refuse();
}
void *realloc(void *memory, size_t size) noexcept {
  return mayAllocate() ? __libc_realloc(memory, size) : refuse();
}
void *aligned_alloc(size_t alignment, size_t size) noexcept {
  return mayAllocate() ? __libc_memalign(alignment, size) : refuse();
}
void *memalign(size_t alignment, size_t size) noexcept {
  return mayAllocate() ? __libc_memalign(alignment, size) : refuse();
}
void *mmap(void *address, size_t size, int protection, int flags, int file,
           off_t offset) noexcept {
  if (mayAllocate())
    return reinterpret_cast<void *>(
        syscall(SYS_mmap, address, size, protection, flags, file, offset));
  errno = ENOMEM;
  return MAP_FAILED;
}
}

namespace {

using namespace fusion::rt;

/// Load, run and destroy; returns the code of the first error.
fusion_rt_code exercise(const std::string &path, const char *backend) {
  fusion_rt_module *module = nullptr;
  fusion_rt_session *session = nullptr;
  fusion_rt_error *error = fusion_rt_module_load_file(path.c_str(), &module);
  float x[4 * 144] = {}, y[4 * 144] = {};
  if (!error) {
    fusion_rt_session_options options = {sizeof(options), backend, "all", 1, 0};
    error = fusion_rt_session_create(module, &options, &session);
  }
  for (long batch : {4L, 1L}) {
    if (error)
      break;
    const void *inputs[] = {x};
    void *outputs[] = {y};
    size_t sizes[] = {size_t(batch) * 576};
    error =
        fusion_rt_session_run(session, batch, inputs, sizes, outputs, sizes);
  }
  fusion_rt_code code = fusion_rt_error_code(error);
  fusion_rt_error_destroy(error);
  fusion_rt_session_destroy(session);
  fusion_rt_module_destroy(module);
  return code;
}

void failEachAllocation(const char *backend) {
  std::string path = test::temporaryPath("allocation.fsn");
  ASSERT_TRUE(writeModuleFile(test::convModule(4), path).ok());
  ASSERT_EQ(exercise(path, backend), FUSION_RT_OK);
  long failures = 0;
  for (long n = 0;; ++n) {
    remaining = n;
    failed = false;
    fusion_rt_code code = exercise(path, backend);
    remaining = -1;
    if (!failed)
      break;
    ++failures;
    ASSERT_TRUE(code == FUSION_RT_OK || code == FUSION_RT_RESOURCES)
        << "allocation " << n << " gave code " << code;
  }
  EXPECT_GT(failures, 50);
  EXPECT_EQ(exercise(path, backend), FUSION_RT_OK);
}

TEST(Allocation, NullBackendSurvivesEachFailure) { failEachAllocation("null"); }

TEST(Allocation, CpuBackendSurvivesEachFailure) { failEachAllocation("cpu"); }

TEST(Allocation, WritingSurvivesEachFailure) {
  Module module = test::convModule(4);
  for (long n = 0;; ++n) {
    remaining = n;
    failed = false;
    auto bytes = writeModule(module);
    remaining = -1;
    if (!failed)
      break;
    ASSERT_TRUE(bytes.ok() || bytes.status().code() == Code::Resources) << n;
  }
}

} // namespace

//===- CpuFeatures.cpp - What this machine's CPU can do -------------------===//
//
// CPUID bits by LLVM's feature names (Intel SDM volume 2A, CPUID; AMD APM
// volume 3, appendix E). Vector and tile state also needs the operating system
// (XCR0).
//
//===----------------------------------------------------------------------===//
#include "CpuFeatures.h"
#include "Text.h"

#include <cpuid.h>
#include <cstdint>
#include <cstring>

using namespace fusion::rt;

namespace {

enum Register : uint8_t { EAX, EBX, ECX, EDX };

/// State components that XCR0 must enable.
enum State : uint32_t { None = 0, Avx = 0x6, Avx512 = 0xe6, Amx = 0x60000 };

struct Feature {
  const char *name;
  uint32_t leaf, subleaf;
  Register reg;
  uint8_t bit;
  State state;
};

const Feature features[] = {
    {"x87", 1, 0, EDX, 0, None},
    {"cx8", 1, 0, EDX, 8, None},
    {"cmov", 1, 0, EDX, 15, None},
    {"mmx", 1, 0, EDX, 23, None},
    {"fxsr", 1, 0, EDX, 24, None},
    {"sse", 1, 0, EDX, 25, None},
    {"sse2", 1, 0, EDX, 26, None},
    {"sse3", 1, 0, ECX, 0, None},
    {"pclmul", 1, 0, ECX, 1, None},
    {"ssse3", 1, 0, ECX, 9, None},
    {"fma", 1, 0, ECX, 12, Avx},
    {"cx16", 1, 0, ECX, 13, None},
    {"sse4.1", 1, 0, ECX, 19, None},
    {"sse4.2", 1, 0, ECX, 20, None},
    {"crc32", 1, 0, ECX, 20, None},
    {"movbe", 1, 0, ECX, 22, None},
    {"popcnt", 1, 0, ECX, 23, None},
    {"aes", 1, 0, ECX, 25, None},
    {"xsave", 1, 0, ECX, 26, None},
    {"avx", 1, 0, ECX, 28, Avx},
    {"f16c", 1, 0, ECX, 29, Avx},
    {"rdrnd", 1, 0, ECX, 30, None},
    {"fsgsbase", 7, 0, EBX, 0, None},
    {"sgx", 7, 0, EBX, 2, None},
    {"bmi", 7, 0, EBX, 3, None},
    {"avx2", 7, 0, EBX, 5, Avx},
    {"bmi2", 7, 0, EBX, 8, None},
    {"invpcid", 7, 0, EBX, 10, None},
    {"rtm", 7, 0, EBX, 11, None},
    {"avx512f", 7, 0, EBX, 16, Avx512},
    {"avx512dq", 7, 0, EBX, 17, Avx512},
    {"rdseed", 7, 0, EBX, 18, None},
    {"adx", 7, 0, EBX, 19, None},
    {"avx512ifma", 7, 0, EBX, 21, Avx512},
    {"clflushopt", 7, 0, EBX, 23, None},
    {"clwb", 7, 0, EBX, 24, None},
    {"avx512cd", 7, 0, EBX, 28, Avx512},
    {"sha", 7, 0, EBX, 29, None},
    {"avx512bw", 7, 0, EBX, 30, Avx512},
    {"avx512vl", 7, 0, EBX, 31, Avx512},
    {"avx512vbmi", 7, 0, ECX, 1, Avx512},
    {"pku", 7, 0, ECX, 4, None},
    {"waitpkg", 7, 0, ECX, 5, None},
    {"avx512vbmi2", 7, 0, ECX, 6, Avx512},
    {"shstk", 7, 0, ECX, 7, None},
    {"gfni", 7, 0, ECX, 8, None},
    {"vaes", 7, 0, ECX, 9, Avx},
    {"vpclmulqdq", 7, 0, ECX, 10, Avx},
    {"avx512vnni", 7, 0, ECX, 11, Avx512},
    {"avx512bitalg", 7, 0, ECX, 12, Avx512},
    {"avx512vpopcntdq", 7, 0, ECX, 14, Avx512},
    {"rdpid", 7, 0, ECX, 22, None},
    {"kl", 7, 0, ECX, 23, None},
    {"cldemote", 7, 0, ECX, 25, None},
    {"movdiri", 7, 0, ECX, 27, None},
    {"movdir64b", 7, 0, ECX, 28, None},
    {"enqcmd", 7, 0, ECX, 29, None},
    {"uintr", 7, 0, EDX, 5, None},
    {"avx512vp2intersect", 7, 0, EDX, 8, Avx512},
    {"serialize", 7, 0, EDX, 14, None},
    {"tsxldtrk", 7, 0, EDX, 16, None},
    {"pconfig", 7, 0, EDX, 18, None},
    {"amx-bf16", 7, 0, EDX, 22, Amx},
    {"avx512fp16", 7, 0, EDX, 23, Avx512},
    {"amx-tile", 7, 0, EDX, 24, Amx},
    {"amx-int8", 7, 0, EDX, 25, Amx},
    {"sha512", 7, 1, EAX, 0, Avx},
    {"sm3", 7, 1, EAX, 1, Avx},
    {"sm4", 7, 1, EAX, 2, Avx},
    {"raoint", 7, 1, EAX, 3, None},
    {"avxvnni", 7, 1, EAX, 4, Avx},
    {"avx512bf16", 7, 1, EAX, 5, Avx512},
    {"cmpccxadd", 7, 1, EAX, 7, None},
    {"amx-fp16", 7, 1, EAX, 21, Amx},
    {"hreset", 7, 1, EAX, 22, None},
    {"avxifma", 7, 1, EAX, 23, Avx},
    {"movrs", 7, 1, EAX, 31, None},
    {"avxvnniint8", 7, 1, EDX, 4, Avx},
    {"avxneconvert", 7, 1, EDX, 5, Avx},
    {"amx-complex", 7, 1, EDX, 8, Amx},
    {"avxvnniint16", 7, 1, EDX, 10, Avx},
    {"prefetchi", 7, 1, EDX, 14, None},
    {"usermsr", 7, 1, EDX, 15, None},
    {"xsaveopt", 0xd, 1, EAX, 0, None},
    {"xsavec", 0xd, 1, EAX, 1, None},
    {"xsaves", 0xd, 1, EAX, 3, None},
    {"ptwrite", 0x14, 0, EBX, 4, None},
    {"widekl", 0x19, 0, EBX, 2, None},
    {"sahf", 0x80000001, 0, ECX, 0, None},
    {"lzcnt", 0x80000001, 0, ECX, 5, None},
    {"sse4a", 0x80000001, 0, ECX, 6, None},
    {"prfchw", 0x80000001, 0, ECX, 8, None},
    {"xop", 0x80000001, 0, ECX, 11, Avx},
    {"lwp", 0x80000001, 0, ECX, 15, None},
    {"fma4", 0x80000001, 0, ECX, 16, Avx},
    {"tbm", 0x80000001, 0, ECX, 21, None},
    {"mwaitx", 0x80000001, 0, ECX, 29, None},
    {"64bit", 0x80000001, 0, EDX, 29, None},
    {"clzero", 0x80000008, 0, EBX, 0, None},
    {"rdpru", 0x80000008, 0, EBX, 4, None},
    {"wbnoinvd", 0x80000008, 0, EBX, 9, None},
};

} // namespace

static uint64_t readXcr0() {
  unsigned eax, ebx, ecx, edx;
  // OSXSAVE: without it XGETBV faults and no extended state is enabled.
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & (1u << 27)))
    return 0;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

static bool isSupported(const Feature &feature) {
  unsigned regs[4] = {};
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &regs[0], &regs[1],
                         &regs[2], &regs[3]))
    return false;
  if (!(regs[feature.reg] >> feature.bit & 1))
    return false;
  return (readXcr0() & feature.state) == feature.state;
}

Status fusion::rt::checkCpuFeatures(const std::string &cpu,
                                    const std::vector<std::string> &names) {
  std::string missing;
  for (const std::string &name : names) {
    const Feature *found = nullptr;
    for (const Feature &feature : features)
      if (name == feature.name)
        found = &feature;
    if (found && isSupported(*found))
      continue;
    if (!missing.empty())
      missing += ", ";
    missing += escape(name) + (found ? "" : " (unknown to this runtime)");
  }
  if (missing.empty())
    return {};
  return Status(Code::Rejected,
                "module was compiled for CPU '" + escape(cpu) +
                    "'; this CPU lacks " + missing +
                    "; compile it here, or with --cpu=x86-64-v2");
}

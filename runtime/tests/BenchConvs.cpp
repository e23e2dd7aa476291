//===- BenchConvs.cpp - Times a list of convolutions ----------------------===//
//
// `fusion-bench-convs LIST OUT.fsn [last]` writes a module that runs each
// convolution of the list once on scratch memory, for `fusion-run --bench`.
// A line reads: C H W O OH OW KH KW groups SH SW top left bottom right.
//
//===----------------------------------------------------------------------===//
#include "TestModules.h"

#include <cstdio>
#include <fstream>

using namespace fusion::rt;
using namespace fusion::rt::test;

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  std::ifstream list(argv[1]);
  ModuleBuilder builder;
  // One input large enough for every convolution, and one scratch output.
  ByteRange x = builder.input("x", {1 << 20}), t = builder.scratch(4 << 20);
  ByteRange y = builder.output("y", {16});
  int64_t c, h, w, o, oh, ow, kh, kw, groups, sh, sw, p[4];
  while (list >> c >> h >> w >> o >> oh >> ow >> kh >> kw >> groups >> sh >>
         sw >> p[0] >> p[1] >> p[2] >> p[3]) {
    LibraryCall conv;
    conv.channelsLast = argc > 3;
    conv.hasBias = true;
    conv.groups = groups;
    conv.inputShape = {{0, 1}, {0, c}, {0, h}, {0, w}};
    conv.outputShape = {{0, 1}, {0, o}, {0, oh}, {0, ow}};
    conv.weightShape = {{0, o}, {0, c / groups}, {0, kh}, {0, kw}};
    conv.strides = {sh, sw};
    conv.dilations = {1, 1};
    conv.padLow = {p[0], p[1]};
    conv.padHigh = {p[2], p[3]};
    ByteRange weights = builder.constant(
        std::vector<float>(size_t(o * c / groups * kh * kw), 0.01f));
    ByteRange bias = builder.constant(std::vector<float>(size_t(o), 0.5f));
    ByteRange input = x, output = t;
    input.size = uint64_t(c * h * w) * 4;
    output.size = uint64_t(o * oh * ow) * 4;
    char name[128];
    std::snprintf(name, sizeof(name),
                  "%ldx%ldx%ld_to_%ld_k%ldx%ld_g%ld_s%ld%ld", c, h, w, o, kh,
                  kw, groups, sh, sw);
    builder.call(conv, {input, weights, bias}, output).name = name;
  }
  ByteRange start = t;
  start.size = y.size;
  builder.copy(start, y);
  Status status = writeModuleFile(builder.build(), argv[2]);
  if (!status.ok())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}

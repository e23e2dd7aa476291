//===- MakeModule.cpp - Writes a test module to a file --------------------===//
//
// For the tests that drive fusion-run as a process:
// `fusion-test-module KIND OUT.fsn`.
//
//===----------------------------------------------------------------------===//
#include "TestModules.h"

#include <cstdio>
#include <string>

using namespace fusion::rt;

static Module make(const std::string &kind) {
  if (kind == "conv")
    return test::convModule(4);
  if (kind == "cuda") { // y = 2 relu(x), on the tests' own driver
    test::ModuleBuilder builder;
    ByteRange x = builder.input("x", {64}), y = builder.output("y", {64});
    ByteRange t = builder.scratch(x.size);
    builder.launch(test::Relu, {x}, t, {0, 64});
    builder.launch(test::Add, {t, t}, y, {0, 64});
    return test::forCuda(builder.build());
  }
  test::ModuleBuilder builder;
  ByteRange x = builder.input("x", {1024});
  ByteRange y = builder.output("y", {1024});
  ByteRange t = builder.scratch(x.size);
  builder.launch(test::Relu, {x}, t, {0, 1024});
  builder.launch(kind == "poison" ? test::Poison : test::Exponential, {t}, y,
                 {0, 1024});
  if (kind == "chain") { // 2000 tiny launches, for overhead
    builder.module.program.commands.pop_back();
    ByteRange u = builder.scratch(x.size);
    for (int i = 0; i < 999; ++i) {
      builder.launch(test::Relu, {t}, u, {0, 1});
      builder.launch(test::Relu, {u}, t, {0, 1});
    }
    for (size_t i = 1; i < builder.module.program.commands.size(); ++i)
      for (Operand &operand :
           builder.module.program.commands[i].launch.operands)
        operand.range.size = 4;
    builder.launch(test::Relu, {t}, y, {0, 1024});
  }
  return builder.build();
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  Status status = writeModuleFile(make(argv[1]), argv[2]);
  if (!status.ok())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}

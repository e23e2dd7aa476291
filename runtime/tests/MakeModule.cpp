//===- MakeModule.cpp - Writes a test module to a file --------------------===//
//
// For the tests that drive fusion-run as a process:
// `fusion-test-module KIND OUT.fsn [CODE.ptx]`. With PTX that has its kernels,
// a module for the tests' own driver is one for a GPU.
//
//===----------------------------------------------------------------------===//
#include "TestModules.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

using namespace fusion::rt;

/// y = relu(x) of all ranks' x in rank order: a rank's own rows by a kernel,
/// what the others hold by a move and a copy each, all to where its place says.
static Module turnedModule(uint32_t ranks) {
  const int64_t count = 32;
  test::ModuleBuilder builder;
  ByteRange x = builder.input("x", {count});
  ByteRange y = builder.output("y", {count * ranks});
  Program &program = builder.module.program;
  program.mesh = {"m", {{"a", ranks}}};
  program.inputs[0].sharding = {{0}};
  program.outputs[0].sharding = {{}};
  y.size = x.size;
  ByteRange own = builder.scratch(x.size);
  for (uint32_t shift = 0; shift < ranks; ++shift) {
    program.turns.push_back({{0}, x.size, shift});
    y.turn = shift + 1;
    if (shift == 0) {
      builder.launch(test::Relu, {x}, y, {0, count});
      builder.launch(test::Relu, {x}, own, {0, count});
      continue;
    }
    ByteRange moved = builder.scratch(x.size);
    CollectiveCall call;
    call.op = CollectiveOp::Permute;
    call.axes = {0};
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      call.sources.push_back(rank);
      call.targets.push_back((rank + ranks - shift) % ranks);
    }
    builder.collective(call, 0, {{count}}, {own}, {moved});
    builder.copy(moved, y);
  }
  return builder.build();
}

static Module make(const std::string &kind) {
  if (kind.compare(0, 7, "turned:") == 0)
    return turnedModule(uint32_t(std::atoi(&kind[7])));
  if (kind.compare(0, 12, "collectives:") == 0)
    return test::collectivesModule(kind.substr(12));
  if (kind.compare(0, 5, "cuda:") == 0) {
    // Kernels of the tests' own driver work on 32 elements at a time: copies
    // where there are fewer.
    Module module = make(kind.substr(5));
    for (Command &command : module.program.commands) {
      const std::vector<Operand> &operands = command.launch.operands;
      if (command.kind != CommandKind::Launch ||
          command.launch.units.base % 32 == 0 || operands.size() != 2)
        continue;
      Command copy;
      copy.kind = CommandKind::Copy;
      copy.stream = command.stream;
      copy.source = operands[0].range;
      copy.target = operands[1].range;
      copy.copySize = {0, int64_t(copy.source.size)};
      command = copy;
    }
    return test::forCuda(module);
  }
  if (kind.compare(0, 4, "few:") == 0) { // two say 5 and 3 multiprocessors
    Module module = make(kind.substr(4));
    for (Command &command : module.program.commands) {
      if (command.collective.op == CollectiveOp::AllGather)
        command.collective.units = 5;
      if (command.collective.op == CollectiveOp::ReduceScatter)
        command.collective.units = 3;
    }
    return module;
  }
  if (kind.compare(0, 5, "peer:") == 0) { // moves by copies between GPUs
    Module module = make(kind.substr(5));
    for (Command &command : module.program.commands)
      switch (CollectiveCall &call = command.collective; call.op) {
      case CollectiveOp::AllGather:
      case CollectiveOp::AllToAll:
      case CollectiveOp::Broadcast:
      case CollectiveOp::Permute:
        call.transport = CollectiveTransport::Peer;
        break;
      default:
        break;
      }
    return module;
  }
  for (bool isDirect : {false, true}) { // ":ELEMENTS:STEPS"
    unsigned elements = 0, steps = 0;
    if (std::sscanf(kind.c_str(), isDirect ? "direct:%u:%u" : "swap:%u:%u",
                    &elements, &steps) == 2)
      return test::swapModule(elements, int(steps), isDirect);
  }
  if (kind.compare(0, 8, "overlap:") == 0) { // ":RANKS:ELEMENTS:STEPS:LAUNCHES"
    unsigned ranks = 0, elements = 0, steps = 0, launches = 1;
    std::sscanf(kind.c_str(), "overlap:%u:%u:%u:%u", &ranks, &elements, &steps,
                &launches);
    return test::overlapModule(ranks, elements, int(steps), int(launches));
  }
  if (kind == "padded")
    return test::paddedModule();
  if (kind == "batch")
    return test::batchModule();
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
  if (kind == "cuda-linear") { // a product by cuBLASLt
    test::ModuleBuilder builder;
    ByteRange x = builder.input("x", {2, 3}), y = builder.output("y", {2, 4});
    ByteRange w = builder.constant(std::vector<float>(12, 1));
    LibraryCall call;
    call.op = LibraryOp::MatMul;
    call.inputShape = {{0, 2}, {0, 3}};
    call.weightShape = {{0, 3}, {0, 4}};
    call.outputShape = {{0, 2}, {0, 4}};
    builder.call(call, {x, w}, y);
    return test::forCuda(builder.build());
  }
  test::ModuleBuilder builder;
  if (kind.compare(0, 5, "spin:") == 0) // as "spin", on some ranks
    builder.module.program.mesh = {"m",
                                   {{"dp", uint32_t(std::atoi(&kind[5]))}}};
  ByteRange x = builder.input("x", {1024});
  ByteRange y = builder.output("y", {1024});
  ByteRange t = builder.scratch(x.size);
  builder.launch(test::Relu, {x}, t, {0, 1024});
  builder.launch(kind == "poison"                  ? test::Poison
                 : kind.compare(0, 4, "spin") == 0 ? test::Spin
                                                   : test::Exponential,
                 {t}, y, {0, 1024});
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
  if (argc != 3 && argc != 4)
    return 2;
  Module module = make(argv[1]);
  if (argc == 4) {
    std::ifstream file(argv[3], std::ios::binary);
    module.ptx.assign(std::istreambuf_iterator<char>(file), {});
    module.deviceCode.clear();
  }
  Status status = writeModuleFile(module, argv[2]);
  if (!status.ok())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}

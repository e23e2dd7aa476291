//===- TestModules.cpp - Small modules built by hand ----------------------===//
//
// What the compiler would produce, written out; native code comes from
// Kernels.c, compiled while the tests are built.
//
//===----------------------------------------------------------------------===//
#include "TestModules.h"
#include "Checked.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace fusion::rt;
using namespace fusion::rt::test;

std::vector<uint8_t> test::nativeCode(const std::string &name) {
  // Where the tests were built, or where an archive of them was unpacked.
  const char *folder = std::getenv("FUSION_TEST_DIR");
  std::string path =
      std::string(folder ? folder : FUSION_TEST_DIR) + "/" + name + ".so";
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "can't open %s\n", path.c_str());
    std::abort();
  }
  return std::vector<uint8_t>(std::istreambuf_iterator<char>(file), {});
}

ModuleBuilder::ModuleBuilder(int64_t maxBatch) {
  module.target = "cpu";
  module.cpu = "x86-64";
  module.cpuFeatures = {"sse2"};
  module.buildId = buildId();
  module.program.name = "main";
  module.program.maxBatch = maxBatch;
  module.program.segments.push_back({SegmentKind::Private, 0, 64});
  module.provenance = {{"tool", "hand"}};
}

ByteRange ModuleBuilder::port(std::vector<Port> &ports, SegmentKind kind,
                              const std::string &name,
                              const std::vector<int64_t> &shape, bool dynamic) {
  Port port;
  port.tensor.name = name;
  for (int64_t size : shape)
    port.tensor.shape.push_back({0, size});
  if (dynamic)
    port.tensor.shape[0] = {shape[0], 0};
  uint64_t bytes =
      *byteCount(port.tensor.shape, DType::F32, module.program.maxBatch);
  port.segment = uint32_t(module.program.segments.size());
  module.program.segments.push_back({kind, bytes, 4});
  ports.push_back(port);
  return {port.segment, 0, bytes};
}

ByteRange ModuleBuilder::input(const std::string &name,
                               std::vector<int64_t> shape, bool dynamic) {
  return port(module.program.inputs, SegmentKind::Input, name, shape, dynamic);
}

ByteRange ModuleBuilder::output(const std::string &name,
                                std::vector<int64_t> shape, bool dynamic) {
  return port(module.program.outputs, SegmentKind::Output, name, shape,
              dynamic);
}

ByteRange ModuleBuilder::scratch(uint64_t bytes) {
  ByteRange range{0, arenaSize, bytes};
  arenaSize += (bytes + 63) / 64 * 64;
  return range;
}

ByteRange ModuleBuilder::constant(const std::vector<float> &values) {
  uint32_t segment = 0;
  for (size_t i = 0; i < module.program.segments.size(); ++i)
    if (module.program.segments[i].kind == SegmentKind::Const)
      segment = uint32_t(i);
  if (segment == 0) {
    segment = uint32_t(module.program.segments.size());
    module.program.segments.push_back({SegmentKind::Const, 0, 64});
  }
  uint64_t offset = module.constants.size(), bytes = values.size() * 4;
  module.constants.resize(offset + (bytes + 63) / 64 * 64);
  std::memcpy(module.constants.data() + offset, values.data(), bytes);
  module.program.segments[segment].size = module.constants.size();
  return {segment, offset, bytes};
}

static void addOperands(std::vector<Operand> &operands,
                        const std::vector<ByteRange> &reads,
                        const ByteRange &write) {
  for (const ByteRange &range : reads)
    operands.push_back({range, true, false, DType::F32});
  operands.push_back({write, false, true, DType::F32});
}

Command &ModuleBuilder::launch(TestKernel kernel, std::vector<ByteRange> reads,
                               ByteRange write, Affine units) {
  Command command;
  command.kind = CommandKind::Launch;
  command.name = "launch" + std::to_string(module.program.commands.size());
  command.launch.kernel = kernel;
  command.launch.units = units;
  addOperands(command.launch.operands, reads, write);
  module.program.commands.push_back(command);
  return module.program.commands.back();
}

Command &ModuleBuilder::call(LibraryCall call, std::vector<ByteRange> reads,
                             ByteRange write) {
  Command command;
  command.kind = CommandKind::Call;
  command.name = "call" + std::to_string(module.program.commands.size());
  command.call = std::move(call);
  addOperands(command.operands, reads, write);
  module.program.commands.push_back(command);
  return module.program.commands.back();
}

Command &ModuleBuilder::copy(ByteRange source, ByteRange target) {
  Command command;
  command.kind = CommandKind::Copy;
  command.name = "copy" + std::to_string(module.program.commands.size());
  command.source = source;
  command.target = target;
  command.copySize = {0, int64_t(source.size)};
  module.program.commands.push_back(command);
  return module.program.commands.back();
}

Command &ModuleBuilder::event(CommandKind kind, uint32_t event,
                              uint32_t stream) {
  Command command;
  command.kind = kind;
  command.event = event;
  command.stream = stream;
  module.program.events = std::max(module.program.events, event + 1);
  module.program.streams = std::max(module.program.streams, stream + 1);
  module.program.commands.push_back(command);
  return module.program.commands.back();
}

Command &
ModuleBuilder::collective(CollectiveCall call, uint32_t stream,
                          const std::vector<std::vector<int64_t>> &shapes,
                          const std::vector<ByteRange> &inputs,
                          const std::vector<ByteRange> &outputs) {
  Command command;
  command.kind = CommandKind::Collective;
  command.stream = stream;
  command.name = "collective" + std::to_string(module.program.commands.size());
  module.program.streams = std::max(module.program.streams, stream + 1);
  for (size_t i = 0; i < shapes.size(); ++i) {
    CollectivePart part;
    for (int64_t size : shapes[i])
      part.shape.push_back({0, size});
    part.inPlace = inputs[i].segment == outputs[i].segment &&
                   inputs[i].offset == outputs[i].offset;
    command.operands.push_back({inputs[i], true, part.inPlace, DType::F32});
    if (!part.inPlace)
      command.operands.push_back({outputs[i], false, true, DType::F32});
    call.parts.push_back(std::move(part));
  }
  if (shapes.empty())
    command.operands.push_back({outputs[0], false, true, DType::I64});
  command.collective = std::move(call);
  module.program.commands.push_back(std::move(command));
  return module.program.commands.back();
}

Module ModuleBuilder::build() {
  module.program.segments[0].size = arenaSize;
  module.program.peakBytes = arenaSize;
  bool hasLaunch = false;
  for (const Command &command : module.program.commands)
    hasLaunch |= command.kind == CommandKind::Launch || command.hasTail ||
                 command.hasFallback;
  if (hasLaunch && module.nativeCode.empty()) {
    module.nativeCode = nativeCode();
    module.kernels = {{"relu", "max(x, 0)"},    {"add", "a + b"},
                      {"twice", "2x in place"}, {"exponential", "exp(x)"},
                      {"poison", "NaN"},        {"spin", "never ends"}};
    module.imports = {{"expf", "f32(f32)"}, {"pow", "f64(f64,f64)"}};
  }
  return module;
}

Module test::convModule(int64_t maxBatch) {
  ModuleBuilder builder(maxBatch);
  ByteRange x = builder.input("x", {1, 4, 6, 6}, true);
  ByteRange y = builder.output("y", {1, 4, 6, 6}, true);
  std::vector<float> weights(4 * 2 * 3 * 3);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = float(int(i * 7 % 5) - 2);
  ByteRange w = builder.constant(weights);
  ByteRange bias = builder.constant({1, -2, 3, 0});
  ByteRange t = builder.scratch(x.size);
  LibraryCall conv;
  conv.inputShape = conv.outputShape = {{1, 0}, {0, 4}, {0, 6}, {0, 6}};
  conv.weightShape = {{0, 4}, {0, 2}, {0, 3}, {0, 3}};
  conv.hasBias = true;
  conv.groups = 2;
  conv.strides = conv.dilations = conv.padLow = conv.padHigh = {1, 1};
  Command &command = builder.call(conv, {x, w, bias}, t);
  command.hasTail = true;
  command.launch.kernel = Relu;
  command.launch.units = {144, 0};
  // The tail works in place: one operand each way on the same bytes is an
  // overlap, so it reads and writes through the kernel's two buffers.
  ByteRange r = builder.scratch(x.size);
  command.launch.operands = {{t, true, false, DType::F32},
                             {r, false, true, DType::F32}};
  builder.launch(Add, {r, r}, y, {144, 0});
  return builder.build();
}

/// "dp=2,tp=3".
static Mesh parseMesh(const std::string &text) {
  Mesh mesh{"m", {}};
  for (size_t at = 0; at < text.size();) {
    size_t equals = text.find('=', at), end = text.find(',', at);
    end = std::min(end, text.size());
    mesh.axes.emplace_back(text.substr(at, equals - at),
                           std::atoi(&text[equals + 1]));
    at = end + 1;
  }
  return mesh;
}

Module test::collectivesModule(const std::string &text) {
  ModuleBuilder builder;
  Mesh mesh = parseMesh(text);
  builder.module.program.mesh = mesh;
  int64_t n = 1;
  std::vector<uint32_t> all;
  for (const auto &axis : mesh.axes) {
    n *= axis.second;
    all.push_back(uint32_t(all.size()));
  }
  std::vector<int64_t> shape{2 * n, 3 * n};
  ByteRange x = builder.input("x", shape);
  builder.module.program.inputs[0].sharding = {all, {}};
  ByteRange y = builder.scratch(x.size);
  builder.launch(Relu, {x}, y, {0, 6 * n * n});
  builder.event(CommandKind::Record, 0, 0);
  builder.event(CommandKind::Wait, 0, 1);
  auto add = [&](const char *name, CollectiveOp op,
                 std::vector<int64_t> result) -> CollectiveCall & {
    CollectiveCall call;
    call.op = op;
    call.axes = all;
    ByteRange output = builder.output(name, std::move(result));
    return builder.collective(call, 1, {shape}, {y}, {output}).collective;
  };
  add("sum", CollectiveOp::AllReduce, shape);
  add("mean", CollectiveOp::AllReduce, shape).reduction = Reduction::Mean;
  add("max", CollectiveOp::AllReduce, shape).reduction = Reduction::Max;
  add("first", CollectiveOp::AllReduce, shape).axes = {0};
  add("rows", CollectiveOp::AllGather, {2 * n * n, 3 * n});
  add("columns", CollectiveOp::AllGather, {2 * n, 3 * n * n}).dim = 1;
  add("part", CollectiveOp::ReduceScatter, {2 * n, 3}).dim = 1;
  add("swapped", CollectiveOp::AllToAll, {2, 3 * n * n}).concatDim = 1;
  add("root", CollectiveOp::Broadcast, shape).root = n - 1;
  CollectiveCall &next = add("next", CollectiveOp::Permute, shape);
  for (int64_t i = 0; i + 1 < n; ++i) {
    next.sources.push_back(i);
    next.targets.push_back(i + 1);
  }
  ByteRange index = builder.output("index", {2});
  Port &port = builder.module.program.outputs.back();
  port.tensor.dtype = DType::I64;
  port.tensor.shape.clear();
  CollectiveCall position;
  position.op = CollectiveOp::AxisIndex;
  position.axes = {uint32_t(mesh.axes.size() > 1)};
  builder.collective(position, 1, {}, {}, {index});
  return builder.build();
}

Module test::paddedModule() {
  ModuleBuilder builder;
  builder.module.program.mesh = {"m", {{"dp", 2}}};
  ByteRange x = builder.input("x", {4}), y = builder.output("y", {4});
  for (Port *port : {&builder.module.program.inputs[0],
                     &builder.module.program.outputs[0]}) {
    port->sharding = {{0}};
    port->globalShape = {7};
  }
  builder.launch(Add, {x, x}, y, {0, 4});
  return builder.build();
}

Module test::batchModule() {
  ModuleBuilder builder(4);
  builder.module.program.mesh = {"m", {{"dp", 2}}};
  ByteRange x = builder.input("x", {1, 3}, true);
  ByteRange y = builder.output("y", {1, 3}, true);
  builder.module.program.inputs[0].sharding = {{0}, {}};
  builder.module.program.outputs[0].sharding = {{0}, {}};
  CollectiveCall sum;
  sum.axes = {0};
  Command &command = builder.collective(sum, 0, {{1, 3}}, {x}, {y});
  command.collective.parts[0].shape[0] = {1, 0};
  return builder.build();
}

Module test::overlapModule(uint32_t ranks, int64_t elements, int steps,
                           int launches) {
  ModuleBuilder builder;
  builder.module.program.mesh = {"m", {{"dp", ranks}}};
  ByteRange x = builder.input("x", {elements});
  ByteRange y = builder.output("y", {elements});
  ByteRange g = builder.output("g", {elements});
  builder.copy(x, y);
  builder.copy(x, g);
  builder.event(CommandKind::Record, 0, 0);
  builder.event(CommandKind::Wait, 0, 1);
  for (int i = 0; i < steps; ++i) {
    for (int k = 0; k < launches; ++k)
      builder.launch(Twice, {}, y, {0, elements}).launch.operands[0].reads =
          true;
    CollectiveCall sum;
    sum.axes = {0};
    builder.collective(sum, 1, {{elements}}, {g}, {g});
  }
  builder.event(CommandKind::Record, 1, 1);
  builder.event(CommandKind::Wait, 1, 0);
  return builder.build();
}

Module test::swapModule(int64_t elements, int steps, bool isDirect) {
  ModuleBuilder builder;
  builder.module.program.mesh = {"m", {{"dp", 2}}};
  ByteRange x = builder.input("x", {elements});
  ByteRange y = builder.output("y", {elements});
  ByteRange other = builder.scratch(x.size), own = builder.scratch(x.size);
  builder.copy(x, own);
  for (int i = 0; i < steps; ++i) {
    ByteRange sum = i + 1 == steps ? y : builder.scratch(x.size);
    CollectiveCall swap;
    swap.op = CollectiveOp::Permute;
    swap.axes = {0};
    swap.sources = {0, 1};
    swap.targets = {1, 0};
    swap.isDirect = isDirect;
    if (isDirect)
      swap.transport = CollectiveTransport::Peer;
    builder.event(CommandKind::Record, uint32_t(2 * i), 0);
    builder.event(CommandKind::Wait, uint32_t(2 * i), 1);
    builder.collective(swap, 1, {{elements}}, {own}, {other});
    builder.event(CommandKind::Record, uint32_t(2 * i + 1), 1);
    builder.event(CommandKind::Wait, uint32_t(2 * i + 1), 0);
    builder.launch(Add, {own, other}, sum, {0, elements});
    if (isDirect) {
      // It stands behind the reader, as the next swap does.
      Command release;
      release.kind = CommandKind::Collective;
      release.stream = 1;
      release.name = "release" + std::to_string(i);
      release.collective.op = CollectiveOp::Release;
      release.collective.axes = {0};
      release.collective.transport = CollectiveTransport::Peer;
      release.operands = {{own, true, false}, {other, true, true}};
      builder.event(CommandKind::Record, uint32_t(2 * steps + i), 0);
      builder.event(CommandKind::Wait, uint32_t(2 * steps + i), 1);
      builder.module.program.commands.push_back(release);
    }
    own = sum;
  }
  return builder.build();
}

Module test::forCuda(Module module) {
  module.target = "cuda:sm_90";
  module.cpu.clear();
  module.cpuFeatures.clear();
  module.nativeCode.clear();
  module.imports.clear();
  const std::string code = "cubin of the tests",
                    ptx = "// PTX of the tests\n.version 8.0\n";
  if (!module.kernels.empty()) {
    module.deviceCode.assign(code.begin(), code.end());
    module.ptx.assign(ptx.begin(), ptx.end());
  }
  for (Kernel &kernel : module.kernels) {
    kernel.threads = 32;
    kernel.registers = 24;
    kernel.spillBytes = 8;
    kernel.sharedBytes = 128;
  }
  for (Command &command : module.program.commands)
    command.launch.grain = command.fallback.grain = 32;
  return module;
}

std::string test::temporaryPath(const std::string &name) {
  struct Directory {
    Directory() {
      std::string pattern =
          (std::filesystem::temp_directory_path() / "fusion-test-XXXXXX")
              .string();
      if (!mkdtemp(pattern.data()))
        std::abort();
      path = pattern;
    }
    ~Directory() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
  };
  static Directory directory;
  return directory.path + "/" + name;
}

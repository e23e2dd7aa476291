//===- DeviceModelTest.cpp - Device files ---------------------------------===//
//
// Shipped files are read whole, and each way to break one is told with its
// line and key.
//
//===----------------------------------------------------------------------===//
#include "AnalysisFixture.h"

#include "Sha256.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

/// The message of parsing the round device with `from` replaced by `to`.
static std::string breakDevice(llvm::StringRef from, llvm::StringRef to) {
  std::string text = getRoundDevice();
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  text.replace(at, from.size(), to.str());
  auto device = DeviceModel::parse(text, "d.json");
  if (device)
    return "accepted";
  return llvm::toString(device.takeError());
}

static std::string printDevice(const DeviceModel &device) {
  std::string text;
  llvm::raw_string_ostream os(text);
  device.print(os);
  return text;
}

TEST(DeviceModel, ShippedDevicesLoad) {
  // The capacities that the issue of granularity names.
  for (const char *name : {"h200", "a100-80gb"}) {
    DeviceModel device = llvm::cantFail(DeviceModel::load(name));
    EXPECT_EQ(device.name, name);
    EXPECT_TRUE(device.isGpu);
    EXPECT_EQ(device.registersPerUnit, 64 * 1024);
    EXPECT_EQ(device.registersPerThread, 255);
    EXPECT_EQ(device.registerOverhead, 10);
  }
  EXPECT_EQ(llvm::cantFail(DeviceModel::load("h200")).units, 132);
  EXPECT_EQ(llvm::cantFail(DeviceModel::load("a100-80gb")).units, 108);
  EXPECT_FALSE(llvm::cantFail(DeviceModel::load("cpu")).isGpu);
}

TEST(DeviceModel, PrintingParsesToTheSame) {
  DeviceModel device = makeRoundDevice();
  std::string text = printDevice(device);
  DeviceModel copy = llvm::cantFail(DeviceModel::parse(text, "copy.json"));
  EXPECT_EQ(text, printDevice(copy));
  EXPECT_EQ(copy.launchGapUs, 2.0);
  EXPECT_EQ(copy.getFlops(Arithmetic::MatrixI8), 4e14);
  ASSERT_EQ(copy.links.size(), 1u);
  EXPECT_EQ(copy.links[0].latencyUs, 1.5);
  // The hash is of the bytes: another spelling is another file.
  EXPECT_NE(device.hash, copy.hash);
  EXPECT_EQ(device.hash.size(), 64u);
}

TEST(DeviceModel, HashIsSha256OfTheText) {
  std::string text = getRoundDevice();
  EXPECT_EQ(makeRoundDevice().hash,
            rt::toHex(*rt::sha256(text.data(), text.size())));
}

TEST(DeviceModel, ErrorsNameLineAndKey) {
  EXPECT_EQ(breakDevice("\"units\": 100, ", ""),
            "d.json:1: missing key 'units', device file, add it; a shipped "
            "device file shows all keys");
  EXPECT_EQ(breakDevice("\"f64\": 5e12, ", ""),
            "d.json:12: missing key 'vector_flops.f64', device file, add it; a "
            "shipped device file shows all keys");
  EXPECT_EQ(breakDevice("\"vector_bytes\": 16,",
                        "\"vector_bytes\": 16, \"colour\": 1,")
                .substr(0, 30),
            "d.json:5: unknown key 'colour'");
  EXPECT_EQ(breakDevice("\"latency_us\"", "\"latency\"").substr(0, 40),
            "d.json:15: unknown key 'links.0.latency'");
  EXPECT_EQ(breakDevice("\"units\": 100", "\"units\": 0"),
            "d.json:3: bad value of 'units', device file, give a whole number "
            "of at least 1");
  EXPECT_EQ(breakDevice("\"units\": 100", "\"units\": 1.5"),
            "d.json:3: bad value of 'units', device file, give a whole number "
            "of at least 1");
  EXPECT_EQ(breakDevice("\"units\": 100", "\"units\": \"many\""),
            "d.json:3: bad value of 'units', device file, give a whole number "
            "of at least 1");
  EXPECT_EQ(
      breakDevice("\"memory_bandwidth\": 1e12", "\"memory_bandwidth\": -1"),
      "d.json:11: bad value of 'memory_bandwidth', device file, give a "
      "number above 0");
  EXPECT_EQ(
      breakDevice("\"memory_bandwidth\": 1e12", "\"memory_bandwidth\": 1e999"),
      "d.json:11: too large a value of 'memory_bandwidth', device file, give a "
      "number of at most 1e30");
  // 2^53, the largest whole number that a double holds with all smaller ones.
  EXPECT_EQ(breakDevice("\"units\": 100", "\"units\": 9007199254740994"),
            "d.json:3: too large a value of 'units', device file, give a whole "
            "number of at most 9007199254740992");
  EXPECT_EQ(breakDevice("\"units\": 100", "\"units\": 9007199254740992"),
            "accepted");
  EXPECT_EQ(
      breakDevice("\"latency_us\": 1.5", "\"latency_us\": 1e31"),
      "d.json:15: too large a value of 'links.0.latency_us', device file, "
      "give a number of at most 1e30");
  EXPECT_EQ(breakDevice("\"kind\": \"gpu\"", "\"kind\": \"tpu\""),
            "d.json:2: bad value of 'kind', device file, the kinds are: gpu, "
            "cpu");
  EXPECT_EQ(breakDevice("\"units\": 100", "\"units\": 100, \"units\": 7"),
            "d.json:3: key 'units' stands twice, device file, keep one");
  EXPECT_EQ(breakDevice("[{\"name\": \"wire\"", "[7, {\"name\": \"wire\""),
            "d.json:15: bad value of 'links.0', device file, give an object");
}

TEST(DeviceModel, FiguresOfKernelsMayBeGiven) {
  DeviceModel device = makeRoundDevice();
  EXPECT_EQ(device.runUs, 0);
  EXPECT_EQ(device.getKernel(KernelClass::Loop).fixedUs, 0);
  EXPECT_EQ(device.getKernel(KernelClass::Loop).memoryShare, 1);
  std::string text = getRoundDevice();
  text.replace(text.find("\"links\""), 0,
               R"("run_us": 1.5, "kernels": {"row_reduce":
    {"fixed_us": 0.25, "memory_share": 0.5, "arithmetic_share": 0.125,
     "reread_share": 0.75, "spread": 4}}, )");
  device = llvm::cantFail(DeviceModel::parse(text, "d.json"));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(device.runUs, 1.5);
    const KernelFigures &rows = device.getKernel(KernelClass::RowReduce);
    EXPECT_EQ(rows.fixedUs, 0.25);
    EXPECT_EQ(rows.memoryShare, 0.5);
    EXPECT_EQ(rows.arithmeticShare, 0.125);
    EXPECT_EQ(rows.rereadShare, 0.75);
    EXPECT_EQ(rows.spread, 4);
    EXPECT_EQ(device.getKernel(KernelClass::Loop).arithmeticShare, 1);
    device = llvm::cantFail(DeviceModel::parse(printDevice(device), "c.json"));
  }
}

TEST(DeviceModel, ErrorsInFiguresOfKernelsNameLineAndKey) {
  auto breakKernels = [](llvm::StringRef kernels) {
    return breakDevice("\"links\"",
                       ("\"kernels\": " + kernels + ", \"links\"").str());
  };
  EXPECT_EQ(breakKernels("7"),
            "d.json:15: bad value of 'kernels', device file, give an object of "
            "figures by class of kernels");
  EXPECT_EQ(breakKernels("{\"looop\": {}}"),
            "d.json:15: unknown key 'kernels.looop', device file, the keys "
            "are: loop, row_reduce, column_reduce, transpose, product, "
            "convolution, other, operand_sum, slope");
  EXPECT_EQ(breakKernels("{\"loop\": 1}"),
            "d.json:15: bad value of 'kernels.loop', device file, give an "
            "object");
  EXPECT_EQ(breakKernels("{\"loop\": {\"fixed_us\": 1}}").substr(0, 53),
            "d.json:15: missing key 'kernels.loop.memory_share', d");
  EXPECT_EQ(breakKernels("{\"loop\": {\"fixed_us\": 0, \"memory_share\": 0, "
                         "\"arithmetic_share\": 1, \"reread_share\": 1, "
                         "\"spread\": 1}}"),
            "d.json:15: bad value of 'kernels.loop.memory_share', device file, "
            "give a number above 0");
  EXPECT_EQ(breakDevice("\"links\"", "\"run_us\": -1, \"links\""),
            "d.json:15: bad value of 'run_us', device file, give a number of "
            "at least 0");
}

TEST(DeviceModel, SyntaxErrorsNameTheLine) {
  std::string message =
      breakDevice("\"vector_bytes\": 16,", "\"vector_bytes\" 16,");
  EXPECT_EQ(message.substr(0, 19), "d.json:5: not JSON:") << message;
  auto list = DeviceModel::parse("[]", "d.json");
  ASSERT_FALSE(list);
  EXPECT_EQ(llvm::toString(list.takeError()),
            "d.json:1: not an object, device file, begin with '{'");
  auto deep = DeviceModel::parse(std::string(100000, '['), "d.json");
  ASSERT_FALSE(deep);
  EXPECT_EQ(llvm::toString(deep.takeError()),
            "d.json:1: arrays and objects nested more than 64 deep, device "
            "file, correct it");
}

TEST(DeviceModel, UnknownNamesListTheKnownOnes) {
  auto device = DeviceModel::load("h9000");
  ASSERT_FALSE(device);
  EXPECT_EQ(llvm::toString(device.takeError()),
            "unknown device 'h9000', --device, the devices are: a100-80gb, "
            "cpu, h200; or give the path of a JSON file");
  EXPECT_EQ(llvm::toString(DeviceModel::load("/dev/zero").takeError()),
            "cannot read '/dev/zero': Invalid argument, --device, give a "
            "device's name or the path of a JSON file");
  device = DeviceModel::load("./nowhere.json");
  ASSERT_FALSE(device);
  EXPECT_EQ(llvm::errorToErrorCode(device.takeError()),
            std::errc::no_such_file_or_directory);
}

/// The value at a dotted path of objects and lists.
static llvm::json::Value &getAt(llvm::json::Value &root, llvm::StringRef path) {
  llvm::json::Value *value = &root;
  for (llvm::StringRef key : llvm::split(path, '.')) {
    unsigned index;
    value = key.getAsInteger(10, index) ? value->getAsObject()->get(key)
                                        : &(*value->getAsArray())[index];
  }
  return *value;
}

TEST(DeviceModel, WholeNumbersAreWhole) {
  std::string text = getRoundDevice();
  text.replace(text.rfind('}'), 1, R"(, "comm": {
    "slowdown_compute": 0, "slowdown_comm": 0, "units": 20,
    "links": [{"name": "wire", "alpha_us": 1, "beta_gbs": 1, "devices": 8}],
    "transports": [{"name": "peer", "link": "wire", "ranks": 2, "ops": {
      "all_gather": {"bytes": [64, 128], "us": [1, 2]}}}]}})");
  llvm::cantFail(DeviceModel::parse(text, "d.json"));
  for (llvm::StringRef path :
       {"units", "saturating_units", "streams", "threads_per_block",
        "resident_blocks", "block_elements", "vector_bytes",
        "registers_per_unit", "registers_per_thread", "register_overhead",
        "shared_bytes_per_unit", "shared_bytes_per_block", "parameter_bytes",
        "cache_bytes", "memory_bytes", "comm.units", "comm.links.0.devices",
        "comm.transports.0.ranks",
        "comm.transports.0.ops.all_gather.bytes.1"}) {
    for (llvm::json::Value bad :
         {llvm::json::Value(2.7), llvm::json::Value("2"), llvm::json::Value(-1),
          llvm::json::Value(1e30), llvm::json::Value(nullptr)}) {
      llvm::json::Value root = llvm::cantFail(llvm::json::parse(text));
      getAt(root, path) = bad;
      std::string broken = llvm::formatv("{0:2}", root);
      auto device = DeviceModel::parse(broken, "d.json");
      ASSERT_FALSE(bool(device)) << broken;
      std::string told = llvm::toString(device.takeError());
      EXPECT_NE(told.find(("value of '" + path + "'").str()), told.npos)
          << told;
      EXPECT_NE(told.find("give a whole number"), told.npos) << told;
    }
  }
}

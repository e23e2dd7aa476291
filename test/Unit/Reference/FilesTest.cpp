//===- FilesTest.cpp - .npy, .npz and safetensors -------------------------===//
//
// Files are written byte by byte here, not by the code under test.
//
//===----------------------------------------------------------------------===//

#include "TestGraph.h"
#include "fusion/Reference/Npy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::reference;
using namespace fusion::reference::testing;

/// A .npy file of version 1.
static std::string npy(const std::string &dictionary, const std::string &data) {
  std::string header = dictionary + "\n";
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

static std::string dictionary(const std::string &descr,
                              const std::string &shape,
                              const std::string &order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order +
         ", 'shape': " + shape + ", }";
}

static std::string errorOf(llvm::Expected<Tensor> tensor, FailureKind &kind) {
  if (tensor) {
    ADD_FAILURE() << "an error was expected";
    return "";
  }
  return takeMessage(tensor.takeError(), kind);
}

static std::string errorOf(const std::string &bytes, ElementKind kind) {
  FailureKind why;
  std::string message = errorOf(parseNpy(bytes, kind, "x.npy"), why);
  EXPECT_EQ(static_cast<int>(why), static_cast<int>(FailureKind::Usage));
  return message;
}

TEST(Npy, ReadsEachType) {
  const std::string one("\x00\x00\x80\x3f", 4); // 1.0f
  EXPECT_EQ(valuesOf(llvm::cantFail(parseNpy(
                npy(dictionary("<f4", "(1,)"), one), ElementKind::F32, "x"))),
            (std::vector<double>{1}));
  EXPECT_EQ(valuesOf(llvm::cantFail(parseNpy(
                npy(dictionary("<f2", "()"), std::string("\x00\x3c", 2)),
                ElementKind::F16, "x"))),
            (std::vector<double>{1}));
  // bf16 travels as the upper half of f32, in an unsigned type.
  EXPECT_EQ(
      valuesOf(llvm::cantFail(parseNpy(npy(dictionary("<u2", "()"), "\x80\x3f"),
                                       ElementKind::BF16, "x"))),
      (std::vector<double>{1}));
  EXPECT_EQ(intsOf(llvm::cantFail(parseNpy(
                npy(dictionary("|b1", "(3,)"), std::string("\0\1\2", 3)),
                ElementKind::I1, "x"))),
            (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(
      intsOf(llvm::cantFail(parseNpy(
          npy(dictionary("|i1", "(2, 1)"), "\xff\x7f"), ElementKind::I8, "x"))),
      (std::vector<int64_t>{-1, 127}));
  // Column-major order.
  EXPECT_EQ(intsOf(llvm::cantFail(parseNpy(
                npy(dictionary("|i1", "(2, 3)", "True"), "\1\4\2\5\3\6"),
                ElementKind::I8, "x"))),
            (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, RefusesWhatIsDamaged) {
  ElementKind kind = ElementKind::I8;
  std::string good = npy(dictionary("|i1", "(2,)"), "ab");
  EXPECT_NE(errorOf("PK\3\4", kind).find("no .npy file"), std::string::npos);
  EXPECT_NE(errorOf(npy(dictionary("<f8", "(2,)"), "ab"), kind).find("'<f8'"),
            std::string::npos);
  EXPECT_NE(errorOf(npy(dictionary("|O", "(2,)"), "ab"), kind).find("'|O'"),
            std::string::npos);
  EXPECT_NE(errorOf(npy(dictionary("|i1", "(3,)"), "ab"), kind).find("2 bytes"),
            std::string::npos);
  EXPECT_NE(
      errorOf(npy(dictionary("|i1", "(-2,)"), "ab"), kind).find("not NumPy's"),
      std::string::npos);
  EXPECT_NE(
      errorOf(npy(dictionary("|i1", "(4611686018427387904, 8)"), "ab"), kind)
          .find("not what"),
      std::string::npos);
  EXPECT_NE(errorOf(npy("{'descr': __import__('os')}", "ab"), kind)
                .find("not NumPy's"),
            std::string::npos);
  // Every prefix is an error, not a crash.
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(errorOf(good.substr(0, length), kind), "") << length;
}

/// A folder that goes away with the test.
class Folder {
public:
  Folder() {
    llvm::SmallString<128> path;
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("fusion-test", path));
    directory = path.str().str();
  }
  ~Folder() { llvm::sys::fs::remove_directories(directory); }
  std::string file(const std::string &name) const {
    return directory + "/" + name;
  }
  std::string write(const std::string &name, const std::string &bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }
  std::string directory;
};

TEST(Npy, WhatIsWrittenIsReadBack) {
  Folder folder;
  Tensor tensors[] = {f32({2, 3}, {1, -0.0, 1e-40, 3.5, 1e30, -7}),
                      floats(ElementKind::BF16, {2}, {1.5, -2}),
                      floats(ElementKind::F16, {}, {0.1}),
                      f64({0, 4}, {}),
                      ints(ElementKind::I1, {2}, {1, 0}),
                      ints(ElementKind::I8, {1}, {-3}),
                      i64({2}, {int64_t(1) << 62, -1})};
  for (const Tensor &tensor : tensors) {
    std::string path = folder.file("t.npy");
    ASSERT_FALSE(static_cast<bool>(writeNpy(path, tensor)));
    Tensor back = llvm::cantFail(readNpy(path, tensor.getKind()));
    EXPECT_EQ(back.getShape(), tensor.getShape());
    EXPECT_EQ(back.toBytes(), tensor.toBytes());
  }
  // The header, with padding, ends at a multiple of 64.
  auto buffer = llvm::MemoryBuffer::getFile(folder.file("t.npy"));
  ASSERT_TRUE(static_cast<bool>(buffer));
  EXPECT_EQ((*buffer)->getBufferSize() % 64, 16u);
  FailureKind kind;
  EXPECT_NE(
      takeMessage(writeNpy(folder.file("no/such/t.npy"), tensors[0]), kind),
      "");
  EXPECT_EQ(static_cast<int>(kind), static_cast<int>(FailureKind::Resources));
  EXPECT_NE(errorOf(readNpy(folder.directory, ElementKind::F32), kind)
                .find("no regular file"),
            std::string::npos);
}

static std::string number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i)
    text += static_cast<char>(value >> (8 * i));
  return text;
}

static std::string safeTensors(const std::string &json,
                               const std::string &data) {
  return number(json.size(), 8) + json + data;
}

static const char *kEntry =
    R"({"__metadata__":{"format":"pt"},"w":{"dtype":"I8","shape":[2,2],"data_offsets":[1,5]}})";

/// Evaluates a module with one parameter in `file`.
static Outcome readParameter(const Folder &folder, const std::string &file,
                             const std::string &extra = "") {
  Options options;
  options.moduleDirectory = folder.directory;
  std::string text = "fusion.parameter @w const \"" + file + "\" key \"w\" " +
                     extra + " : tensor<2x2xi8>\n" +
                     makeModule("", "fusion.get_parameter @w : tensor<2x2xi8>",
                                "tensor<2x2xi8>");
  return evaluateOnRanks(text, {{}}, {}, options);
}

static void expectRefused(const Outcome &outcome, const char *part) {
  EXPECT_EQ(static_cast<int>(outcome.kind),
            static_cast<int>(FailureKind::Program));
  EXPECT_NE(outcome.error.find(part), std::string::npos)
      << "'" << part << "' is not in: " << outcome.error;
}

TEST(Parameters, FromFilesAndValues) {
  Folder folder;
  folder.write("m.safetensors", safeTensors(kEntry, "\x09\x01\x02\x03\xff"));
  Outcome y = readParameter(folder, "m.safetensors");
  ASSERT_EQ(y.error, "");
  EXPECT_EQ(intsOf(y[0]), (std::vector<int64_t>{1, 2, 3, -1}));
  const uint8_t bytes[] = {1, 2, 3, 0xff};
  std::string hash = llvm::toHex(llvm::SHA256::hash(bytes), true);
  EXPECT_EQ(
      readParameter(folder, "m.safetensors", "sha256 \"" + hash + "\"").error,
      "");
  hash[0] = hash[0] == '0' ? '1' : '0';
  expectRefused(
      readParameter(folder, "m.safetensors", "sha256 \"" + hash + "\""),
      "the hash of 'w'");
  Outcome value = evaluateModule(
      "fusion.parameter @w const value dense<[1.5, 2.5]> : tensor<2xf32> : "
      "tensor<2xf32>\n" +
          makeModule("", "fusion.get_parameter @w : tensor<2xf32>",
                     "tensor<2xf32>"),
      {});
  EXPECT_EQ(valuesOf(value[0]), (std::vector<double>{1.5, 2.5}));
}

TEST(Parameters, FromResourceBlobs) {
  // 4 bytes of alignment, then 1.0f and -2.0f.
  Outcome y = evaluateModule(
      makeModule("", "fusion.constant dense_resource<blob> : tensor<2xf32>",
                 "tensor<2xf32>") +
          "{-# dialect_resources: { builtin: { blob: "
          "\"0x040000000000803F000000C0\" } } #-}",
      {});
  EXPECT_EQ(valuesOf(y[0]), (std::vector<double>{1, -2}));
}

TEST(Parameters, DamagedFilesAreRefused) {
  Folder folder;
  auto refuse = [&](const std::string &bytes, const char *part) {
    folder.write("m.safetensors", bytes);
    expectRefused(readParameter(folder, "m.safetensors"), part);
  };
  refuse("abc", "no header");
  refuse(number(1000, 8) + "{}", "does not fit");
  refuse(number(~uint64_t(0), 8) + "{}", "does not fit");
  refuse(safeTensors("[]", ""), "no JSON object");
  refuse(safeTensors("{", ""), "no JSON");
  refuse(safeTensors(std::string(100, '['), ""), "too deep");
  refuse(safeTensors(kEntry, "1234"), "outside of the file");
  refuse(safeTensors("{}", ""), "no tensor 'w'");
  refuse(safeTensors(R"({"w":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
                     "1234"),
         "needs I8 2x2");
  refuse(
      safeTensors(R"({"w":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}})",
                  "1234"),
      "U8");
  refuse(
      safeTensors(R"({"w":{"dtype":"I8","shape":[2,2],"data_offsets":[0,3]}})",
                  "1234"),
      "3 bytes");
  refuse(
      safeTensors(R"({"w":{"dtype":"I8","shape":[2,2],"data_offsets":[4,0]}})",
                  "1234"),
      "outside of the file");
}

// Neither a link, a link in the middle, a folder nor a pipe.
TEST(Parameters, PathsAreConfined) {
  Folder folder;
  std::string real =
      folder.write("real", safeTensors(kEntry, "\x09\x01\x02\x03\xff"));
  ASSERT_EQ(::symlink(real.c_str(), folder.file("link").c_str()), 0);
  expectRefused(readParameter(folder, "link"), "link or no folder");
  ASSERT_EQ(::symlink("/etc", folder.file("etc").c_str()), 0);
  expectRefused(readParameter(folder, "etc/passwd"), "link or no folder");
  ASSERT_FALSE(llvm::sys::fs::create_directory(folder.file("sub")));
  expectRefused(readParameter(folder, "sub"), "no regular file");
  expectRefused(readParameter(folder, "sub//real"), "plain relative");
  expectRefused(readParameter(folder, "missing"), "No such file");
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  expectRefused(readParameter(folder, "pipe"), "no regular file");
}

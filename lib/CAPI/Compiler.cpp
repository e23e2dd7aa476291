//===- Compiler.cpp - The compiler as a C library -------------------------===//
//
// See fusion-c/Compiler.h. The library is built without exceptions; running out
// of memory inside LLVM ends the process, as everywhere in LLVM.
//
//===----------------------------------------------------------------------===//
#include "fusion-c/Compiler.h"

#include "fusion/Pipelines/Driver.h"

#include "llvm/Support/Path.h"

struct fusion_compile_result {
  fusion::Compilation compilation;
};

int fusion_compiler_abi(void) { return FUSION_COMPILER_ABI; }

const char *fusion_compiler_version(void) { return FUSION_VERSION; }

fusion_compile_result *fusion_compile(const char *source, size_t size,
                                      const char *folder,
                                      const char *const *options,
                                      size_t count) {
  auto *result = new fusion_compile_result;
  // The same rules as on the command line; source and target are the caller's.
  std::vector<std::string> arguments = {"<source>", "--o=<artifact>"};
  for (size_t i = 0; i < count; ++i)
    arguments.emplace_back(options[i]);
  llvm::Expected<fusion::CommandLine> line =
      fusion::parseCommandLine(arguments);
  if (!line) {
    result->compilation.code = 2;
    result->compilation.messages =
        "error: " + llvm::toString(line.takeError()) + "\n";
    return result;
  }
  line->compile.parameterFolder = folder ? folder : ".";
  result->compilation =
      fusion::compile(llvm::MemoryBuffer::getMemBufferCopy(
                          llvm::StringRef(source, size), "<source>"),
                      *line);
  return result;
}

int fusion_compile_result_code(const fusion_compile_result *result) {
  return result->compilation.code;
}

const char *
fusion_compile_result_messages(const fusion_compile_result *result) {
  return result->compilation.messages.c_str();
}

const char *
fusion_compile_result_explanation(const fusion_compile_result *result) {
  return result->compilation.explanation.c_str();
}

const void *fusion_compile_result_artifact(const fusion_compile_result *result,
                                           size_t *size) {
  const std::vector<uint8_t> &artifact = result->compilation.artifact;
  *size = artifact.size();
  return artifact.empty() ? nullptr : artifact.data();
}

void fusion_compile_result_free(fusion_compile_result *result) {
  delete result;
}

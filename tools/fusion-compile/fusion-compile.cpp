//===- fusion-compile.cpp - Model IR in, executable module out ------------===//
//
// Reads the file, compiles, writes the artifact atomically, prints.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Driver.h"
#include "fusion/Pipelines/ToolProcess.h"

#include "ModuleFile.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

using namespace fusion;

static int fail(rt::Code code, const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return int(code);
}

int main(int argc, char **argv) {
  ToolProcess process(argc, argv);
  llvm::Expected<CommandLine> line =
      parseCommandLine(std::vector<std::string>(argv + 1, argv + argc));
  if (!line)
    return fail(rt::Code::Usage, llvm::toString(line.takeError()));
  if (line->help || line->version) {
    llvm::outs() << (line->help ? getHelp()
                                : "fusion-compile " FUSION_VERSION "\n");
    return process.finish();
  }
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> source =
      mlir::openInputFile(line->input, &message);
  if (!source)
    return fail(rt::Code::Usage,
                message + ", give the path of a model in the fusion dialect");
  if (line->output != "-")
    line->compile.reproducer = getReproducerPath(line->output);

  Compilation compilation = compile(std::move(source), *line);
  llvm::errs() << compilation.messages;
  if (compilation.code != 0)
    return compilation.code;
  const std::vector<uint8_t> &artifact = compilation.artifact;
  if (line->output == "-") {
    llvm::outs().write(reinterpret_cast<const char *>(artifact.data()),
                       artifact.size());
  } else {
    rt::Status status =
        rt::writeFileAtomically(line->output, artifact.data(), artifact.size());
    if (!status.ok())
      return fail(status.code(), status.message());
  }
  llvm::outs() << compilation.explanation;
  return process.finish();
}

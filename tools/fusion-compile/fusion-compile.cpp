//===- fusion-compile.cpp - Model IR in, executable module out ------------===//
//
// Parses, runs the phases, writes the module atomically. Everything that
// decides lives in lib/; this file turns outcomes into messages and exit codes.
//
//===----------------------------------------------------------------------===//
#include "Options.h"

#include "fusion/Analysis/Explain.h"
#include "fusion/Codegen/NativeCode.h"
#include "fusion/IR/Parameters.h"
#include "fusion/Pipelines/Registration.h"
#include "fusion/Program/ModuleBuilder.h"

#include "ModuleData.h"
#include "ModuleFile.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace fusion;

static int fail(rt::Code code, const Twine &message) {
  llvm::WithColor::error() << message << "\n";
  return int(code);
}

/// Writes the module's text to `path`, or to stdout for `-`.
static int writeText(ModuleOp module, StringRef path) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().useLocalScope());
  if (path == "-") {
    llvm::outs() << text;
    return 0;
  }
  rt::Status status = rt::writeFileAtomically(path.str(), text.data(), text.size());
  return status.ok() ? 0 : fail(status.code(), status.message());
}

static int writeModule(ModuleOp module, const CommandLine &line, const CpuTarget &cpu) {
  ModuleBuildOptions options;
  options.cpu = cpu.name;
  options.cpuFeatures = cpu.features;
  options.parameterFolder = getParameterFolder(module, line.compile.parameterFolder);
  options.provenance = {{"compiler", "fusion " FUSION_VERSION},
                        {"flags", line.recorded},
                        {"cpu", cpu.name}};
  if (auto rewrites = module->getAttrOfType<ArrayAttr>("fusion.rewrites"))
    for (auto rewrite : rewrites.getAsRange<StringAttr>())
      options.provenance.push_back({"rewrite", rewrite.str()});
  for (const std::string &plugin : line.plugins)
    options.provenance.push_back({"plugin", plugin});
  FailureOr<rt::Module> executable = buildExecutableModule(module, options);
  if (failed(executable))
    return int(rt::Code::BadProgram);
  rt::Status status = rt::writeModuleFile(*executable, line.output);
  return status.ok() ? 0 : fail(status.code(), status.message());
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  std::optional<CommandLine> line = parseCommandLine(argc, argv);
  if (!line)
    return int(rt::Code::Usage);
  for (const std::string &path : line->plugins) {
    llvm::Expected<PassPlugin> plugin = PassPlugin::load(path);
    if (!plugin)
      return fail(rt::Code::Environment, llvm::toString(plugin.takeError()));
    plugin->registerPassRegistryCallbacks();
  }
  llvm::Expected<CpuTarget> cpu = resolveCpu(line->compile.cpu);
  if (!cpu)
    return fail(rt::Code::Usage, llvm::toString(cpu.takeError()));
  line->compile.cpu = cpu->name;
  if (line->output != "-")
    line->compile.reproducer = line->output + ".reproducer.mlir";

  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(line->input, &message);
  if (!file)
    return fail(rt::Code::Usage, message + ", give the path of a model in the fusion dialect");
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context, llvm::errs());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    return int(rt::Code::BadProgram);

  DecisionLog log;
  GraphStats before, after;
  if (line->explain) {
    if (failed(collectDecisions(context, log)))
      return fail(rt::Code::Internal, "cannot collect remarks");
    before = computeGraphStats(*module);
    line->compile.afterPhase = [&](Phase phase, ModuleOp current) {
      if (phase == Phase::Fuse)
        after = computeGraphStats(current);
    };
  }
  switch (runPhases(*module, line->compile)) {
  case CompileStatus::Internal:
    return fail(rt::Code::Internal, "the compiler broke an invariant of its own, see above, report it with " +
                                        line->compile.reproducer);
  case CompileStatus::BadProgram:
    llvm::sys::fs::remove(line->compile.reproducer);
    return int(rt::Code::BadProgram);
  case CompileStatus::Ok:
    break;
  }
  int code = line->compile.stopAfter == Phase::Program ? writeModule(*module, *line, *cpu)
                                                       : writeText(*module, line->output);
  if (code == 0 && line->explain)
    printExplain(computeExplain(before, after, log), llvm::outs());
  return code;
}

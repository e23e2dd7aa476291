//===- fusion-opt.cpp - Runs passes and phases on model IR ----------------===//
//
// The compiler engineer's tool: any pass, phase or the whole pipeline by flag,
// remarks with reasons, why two ops are in one group or not, plugins by
// explicit path.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/PassWatch.h"
#include "fusion/Pipelines/Plugins.h"
#include "fusion/Pipelines/Registration.h"
#include "fusion/Pipelines/ToolProcess.h"

#include "Process.h"
#include "Status.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <string>

using namespace fusion;

/// `--fusion-why=@a,@b` is the fuse phase with a question.
static std::string spellOut(llvm::StringRef argument) {
  llvm::StringRef pair = argument;
  if (pair.consume_front("--fusion-why=") || pair.consume_front("-fusion-why="))
    return ("--fusion-fuse=why={" + pair + "}").str();
  return argument.str();
}

static int fail(rt::Code code, const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return int(code);
}

/// Loads the plugins that `arguments` name and takes those options out: MLIR's
/// own parser would go on without a plugin that can't be loaded.
static llvm::Error loadPlugins(llvm::SmallVectorImpl<std::string> &arguments,
                               mlir::DialectRegistry &registry) {
  llvm::SmallVector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    llvm::StringRef argument(arguments[i]);
    auto [name, value] = argument.ltrim('-').split('=');
    bool isPass = name == "load-pass-plugin";
    if (argument == "--") {
      rest.append(arguments.begin() + i, arguments.end());
      break;
    }
    bool isNext = !argument.contains('=');
    if (!argument.starts_with("-") ||
        (!isPass && name != "load-dialect-plugin") ||
        (isNext && i + 1 == arguments.size())) {
      rest.push_back(arguments[i]);
      continue;
    }
    std::string path = isNext ? arguments[++i] : value.str();
    std::string option = "--" + name.str();
    if (llvm::Error error = isPass ? loadPassPlugin(path, option)
                                   : loadDialectPlugin(path, option, registry))
      return error;
  }
  arguments = std::move(rest);
  return llvm::Error::success();
}

/// As mlir::MlirOptMain, but a pass that fails owes an error.
static int run(llvm::StringRef inputPath, llvm::StringRef outputPath,
               mlir::DialectRegistry &registry) {
  mlir::MlirOptMainConfig parsed =
      mlir::MlirOptMainConfig::createFromCLOptions();
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> input =
      mlir::openInputFile(inputPath, &message);
  std::unique_ptr<llvm::ToolOutputFile> output =
      input ? mlir::openOutputFile(outputPath, &message) : nullptr;
  if (!output) {
    llvm::errs() << "error: " << message << "\n";
    return EXIT_FAILURE;
  }
  PassWatch watch;
  std::atomic<bool> isReported = false;
  mlir::MlirOptMainConfig config = parsed;
  config.setPassPipelineSetupFn([&](mlir::PassManager &manager) {
    manager.getContext()->getDiagEngine().registerHandler(
        [&](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            isReported = true;
          return mlir::failure(); // for those who print it
        });
    watch.watch(manager);
    return parsed.setupPassPipeline(manager);
  });
  if (mlir::succeeded(mlir::MlirOptMain(output->os(), std::move(input),
                                        registry, config))) {
    output->keep();
    return EXIT_SUCCESS;
  }
  if (!isReported && !watch.getFailed().empty())
    llvm::errs() << "error: " << watch.getFailed()
                 << " failed without saying why, in the pipeline, make it emit "
                    "an error before signalPassFailure\n";
  return EXIT_FAILURE;
}

int main(int argc, char **argv) {
  ToolProcess process(argc, argv);
  llvm::SmallVector<std::string> arguments;
  for (int i = 0; i < argc; ++i)
    arguments.push_back(spellOut(argv[i]));
  mlir::DialectRegistry registry;
  registerDialects(registry);
  registerPasses();
  if (llvm::Error error = loadPlugins(arguments, registry))
    return fail(rt::Code::Environment, llvm::toString(std::move(error)));
  llvm::SmallVector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  auto [input, output] = mlir::registerAndParseCLIOptions(
      arguments.size(), pointers.data(), "Fusion's passes on model IR\n",
      registry);
  if (!rt::findOverwritten({output}, {input}).empty())
    return fail(rt::Code::Usage, "'" + output +
                                     "' is read, and would be overwritten, -o, "
                                     "choose another");
  mlir::MlirOptMainConfig config =
      mlir::MlirOptMainConfig::createFromCLOptions();
  int code =
      config.shouldShowDialects() || config.shouldListPasses()
          ? mlir::asMainReturnCode(mlir::MlirOptMain(
                arguments.size(), pointers.data(), input, output, registry))
          : run(input, output, registry);
  return code != 0 ? code : process.finish();
}

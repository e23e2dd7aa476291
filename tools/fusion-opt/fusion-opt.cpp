//===- fusion-opt.cpp - Runs passes and phases on model IR ----------------===//
//
// The compiler engineer's tool: any pass, phase or the whole pipeline by flag,
// remarks with reasons, why two ops are in one group or not, plugins by
// explicit path.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Registration.h"
#include "fusion/Pipelines/ToolProcess.h"

#include "Process.h"
#include "Status.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

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

/// Makes plugins' paths such that the loader finds them, and returns what is
/// wrong with one, before MLIR's own parser meets it: that would pass the
/// loader's text through and go on.
static std::string checkPlugins(llvm::MutableArrayRef<std::string> arguments) {
  const std::string option = "--load-pass-plugin";
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    llvm::StringRef text(argument);
    auto [name, value] = text.ltrim('-').split('=');
    bool isNext = !text.contains('=');
    if (!text.starts_with("-") || name != llvm::StringRef(option).ltrim('-') ||
        (isNext && i + 1 == arguments.size()))
      continue;
    std::string path = isNext ? arguments[i + 1] : value.str();
    (isNext ? arguments[i + 1] : argument) =
        (isNext ? "" : option + "=") + getPluginPath(path);
    if (auto plugin = mlir::PassPlugin::load(getPluginPath(path)); !plugin)
      return describePluginError(path, llvm::toString(plugin.takeError()),
                                 option);
  }
  return "";
}

int main(int argc, char **argv) {
  ToolProcess process(argc, argv);
  llvm::SmallVector<std::string> arguments;
  for (int i = 0; i < argc; ++i)
    arguments.push_back(spellOut(argv[i]));
  mlir::DialectRegistry registry;
  registerDialects(registry);
  registerPasses();
  std::string message =
      checkPlugins(llvm::MutableArrayRef(arguments).drop_front());
  if (!message.empty())
    return fail(rt::Code::Environment, message);
  llvm::SmallVector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, pointers.data(), "Fusion's passes on model IR\n", registry);
  if (!rt::findOverwritten({output}, {input}).empty())
    return fail(rt::Code::Usage, "'" + output +
                                     "' is read, and would be overwritten, -o, "
                                     "choose another");
  int code = mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, pointers.data(), input, output, registry));
  return code != 0 ? code : process.finish();
}

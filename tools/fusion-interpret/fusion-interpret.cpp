//===- fusion-interpret.cpp - Evaluates model IR by the reference ---------===//
//
// The oracle as a tool: slow, obvious, right. Ranks are threads.
//
//===----------------------------------------------------------------------===//

#include "Model.h"
#include "Run.h"

#include "fusion/Pipelines/ToolProcess.h"

#include "llvm/Support/CommandLine.h"

using namespace fusion;
using namespace fusion::interpret;
using namespace fusion::reference;
namespace cl = llvm::cl;

static cl::OptionCategory category("Options of fusion-interpret");

static cl::opt<std::string> model(cl::Positional, cl::desc("<model.mlir>"),
                                  cl::cat(category));
static cl::list<std::string>
    inputFiles("input", cl::value_desc("name=x.npy"), cl::cat(category),
               cl::desc("An input; name@rank=x.npy for one rank only"));
static cl::opt<std::string> archive("inputs", cl::value_desc("f.npz"),
                                    cl::cat(category),
                                    cl::desc("Inputs by name in one archive"));
static cl::opt<uint64_t>
    seed("random-inputs", cl::value_desc("seed"), cl::cat(category),
         cl::desc("Random inputs where none is given: floats are integers "
                  "-4..4, integers 0..3"));
static cl::opt<std::string>
    outputDirectory("output-dir", cl::value_desc("dir"), cl::cat(category),
                    cl::desc("Folder of the outputs, one .npy file each; "
                             "with --ranks in folders rankN"));
static cl::opt<int64_t> ranks("ranks", cl::init(1), cl::value_desc("n"),
                              cl::cat(category),
                              cl::desc("Number of ranks, each a thread"));
static cl::list<std::string>
    functions("function", cl::value_desc("name"), cl::cat(category),
              cl::desc("Function to evaluate (default main); name@rank for "
                       "one rank only"));
static cl::opt<int64_t>
    batch("batch", cl::init(0), cl::value_desc("n"), cl::cat(category),
          cl::desc("Batch size of random inputs (default the largest)"));
static cl::opt<std::string>
    dumpDirectory("dump-all", cl::value_desc("dir"), cl::cat(category),
                  cl::desc("Writes the results of every op, and index.txt"));
static cl::opt<bool>
    counts("counts", cl::cat(category),
           cl::desc("Prints how often ops are evaluated, by name"));
static cl::opt<std::string>
    batchFile("batch-file", cl::value_desc("cases.txt"), cl::cat(category),
              cl::desc("Evaluates many models: each line is "
                       "'model inputs-dir output-dir'; a failing one leaves "
                       "error.txt in its output-dir"));
static cl::opt<std::string>
    memoryLimit("memory-limit", cl::init("8GiB"), cl::value_desc("size"),
                cl::cat(category),
                cl::desc("Bytes of live tensors, 8 an element (default 8GiB)"));
static cl::opt<double>
    timeout("collective-timeout", cl::init(600), cl::value_desc("seconds"),
            cl::cat(category),
            cl::desc("Longest wait in one collective (default 600)"));

/// "4096", "512MiB", "8GiB".
static bool parseSize(llvm::StringRef text, uint64_t &size) {
  unsigned shift = text.consume_back("KiB")   ? 10
                   : text.consume_back("MiB") ? 20
                   : text.consume_back("GiB") ? 30
                                              : 0;
  if (text.getAsInteger(10, size) || size > (UINT64_MAX >> shift))
    return false;
  size <<= shift;
  return true;
}

static llvm::Error execute() {
  Request request;
  if (!parseSize(memoryLimit, request.options.memoryLimit))
    return fail(FailureKind::Usage, "--memory-limit '" + memoryLimit +
                                        "' is no size like 512MiB or 8GiB");
  // Not (x > 0): a NaN is no time either.
  if ((batch < 1 && batch.getNumOccurrences() > 0) || !(timeout > 0))
    return fail(FailureKind::Usage,
                "--batch and --collective-timeout must be above zero");
  request.batch = batch;
  if (batch > 0)
    request.options.batch = batch;
  request.options.collectiveTimeout = std::min<double>(timeout, 1e6);

  mlir::DialectRegistry registry;
  interpret::registerDialects(registry);
  if (!batchFile.empty()) {
    if (!model.empty())
      return fail(FailureKind::Usage, "give a model or --batch-file, not both");
    return runBatch(registry, batchFile, request.options);
  }
  if (model.empty() ||
      (outputDirectory.empty() && dumpDirectory.empty() && !counts))
    return fail(FailureKind::Usage,
                "give a model, and --output-dir, --dump-all or --counts; see "
                "--help");
  if (ranks < 1 || ranks > 1024)
    return fail(FailureKind::Usage, "--ranks must be between 1 and 1024");
  request.model = model;
  request.outputDirectory = outputDirectory;
  request.dumpDirectory = dumpDirectory;
  request.ranks = ranks;
  request.perRank = ranks.getNumOccurrences() > 0;
  request.counts = counts;
  if (!functions.empty())
    request.functions.assign(functions.begin(), functions.end());
  for (llvm::StringRef file : inputFiles)
    if (llvm::Error error = request.inputs.addFile(file))
      return error;
  if (!archive.empty())
    if (llvm::Error error = request.inputs.addArchive(archive))
      return error;
  if (seed.getNumOccurrences() > 0)
    request.inputs.setSeed(seed);
  mlir::MLIRContext context(registry);
  return run(context, request);
}

int main(int argc, char **argv) {
  ToolProcess process(argc, argv);
  cl::HideUnrelatedOptions(category);
  std::string problems;
  llvm::raw_string_ostream os(problems);
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "Evaluates a model at graph level, op by op in f64.\n\n"
          "Exit codes: 0 ok, 2 usage or inputs, 3 bad program, 6 memory or "
          "disk, 8 timeout.\n",
          &os)) {
    llvm::errs() << "error: " << problems;
    return static_cast<int>(FailureKind::Usage);
  }
  llvm::Error error = execute();
  if (!error)
    return process.finish();
  FailureKind kind;
  std::string message = takeMessage(std::move(error), kind);
  llvm::errs() << "error: " << message << "\n";
  return static_cast<int>(kind);
}

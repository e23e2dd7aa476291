//===- Run.cpp - One evaluation, and a batch of them ----------------------===//

#include "Run.h"

#include "Model.h"
#include "Observers.h"

#include "fusion/Reference/Npy.h"

#include "Process.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace fusion;
using namespace fusion::interpret;
using namespace fusion::reference;

/// The function that `rank` runs: `name@rank` if one is given, else `name`.
static llvm::Expected<mlir::func::FuncOp>
chooseFunction(mlir::ModuleOp module, const Request &request, int64_t rank) {
  std::string chosen;
  for (llvm::StringRef entry : request.functions) {
    auto [name, suffix] = entry.rsplit('@');
    int64_t only;
    if (suffix.empty() || suffix.getAsInteger(10, only))
      chosen = chosen.empty() ? entry.str() : chosen;
    else if (only == rank)
      return findFunction(module, name);
  }
  return findFunction(module, chosen.empty() ? "main" : chosen);
}

static llvm::Error makeFolder(llvm::StringRef path) {
  if (std::error_code error = llvm::sys::fs::create_directories(path))
    return fail(FailureKind::Resources,
                "cannot make the folder '" + path + "': " + error.message());
  return llvm::Error::success();
}

/// The folder of a rank's outputs.
static std::string getOutputFolder(const Request &request, int64_t rank) {
  llvm::SmallString<128> folder(request.outputDirectory);
  if (request.perRank)
    llvm::sys::path::append(folder, "rank" + llvm::Twine(rank));
  return folder.str().str();
}

/// No file that is read is written, before anything is evaluated.
static llvm::Error checkOutputPaths(mlir::func::FuncOp function, int64_t rank,
                                    const Request &request) {
  if (request.outputDirectory.empty())
    return llvm::Error::success();
  std::vector<std::string> written, read = request.inputs.getPaths(function);
  read.push_back(request.model);
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    llvm::SmallString<128> path(getOutputFolder(request, rank));
    llvm::sys::path::append(path, getFileName(getResultName(function, i)));
    written.push_back(path.str().str());
  }
  std::string path = rt::findOverwritten(written, read);
  if (path.empty())
    return llvm::Error::success();
  return fail(FailureKind::Usage, "'" + path +
                                      "' is read, and would be overwritten; "
                                      "choose another --output-dir");
}

static llvm::Error writeOutputs(mlir::func::FuncOp function,
                                llvm::ArrayRef<Tensor> results,
                                llvm::StringRef folder) {
  if (llvm::Error error = makeFolder(folder))
    return error;
  std::set<std::string> written;
  for (unsigned i = 0; i < results.size(); ++i) {
    std::string file = getFileName(getResultName(function, i));
    if (!written.insert(file).second)
      return fail(FailureKind::Program,
                  "two results are written to '" + file +
                      "'; give them distinct fusion.name attributes");
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, file);
    if (llvm::Error error = writeNpy(path, results[i]))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error interpret::run(mlir::MLIRContext &context, Request &request) {
  llvm::Expected<Model> model = loadModel(context, request.model);
  if (!model)
    return model.takeError();
  Options options = request.options;
  options.moduleDirectory = model->directory;

  std::vector<mlir::func::FuncOp> functions;
  std::vector<std::vector<Tensor>> inputs;
  auto budget = std::make_shared<MemoryBudget>(options.memoryLimit);
  for (int64_t rank = 0; rank < request.ranks; ++rank) {
    auto function = chooseFunction(*model->module, request, rank);
    if (!function)
      return function.takeError();
    functions.push_back(*function);
    if (llvm::Error error = checkOutputPaths(*function, rank, request))
      return error;
    auto ofRank =
        request.inputs.collect(*function, rank, request.batch, budget);
    if (!ofRank)
      return ofRank.takeError();
    inputs.push_back(std::move(*ofRank));
  }
  if (llvm::Error error = request.inputs.checkAllTaken())
    return error;
  options.memoryLimit -= budget->getUsed();

  Counts counts;
  Dump dump(request.dumpDirectory, request.perRank);
  options.onResult = [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results,
                         int64_t rank) {
    if (request.counts)
      counts.note(op, results);
    if (!request.dumpDirectory.empty())
      dump.note(op, results, rank);
  };
  auto results = evaluateRanks(functions, inputs, options);
  // What was seen up to an error is worth most.
  llvm::Error dumped = dump.finish();
  if (!results)
    return llvm::joinErrors(results.takeError(), std::move(dumped));
  if (dumped)
    return dumped;
  if (request.counts)
    counts.print(llvm::outs());
  if (request.outputDirectory.empty())
    return llvm::Error::success();
  for (int64_t rank = 0; rank < request.ranks; ++rank)
    if (llvm::Error error = writeOutputs(functions[rank], (*results)[rank],
                                         getOutputFolder(request, rank)))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Batch
//===----------------------------------------------------------------------===//

/// Leaves the message beside where the outputs would be.
static void writeErrorFile(llvm::StringRef folder, llvm::StringRef message) {
  llvm::consumeError(makeFolder(folder));
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "error.txt");
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    llvm::errs() << "error: cannot write '" << path << "': " << error.message()
                 << "\n";
  else
    os << "error: " << message << "\n";
}

llvm::Error interpret::runBatch(const mlir::DialectRegistry &registry,
                                llvm::StringRef path, const Options &options) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return fail(FailureKind::Usage,
                "cannot read '" + path + "': " + buffer.getError().message());
  llvm::SmallVector<llvm::StringRef> lines;
  (*buffer)->getBuffer().split(lines, '\n');

  // A context keeps what models leave in it: take a new one now and then.
  constexpr int kCasesPerContext = 64;
  std::unique_ptr<mlir::MLIRContext> context;
  int cases = 0, failures = 0;
  FailureKind firstKind = FailureKind::Program;
  for (auto [number, raw] : llvm::enumerate(lines)) {
    llvm::StringRef line = raw.trim();
    if (line.empty() || line.starts_with("#"))
      continue;
    llvm::SmallVector<llvm::StringRef> fields;
    line.split(fields, line.contains('\t') ? '\t' : ' ', -1,
               /*KeepEmpty=*/false);
    if (fields.size() != 3)
      return fail(FailureKind::Usage,
                  "'" + path + "' line " + llvm::Twine(number + 1) +
                      " is not: model inputs-folder output-folder");
    if (cases++ % kCasesPerContext == 0)
      context = std::make_unique<mlir::MLIRContext>(
          registry, mlir::MLIRContext::Threading::DISABLED);
    Request request;
    request.model = fields[0];
    request.inputs.setDirectory(fields[1].str());
    request.outputDirectory = fields[2];
    request.options = options;
    llvm::SmallString<128> stale(fields[2]);
    llvm::sys::path::append(stale, "error.txt");
    llvm::sys::fs::remove(stale);
    llvm::Error error = run(*context, request);
    if (!error)
      continue;
    FailureKind kind;
    std::string message = takeMessage(std::move(error), kind);
    if (failures++ == 0)
      firstKind = kind;
    writeErrorFile(fields[2], message);
  }
  if (failures == 0)
    return llvm::Error::success();
  return fail(firstKind, llvm::Twine(failures) + " of " + llvm::Twine(cases) +
                             " cases failed; see error.txt in their output "
                             "folders");
}

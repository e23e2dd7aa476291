//===- UserKernels.cpp - Kernels that a model brings along ----------------===//
//
// From declarations to objects: sources are read and made distinct, compiled
// one after the other, checked, and given the names that the declarations have.
// Every error is reported at the op that called the kernel.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/UserKernels.h"

#include "../UserKernel.h"
#include "AssembleObject.h"
#include "CompileC.h"
#include "ExpandMath.h"
#include "UserObject.h"

#include "fusion/IR/Parameters.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

#include <map>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// The largest source that is read from a file.
static constexpr size_t kMostSourceBytes = size_t(16) << 20;

namespace {

/// A declared function.
struct Declared {
  LLVM::LLVMFuncOp function;
  UserKernel kernel;
};

/// All functions of one source.
struct Unit {
  CSource source;
  std::vector<Declared> declared;

  bool isPure() const {
    return llvm::any_of(declared,
                        [](const Declared &d) { return d.kernel.isPure; });
  }
  std::vector<std::pair<std::string, std::string>> getNames() const {
    std::vector<std::pair<std::string, std::string>> names;
    for (const Declared &each : declared)
      names.push_back({each.kernel.entry.str(),
                       LLVM::LLVMFuncOp(each.function).getSymName().str()});
    return names;
  }
};

class UserKernelCompiler {
public:
  UserKernelCompiler(ModuleOp kernels, const UserKernelOptions &options,
                     UserObjects &result)
      : kernels(kernels), options(options), result(result) {}

  UserKernelStatus run();

private:
  LogicalResult collect();
  LogicalResult uniteDeclarations(Unit &unit);
  LogicalResult compile(const Unit &unit, SmallVectorImpl<char> &object);
  LogicalResult findCompiler();
  LogicalResult link(ArrayRef<SmallVector<char, 0>> objects);
  LogicalResult fail(const Unit &unit, const Twine &why,
                     UserKernelStatus kind = UserKernelStatus::BadProgram);

  ModuleOp kernels;
  const UserKernelOptions &options;
  UserObjects &result;
  UserKernelStatus status = UserKernelStatus::Ok;
  std::string compiler;
  bool isClang = false;
  std::vector<Unit> units;
  std::vector<std::string> called; ///< by all objects, sorted, each once
};

} // namespace

LogicalResult UserKernelCompiler::fail(const Unit &unit, const Twine &why,
                                       UserKernelStatus kind) {
  status = kind;
  const Declared &first = unit.declared.front();
  LLVM::LLVMFuncOp function = first.function;
  InFlightDiagnostic diagnostic =
      mlir::emitError(function.getLoc())
      << "the kernel '" << first.kernel.entry.getValue() << "' " << why;
  for (const Declared &each : unit.declared)
    diagnostic.attachNote(LLVM::LLVMFuncOp(each.function).getLoc())
        << "called here as '" << each.kernel.prototype.getValue() << "'";
  return diagnostic;
}

/// Groups the declarations by the text of their source.
LogicalResult UserKernelCompiler::collect() {
  llvm::MapVector<StringRef, std::vector<Declared>> bySource;
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>())
    if (std::optional<UserKernel> kernel = UserKernel::get(function))
      bySource[kernel->source.getValue()].push_back({function, *kernel});
  std::map<std::string, size_t> byText;
  for (auto &[source, declared] : bySource) {
    Unit unit;
    std::string text = source.str();
    unit.declared = declared;
    StringRef path = source;
    if (path.consume_front(kSourceFilePrefix)) {
      auto file = openModelFile(options.folder, path, "source file");
      if (!file)
        return fail(unit, "has no source: " + toString(file.takeError()));
      if ((*file)->getBufferSize() > kMostSourceBytes)
        return fail(unit,
                    "has a source file of more than 16 MiB: '" + path + "'");
      text = (*file)->getBuffer().str();
      if (StringRef(text).contains('\0'))
        return fail(unit, "has a source file that is no text: '" + path + "'");
      unit.source.name = llvm::sys::path::filename(path).str();
    } else {
      unit.source.name = declared.front().kernel.entry.str() + ".c";
    }
    auto [it, isNew] = byText.emplace(text, units.size());
    if (!isNew) {
      llvm::append_range(units[it->second].declared, declared);
      continue;
    }
    unit.source.text = std::move(text);
    units.push_back(std::move(unit));
  }
  for (Unit &unit : units) {
    if (failed(uniteDeclarations(unit)))
      return failure();
    llvm::SHA256 hash;
    hash.update(unit.source.text);
    std::string digest =
        llvm::toHex(ArrayRef<uint8_t>(hash.final()), /*LowerCase=*/true);
    for (const Declared &each : unit.declared) {
      if (!llvm::is_contained(unit.source.prototypes,
                              each.kernel.prototype.str()))
        unit.source.prototypes.push_back(each.kernel.prototype.str());
      result.sources.push_back({each.kernel.entry.str(), digest});
    }
  }
  return success();
}

/// One declaration for each function of a source: a file and a text may be the
/// same source.
LogicalResult UserKernelCompiler::uniteDeclarations(Unit &unit) {
  std::vector<Declared> distinct;
  for (Declared &each : unit.declared) {
    auto known = llvm::find_if(distinct, [&](const Declared &other) {
      return other.kernel.entry == each.kernel.entry;
    });
    if (known == distinct.end()) {
      distinct.push_back(each);
      continue;
    }
    if (known->kernel.prototype != each.kernel.prototype)
      return fail(unit, "is called in two ways; write a function for each");
    known->kernel.isPure |= each.kernel.isPure;
    if (failed(SymbolTable::replaceAllSymbolUses(
            each.function, known->function.getSymNameAttr(), kernels)))
      return fail(unit, "is called by something unknown");
    each.function.erase();
  }
  unit.declared = std::move(distinct);
  return success();
}

LogicalResult UserKernelCompiler::findCompiler() {
  llvm::Expected<std::string> found = findCCompiler(options.compiler);
  if (!found)
    return fail(units.front(),
                "is written in C: " + toString(found.takeError()),
                UserKernelStatus::NoCompiler);
  compiler = *found;
  ChildResult version = readVersion(compiler, options.timeoutSeconds);
  std::string what = "can't be compiled: '" + compiler + "' ";
  if (version.kind == ChildResult::NoResources)
    return fail(units.front(), what + "can't be run: " + version.error,
                UserKernelStatus::Resources);
  if (version.kind == ChildResult::NotStarted)
    return fail(units.front(),
                what + "can't be run (" + version.error +
                    "); name a C compiler with --c-compiler",
                UserKernelStatus::NoCompiler);
  if (version.kind == ChildResult::TimedOut)
    return fail(units.front(),
                what + "does not answer --version within " +
                    Twine(options.timeoutSeconds) +
                    " s; name a C compiler with --c-compiler",
                UserKernelStatus::Timeout);
  if (version.kind != ChildResult::Exited || version.status != 0)
    return fail(units.front(),
                what + "does not answer --version; name a C compiler with "
                       "--c-compiler",
                UserKernelStatus::NoCompiler);
  isClang = StringRef(version.output).contains("clang");
  result.compiler = version.output;
  return success();
}

LogicalResult UserKernelCompiler::compile(const Unit &unit,
                                          SmallVectorImpl<char> &object) {
  ChildResult child = compileC(compiler, unit.source, options.cpuFeatures,
                               isClang, options.timeoutSeconds);
  std::string says = findError(child.messages);
  switch (child.kind) {
  case ChildResult::NoResources:
    return fail(unit, "can't be compiled: " + child.error,
                UserKernelStatus::Resources);
  case ChildResult::NotStarted:
    return fail(unit,
                "can't be compiled: '" + compiler + "' can't be run (" +
                    child.error + ")",
                UserKernelStatus::NoCompiler);
  case ChildResult::TimedOut:
    return fail(unit,
                "was not compiled by '" + compiler + "' within " +
                    Twine(options.timeoutSeconds) +
                    " s; make it simpler or raise --c-compiler-timeout",
                UserKernelStatus::Timeout);
  case ChildResult::TooMuch:
    return fail(unit,
                "is too large: '" + compiler + "' printed more than 256 MiB");
  case ChildResult::Signaled:
    return fail(unit,
                "was not compiled: '" + compiler + "' was ended by signal " +
                    Twine(child.status) + (says.empty() ? "" : ": " + says),
                UserKernelStatus::NoCompiler);
  case ChildResult::Exited:
    break;
  }
  if (child.status != 0) {
    if (says.empty())
      return fail(unit,
                  "was not compiled: '" + compiler + "' ended with status " +
                      Twine(child.status) + " and said nothing",
                  UserKernelStatus::NoCompiler);
    // gcc's driver lives on when its compiler crashes; so does clang's.
    bool crashed =
        StringRef(child.messages).contains("internal compiler error") ||
        StringRef(child.messages).contains("PLEASE submit a bug");
    return fail(
        unit,
        crashed ? "was not compiled: '" + compiler + "' crashed: " + says
                : "does not compile: " + says,
        crashed ? UserKernelStatus::NoCompiler : UserKernelStatus::BadProgram);
  }
  llvm::Expected<SmallVector<char, 0>> assembled = assembleObject(child.output);
  if (!assembled)
    return fail(unit, "can't be assembled: " + toString(assembled.takeError()) +
                          "; correct its asm statements, or use another "
                          "compiler with --c-compiler");
  llvm::Expected<std::vector<std::string>> calls =
      checkUserObject(*assembled, unit.isPure());
  if (!calls)
    return fail(unit, toString(calls.takeError()));
  llvm::append_range(called, *calls);
  llvm::Expected<SmallVector<char, 0>> isolated =
      isolateUserObject(*assembled, unit.getNames());
  if (!isolated)
    return fail(unit, toString(isolated.takeError()));
  object.assign(isolated->begin(), isolated->end());
  return success();
}

/// Lists what the objects call of the runtime's table behind what the kernels
/// call, and makes the functions that lead there.
LogicalResult UserKernelCompiler::link(ArrayRef<SmallVector<char, 0>> objects) {
  llvm::sort(called);
  called.erase(llvm::unique(called), called.end());
  ImportTable imports;
  if (auto list = kernels->getAttrOfType<ArrayAttr>("fusion.imports"))
    for (auto pair : list.getAsRange<ArrayAttr>())
      imports.push_back(
          {cast<StringAttr>(pair[0]).str(), cast<StringAttr>(pair[1]).str()});
  std::vector<std::pair<std::string, size_t>> ordinals;
  for (const std::string &name : called) {
    if (isLinkedFunction(name))
      continue;
    std::pair<std::string, std::string> import{name, getImportSignature(name)};
    auto it = llvm::find(imports, import);
    ordinals.push_back({name, size_t(it - imports.begin())});
    if (it == imports.end())
      imports.push_back(import);
  }
  if (!ordinals.empty())
    declareImports(kernels, imports);
  llvm::Expected<SmallVector<char, 0>> support = makeSupportObject(ordinals);
  if (!support)
    return fail(units.front(), "can't be linked: internal error: " +
                                   toString(support.takeError()));
  result.objects.assign(objects.begin(), objects.end());
  result.objects.push_back(std::move(*support));
  return success();
}

UserKernelStatus UserKernelCompiler::run() {
  if (failed(collect()) || units.empty() || failed(findCompiler()))
    return status;
  std::vector<SmallVector<char, 0>> objects(units.size());
  for (auto [unit, object] : llvm::zip_equal(units, objects))
    if (failed(compile(unit, object)))
      return status;
  (void)link(objects); // the status says how it went
  return status;
}

UserKernelStatus fusion::compileUserKernels(ModuleOp kernels,
                                            const UserKernelOptions &options,
                                            UserObjects &result) {
  return UserKernelCompiler(kernels, options, result).run();
}

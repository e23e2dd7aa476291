//===- ModuleBuilder.cpp - Kernels + program + weights -> module ----------===//
//
// See ModuleBuilder.h. Kernels are numbered in the order in which the program
// names them; constants are laid out where the planner put them.
//
//===----------------------------------------------------------------------===//
#include "fusion/Program/ModuleBuilder.h"

#include "fusion/Analysis/RuntimeProgram.h"
#include "fusion/Codegen/NativeCode.h"
#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/Parameters.h"
#include "fusion/IR/TensorData.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "ModuleData.h"
#include "ModuleFile.h"

using namespace mlir;
using namespace fusion;

/// Numbers the kernels that the program names, in its order.
static void numberKernels(ModuleOp kernels, ProgramOp program,
                          rt::Module &result,
                          llvm::StringMap<uint32_t> &index) {
  auto number = [&](StringRef name) {
    if (!index.try_emplace(name, result.kernels.size()).second)
      return;
    rt::Kernel kernel;
    kernel.symbol = name.str();
    if (Operation *function = kernels ? kernels.lookupSymbol(name) : nullptr)
      if (auto text = function->getAttrOfType<StringAttr>("fusion.description"))
        kernel.description = text.str();
    result.kernels.push_back(std::move(kernel));
  };
  for (Operation &op : program.getBody().front())
    forEachKernel(&op, number);
}

static LogicalResult readImports(ModuleOp kernels, rt::Module &result) {
  auto imports = kernels->getAttrOfType<ArrayAttr>("fusion.imports");
  if (!imports)
    return success();
  for (Attribute entry : imports) {
    auto pair = dyn_cast<ArrayAttr>(entry);
    if (!pair || pair.size() != 2 || !isa<StringAttr>(pair[0]) ||
        !isa<StringAttr>(pair[1]))
      return kernels.emitError(
          "'fusion.imports' must hold pairs of name and signature");
    result.imports.push_back(
        {cast<StringAttr>(pair[0]).str(), cast<StringAttr>(pair[1]).str()});
  }
  return success();
}

/// Copies the elements of one content to its range, and names parameters.
static LogicalResult placeContent(ContentOp content, SymbolTable &symbols,
                                  ParameterReader &reader, uint32_t segment,
                                  rt::Module &result) {
  auto type = cast<RankedTensorType>(content.getType());
  TensorData data;
  if (std::optional<ElementsAttr> value = content.getValue()) {
    std::optional<TensorData> elements = TensorData::get(*value);
    if (!elements)
      return content.emitOpError("has a value that cannot be read");
    data = *elements;
  } else {
    auto parameter = symbols.lookup<ParameterOp>(*content.getParameter());
    if (!parameter)
      return content.emitOpError("names no parameter: ")
             << content.getParameterAttr();
    llvm::Expected<TensorData> read = reader.read(parameter);
    if (!read)
      return parameter.emitError(llvm::toString(read.takeError()));
    data = *read;
  }
  RangeAttr range = content.getRange();
  int64_t count = type.getNumElements();
  char *target =
      reinterpret_cast<char *>(result.constants.data()) + range.getOffset();
  int64_t width = count == 0 ? 0 : range.getSize() / count;
  if (data.isSplat()) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(target + i * width, data.getElement(0), width);
  } else if (count > 0) {
    if (int64_t(data.getBytes().size()) != range.getSize())
      return content.emitOpError("has ")
             << data.getBytes().size() << " bytes for a range of "
             << range.getSize();
    std::memcpy(target, data.getBytes().data(), range.getSize());
  }
  rt::TensorDesc desc;
  desc.name =
      content.getParameter() ? content.getParameter()->str() : std::string();
  desc.dtype = *getRuntimeType(type.getElementType());
  for (int64_t size : type.getShape())
    desc.shape.push_back({0, size});
  if (!desc.name.empty())
    result.parameters.push_back(
        {desc,
         {segment, uint64_t(range.getOffset()), uint64_t(range.getSize())}});
  return success();
}

/// Compiles the C kernels of the model.
static rt::Status compileSources(ModuleOp kernels,
                                 const ModuleBuildOptions &options,
                                 rt::Module &result, UserObjects &objects) {
  UserKernelOptions own = options.userKernels;
  own.folder = options.parameterFolder;
  own.cpuFeatures = options.cpuFeatures;
  rt::Code code = rt::Code::Ok;
  switch (compileUserKernels(kernels, own, objects)) {
  case UserKernelStatus::Ok:
    break;
  case UserKernelStatus::BadProgram:
    code = rt::Code::BadProgram;
    break;
  case UserKernelStatus::NoCompiler:
    code = rt::Code::Environment;
    break;
  case UserKernelStatus::Timeout:
    code = rt::Code::Timeout;
    break;
  case UserKernelStatus::Resources:
    code = rt::Code::Resources;
    break;
  }
  if (code != rt::Code::Ok)
    return rt::Status(code, "a C kernel of the model was not compiled");
  if (!objects.compiler.empty())
    result.provenance.push_back({"c-compiler", objects.compiler});
  for (const auto &[entry, digest] : objects.sources)
    result.provenance.push_back({"c-kernel", entry + " sha256:" + digest});
  return {};
}

/// What went wrong in the code generator: the disk, or the compiler itself.
static rt::Status nativeCodeFailed(ModuleOp kernels, llvm::Error error) {
  std::error_code code = llvm::inconvertibleErrorCode();
  std::string message;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &info) {
    code = info.convertToErrorCode();
    message = info.message();
  });
  if (code == std::errc::executable_format_error) {
    kernels.emitError("the model's C kernels can't be linked: ")
        << message << "; correct their asm statements";
    return rt::Status(rt::Code::BadProgram, message);
  }
  bool ofCompiler = code == llvm::inconvertibleErrorCode();
  // A limit of the system has no place in the program: the caller tells it.
  if (ofCompiler)
    kernels.emitError(message);
  return rt::Status(ofCompiler ? rt::Code::Internal : rt::Code::Resources,
                    message);
}

/// Compiles the kernels for a GPU.
static rt::Status addDeviceCode(ModuleOp kernels,
                                const DeviceCodeOptions &options,
                                rt::Module &result) {
  llvm::Expected<DeviceCode> code = compileDeviceCode(kernels, options);
  if (!code) {
    rt::Code kind = rt::Code::Internal;
    std::string message;
    llvm::handleAllErrors(code.takeError(),
                          [&](const llvm::ErrorInfoBase &info) {
                            std::error_code error = info.convertToErrorCode();
                            message = info.message();
                            if (error == std::errc::no_such_file_or_directory)
                              kind = rt::Code::Environment;
                            else if (error == std::errc::timed_out)
                              kind = rt::Code::Timeout;
                            else if (error != llvm::inconvertibleErrorCode())
                              kind = rt::Code::Resources;
                          });
    if (kind != rt::Code::Resources)
      kernels.emitError(message);
    return rt::Status(kind, message);
  }
  result.ptx.assign(code->ptx.begin(), code->ptx.end());
  result.deviceCode = std::move(code->cubin);
  for (rt::Kernel &kernel : result.kernels) {
    auto function = kernels.lookupSymbol<LLVM::LLVMFuncOp>(kernel.symbol);
    auto threads = function
                       ? function->getAttrOfType<IntegerAttr>("fusion.threads")
                       : IntegerAttr();
    if (!threads)
      return rt::Status(rt::Code::Internal,
                        "kernel " + kernel.symbol + " says no threads");
    kernel.threads = threads.getInt();
    kernel.waits = code->waits;
    auto used = code->usage.find(kernel.symbol);
    if (used == code->usage.end())
      continue;
    kernel.registers = used->second.registers;
    kernel.spillBytes = used->second.spillBytes;
    kernel.sharedBytes = used->second.sharedBytes;
  }
  result.provenance.push_back(
      {"ptxas", options.ptxas.empty()
                    ? "none: PTX only"
                    : options.ptxasVersion + ", " + options.ptxas});
  if (code->usesLibdevice)
    result.provenance.push_back({"libdevice", options.libdevice});
  return {};
}

rt::Expected<rt::Module>
fusion::buildExecutableModule(ModuleOp module,
                              const ModuleBuildOptions &options) {
  const rt::Status badProgram(rt::Code::BadProgram,
                              "the module cannot be written");
  auto programs = module.getOps<ProgramOp>();
  if (!llvm::hasSingleElement(programs)) {
    module.emitError("needs exactly one program: run the schedule phase first");
    return badProgram;
  }
  ProgramOp program = *programs.begin();
  auto kernels = module.lookupSymbol<ModuleOp>("kernels");

  rt::Module result;
  result.target = options.target;
  result.provenance = options.provenance;
  result.buildId = rt::buildId();
  llvm::StringMap<uint32_t> index;
  numberKernels(kernels, program, result, index);
  FailureOr<rt::Program> plain = buildRuntimeProgram(program, index);
  if (failed(plain))
    return badProgram;
  result.program = std::move(*plain);

  if (!result.kernels.empty() && !kernels) {
    program.emitError("names kernels, but there is no @kernels module");
    return badProgram;
  }
  if (StringRef(options.target).starts_with("cuda:")) {
    if (!result.kernels.empty())
      if (rt::Status status = addDeviceCode(kernels, options.gpu, result);
          !status.ok())
        return status;
  } else if (!result.kernels.empty()) {
    result.cpu = options.cpu;
    result.cpuFeatures = options.cpuFeatures;
    UserObjects user;
    if (rt::Status status = compileSources(kernels, options, result, user);
        !status.ok())
      return status;
    if (failed(readImports(kernels, result)))
      return badProgram;
    llvm::Expected<std::vector<uint8_t>> native = compileNativeCode(
        kernels, options.cpu, options.cpuFeatures, user.objects);
    if (!native)
      return nativeCodeFailed(kernels, native.takeError());
    result.nativeCode = std::move(*native);
  }

  SymbolTable symbols(module);
  ParameterReader reader(options.parameterFolder);
  for (auto [i, segment] : llvm::enumerate(result.program.segments))
    if (segment.kind == rt::SegmentKind::Const) {
      result.constants.resize(segment.size);
      for (auto content : program.getBody().front().getOps<ContentOp>())
        if (failed(placeContent(content, symbols, reader, i, result)))
          return badProgram;
    }
  return std::move(result);
}

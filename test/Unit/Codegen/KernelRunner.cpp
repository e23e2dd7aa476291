//===- KernelRunner.cpp - Compiles and runs groups in a test --------------===//
//
// See KernelRunner.h. Library groups are not run: the library is the runtime's.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include "fusion/Analysis/BatchExtents.h"
#include "fusion/Codegen/NativeCode.h"
#include "fusion/Codegen/Passes.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <dlfcn.h>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace fusion;
using namespace fusion::test;

using KernelFunction = void (*)(void *const *, int64_t, int64_t, int64_t);

static size_t elementBytes(Type type) {
  unsigned bits = cast<RankedTensorType>(type).getElementTypeBitWidth();
  return bits < 8 ? 1 : bits / 8;
}

KernelRunner::KernelRunner(const std::string &text, const std::string &cpu)
    : context([] {
        DialectRegistry registry;
        registry.insert<FusionDialect, func::FuncDialect, LLVM::LLVMDialect>();
        return MLIRContext(registry);
      }()) {
  ScopedDiagnosticHandler diagnostics(&context, [&](Diagnostic &diagnostic) {
    message += diagnostic.str() + "\n";
    return success();
  });
  module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return;
  PassManager manager(&context);
  buildCodegenPipeline(manager, CodegenOptions{cpu});
  if (failed(manager.run(*module)))
    return;
  auto kernels = module->lookupSymbol<ModuleOp>("kernels");
  if (!kernels)
    return;
  kernelCount = llvm::range_size(kernels.getOps<LLVM::LLVMFuncOp>());
  llvm::Expected<CpuTarget> target = resolveCpu(cpu);
  if (!target) {
    message += llvm::toString(target.takeError());
    return;
  }
  auto code = compileNativeCode(kernels, target->name, target->features);
  if (!code) {
    message += llvm::toString(code.takeError());
    return;
  }
  native = *code;
  // The file stays open as long as the handle: its name is what dlopen caches.
  int descriptor = memfd_create("kernels", 0);
  if (write(descriptor, native.data(), native.size()) !=
      static_cast<ssize_t>(native.size())) {
    message += "can't write the code";
    return;
  }
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    message += dlerror();
    return;
  }
  if (auto imports = kernels->getAttrOfType<ArrayAttr>("fusion.imports")) {
    void **table = static_cast<void **>(dlsym(handle, "fusion_imports"));
    for (auto [i, entry] : llvm::enumerate(imports)) {
      StringRef name = cast<StringAttr>(cast<ArrayAttr>(entry)[0]).getValue();
      table[i] = dlsym(RTLD_DEFAULT, name.str().c_str());
      if (!table[i])
        message += "no function " + name.str();
    }
  }
}

KernelRunner::~KernelRunner() {
  if (handle)
    dlclose(handle);
}

int64_t KernelRunner::countUnits(const std::string &name, int64_t batch) {
  auto kernels = module->lookupSymbol<ModuleOp>("kernels");
  auto function = kernels.lookupSymbol<LLVM::LLVMFuncOp>(name);
  auto extent = function->getAttrOfType<ExtentAttr>("fusion.units");
  return extent.getScale() * batch + extent.getBase();
}

void KernelRunner::callRange(const std::string &name, void *const *buffers,
                             int64_t batch, int64_t begin, int64_t end) {
  auto kernel = reinterpret_cast<KernelFunction>(dlsym(handle, name.c_str()));
  kernel(buffers, batch, begin, end);
}

int64_t KernelRunner::call(const std::string &name, void *const *buffers,
                           int64_t batch) {
  int64_t units = countUnits(name, batch);
  // Uneven ranges, last one first.
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (int64_t begin = 0, step = 1; begin < units; step = step * 3 + 2) {
    int64_t end = std::min(units, begin + step);
    ranges.push_back({begin, end});
    begin = end;
  }
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range)
    callRange(name, buffers, batch, range->first, range->second);
  return units;
}

std::vector<Bytes> KernelRunner::run(const std::vector<Bytes> &inputs,
                                     int64_t batch, bool inPlace) {
  auto main = module->lookupSymbol<func::FuncOp>("main");
  FailureOr<BatchExtents> extents = BatchExtents::analyze(main);
  llvm::DenseMap<Value, std::shared_ptr<Bytes>> values;
  for (auto [argument, bytes] : llvm::zip(main.getArguments(), inputs))
    values[argument] = std::make_shared<Bytes>(bytes);
  for (GroupOp group : main.getOps<GroupOp>()) {
    std::vector<std::shared_ptr<Bytes>> buffers;
    for (Value input : group.getInputs())
      buffers.push_back(values.at(input));
    std::map<int64_t, int64_t> takes;
    if (auto pairs = group->getAttrOfType<DenseI64ArrayAttr>("fusion.in_place");
        pairs && inPlace)
      for (size_t i = 0; i < pairs.asArrayRef().size(); i += 2)
        takes[pairs.asArrayRef()[i]] = pairs.asArrayRef()[i + 1];
    for (auto [i, output] : llvm::enumerate(group.getOutputs())) {
      size_t size = extents->getNumElements(output)->at(batch) *
                    elementBytes(output.getType());
      auto taken = takes.find(i);
      if (taken != takes.end() && group.getInputs()[taken->second].hasOneUse())
        buffers.push_back(buffers[taken->second]);
      else // a value that no test expects
        buffers.push_back(std::make_shared<Bytes>(size, 0xcd));
      values[output] = buffers.back();
    }
    std::vector<void *> pointers;
    if (auto order =
            group->getAttrOfType<DenseI64ArrayAttr>("fusion.kernel_operands"))
      for (int64_t operand : order.asArrayRef())
        pointers.push_back(buffers[operand]->data());
    else
      for (auto &buffer : buffers)
        pointers.push_back(buffer->data());
    call(group.getKernelAttr().getLeafReference().str(), pointers.data(),
         batch);
  }
  std::vector<Bytes> results;
  for (Value value : main.front().getTerminator()->getOperands())
    results.push_back(*values.at(value));
  return results;
}

//===- Plugins.cpp - Passes that come from shared libraries ---------------===//
//
// See Plugins.h. The order matters: the file's bounds, then its stamp, then the
// loader with all symbols bound at once, then the entry point, and last its
// registration, in which LLVM knows no errors but fatal ones: those and crashes
// are caught there.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Plugins.h"

#include "PluginFile.h"
#include "fusion/Pipelines/PluginStamp.h"
#include "fusion/Pipelines/ToolProcess.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <mutex>

using namespace llvm;
using namespace fusion;

namespace {

struct Plugin {
  std::string path;   ///< as it was given
  std::string loaded; ///< as the loader knows it
};

struct Registry {
  std::mutex mutex;
  std::vector<Plugin> plugins;
  /// Why the registration under way ended.
  std::string fatal;
};

} // namespace

static Registry &getRegistry() {
  static Registry registry;
  return registry;
}

//===----------------------------------------------------------------------===//
// Who a pass belongs to
//===----------------------------------------------------------------------===//

/// The path that the loader has for the code at `address`.
static StringRef getLibraryOf(const void *address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

static std::string getPluginOfLibrary(StringRef library) {
  Registry &registry = getRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (const Plugin &plugin : registry.plugins)
    if (plugin.loaded == library)
      return plugin.path;
  return "";
}

std::string fusion::getPluginOf(const mlir::Pass &pass) {
  // A pass's table of virtual functions is in the library that defines it.
  const void *table;
  std::memcpy(&table, static_cast<const void *>(&pass), sizeof(table));
  return getPluginOfLibrary(getLibraryOf(table));
}

std::vector<std::string> fusion::getLoadedPlugins() {
  Registry &registry = getRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> paths;
  for (const Plugin &plugin : registry.plugins)
    paths.push_back(plugin.path);
  return paths;
}

std::string fusion::describeLoadedPlugins() {
  std::string text;
  for (const std::string &path : getLoadedPlugins())
    text += (text.empty() ? "'" : " and '") + path + "'";
  return text;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// Ends the registration under way; the error becomes that of the load.
static void endRegistration(const char *reason) {
  getRegistry().fatal = reason;
  if (CrashRecoveryContext *context = CrashRecoveryContext::GetCurrent())
    context->HandleExit(1);
}

/// The stamp without LLVM's last number.
static StringRef getInterface(StringRef stamp) {
  return stamp.rsplit('.').first;
}

static std::optional<PluginFault> checkFile(StringRef path) {
  std::string stamp;
  if (std::optional<PluginFault> fault = readPluginStamp(path, stamp))
    return fault;
  if (stamp.empty())
    return PluginFault{"it doesn't say what it was built against",
                       "this is " FUSION_PLUGIN_STAMP ": build it with "
                       "find_package(Fusion) and fusion_add_plugin"};
  if (getInterface(stamp) != getInterface(FUSION_PLUGIN_STAMP))
    return PluginFault{"it was built against " + stamp,
                       "this is " FUSION_PLUGIN_STAMP ": build it again"};
  return std::nullopt;
}

/// What is wrong, from the loader's words, which start with the path.
static PluginFault describeLoadError(StringRef path) {
  const char *words = dlerror();
  StringRef text = words ? words : "the loader gives no reason";
  text.consume_front(path);
  text.consume_front(": ");
  if (text.consume_front("undefined symbol: "))
    return {"it needs '" + demangle(text.split(' ').first.str()) +
                "', which this tool lacks",
            "define it, or use what the headers of this package declare"};
  return {text.str(), "build it with fusion_add_plugin"};
}

/// The plugin, or the compiler, that has registered a pass under `name`.
static std::string describeOwner(StringRef name) {
  const mlir::PassInfo *info = mlir::PassInfo::lookup(name);
  mlir::OpPassManager manager; // on any op, so that the pass is not nested
  auto ignore = [](const Twine &) { return mlir::failure(); };
  if (!info || failed(info->addToPipeline(manager, "", ignore)) ||
      manager.size() != 1)
    return "another plugin";
  std::string plugin = getPluginOf(*manager.begin());
  return plugin.empty() ? "the compiler" : "the plugin '" + plugin + "'";
}

static PluginFault describeFatal(StringRef reason) {
  static constexpr StringLiteral kTaken =
      "pass allocator creates a different pass than previously registered "
      "for pass ";
  if (reason.consume_front(kTaken))
    return {("it registers a pass '" + reason + "', but " +
             describeOwner(reason) + " has another of that name")
                .str(),
            "rename one of the two, or load only one"};
  return {("it failed while it registered itself" +
           (reason.empty() ? "" : ": " + reason))
              .str(),
          "see its entry point"};
}

/// Loads the file and finds `entry` in it. `call` calls that: it gives the
/// version of the interface and, if told to, registers what the plugin has.
static std::optional<PluginFault>
load(StringRef path, StringRef entry, uint32_t version,
     function_ref<uint32_t(void *entry, bool registers)> call) {
  SmallString<256> absolute(path);
  if (std::error_code error = sys::fs::make_absolute(absolute))
    return PluginFault{"the working folder is unknown: " + error.message(),
                       "give an absolute path"};
  if (std::optional<PluginFault> fault = checkFile(absolute))
    return fault;
  setActivity(("the plugin '" + path + "' was being loaded").str());
  void *handle = dlopen(absolute.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    return describeLoadError(absolute);
  void *function = dlsym(handle, entry.str().c_str());
  link_map *map = nullptr;
  dlinfo(handle, RTLD_DI_LINKMAP, &map);
  // What the plugin links may have the symbol; the plugin must.
  if (!function || getLibraryOf(function) != map->l_name)
    return PluginFault{("it has no entry point " + entry).str(),
                       "write one as in examples/plugin"};

  Registry &registry = getRegistry();
  registry.fatal.clear();
  uint32_t found = 0;
  CrashRecoveryContext::Enable();
  CrashRecoveryContext recovery;
  setFatalErrorHook(endRegistration);
  bool isDone = recovery.RunSafely([&] {
    found = call(function, /*registers=*/false);
    if (found == version)
      call(function, /*registers=*/true);
  });
  setFatalErrorHook(nullptr);
  if (!isDone)
    return describeFatal(registry.fatal);
  if (found != version)
    return PluginFault{("its entry point is of version " + Twine(found)).str(),
                       ("this tool knows version " + Twine(version) +
                        ": return MLIR_PLUGIN_API_VERSION")
                           .str()};
  std::lock_guard<std::mutex> lock(registry.mutex);
  if (none_of(registry.plugins,
              [&](const Plugin &it) { return it.loaded == map->l_name; }))
    registry.plugins.push_back({path.str(), map->l_name});
  return std::nullopt;
}

/// The outcome of a load as an error.
static Error finish(const std::optional<PluginFault> &fault, StringRef path,
                    StringRef option) {
  setActivity("");
  if (!fault) {
    setCrashNote("with " + describeLoadedPlugins() + " loaded");
    return Error::success();
  }
  return createStringError("cannot load the plugin '" + path + "': " +
                           fault->why + ", " + option + ", " + fault->advice);
}

Error fusion::loadPassPlugin(StringRef path, StringRef option) {
  auto call = [](void *entry, bool registers) {
    auto get = reinterpret_cast<mlir::PassPluginLibraryInfo (*)()>(entry);
    mlir::PassPluginLibraryInfo info = get();
    if (registers)
      info.registerPassRegistryCallbacks();
    return info.apiVersion;
  };
  return finish(
      load(path, "mlirGetPassPluginInfo", MLIR_PLUGIN_API_VERSION, call), path,
      option);
}

Error fusion::loadDialectPlugin(StringRef path, StringRef option,
                                mlir::DialectRegistry &registry) {
  auto call = [&](void *entry, bool registers) {
    auto get = reinterpret_cast<mlir::DialectPluginLibraryInfo (*)()>(entry);
    mlir::DialectPluginLibraryInfo info = get();
    if (registers)
      info.registerDialectRegistryCallbacks(&registry);
    return info.apiVersion;
  };
  return finish(
      load(path, "mlirGetDialectPluginInfo", MLIR_PLUGIN_API_VERSION, call),
      path, option);
}

//===- Hooks.cpp - Entries a preloaded library can see --------------------===//
#include "Hooks.h"

#include <dlfcn.h>
#include <type_traits>

using namespace fusion::rt;

Hooks fusion::rt::findHooks() {
  auto find = [](const char *name, auto &function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(RTLD_DEFAULT, name));
  };
  Hooks hooks;
  find("fusion_rt_on_launch", hooks.onLaunch);
  find("fusion_rt_on_call", hooks.onCall);
  find("fusion_rt_on_copy", hooks.onCopy);
  find("fusion_rt_on_collective", hooks.onCollective);
  return hooks;
}

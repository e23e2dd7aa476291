//===- Imports.h - The functions native code may call -----------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CPU_IMPORTS_H
#define FUSION_RUNTIME_CPU_IMPORTS_H

#include <string_view>

namespace fusion::rt {

/// The address of the function with this name and signature in the runtime's
/// fixed table, or null. Signatures read "f32(f32)", "f64(f64,f64)", ...
void *findImport(std::string_view name, std::string_view signature);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_IMPORTS_H

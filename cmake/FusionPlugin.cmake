# fusion_add_plugin(Name sources...)
#
# A pass plugin for fusion-opt and fusion-compile. It links nothing: the dialect and
# MLIR come from the tool that loads it. PluginStamp.cpp, which is beside this file,
# tells the tool what the plugin was built against. For the build tree and for users
# of the package; FUSION_INCLUDE_DIR holds the headers.
function(fusion_add_plugin name)
  add_library(${name} MODULE ${ARGN} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/PluginStamp.cpp)
  target_compile_features(${name} PRIVATE cxx_std_17)
  # As LLVM is built: no exceptions, no run-time type information.
  target_compile_options(${name} PRIVATE -fno-exceptions -fno-rtti)
  # A symbol that is missing is told when the plugin is loaded, not in mid-pass.
  target_link_options(${name} PRIVATE -Wl,-z,now)
  target_include_directories(${name} PRIVATE ${FUSION_INCLUDE_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# What an installed Fusion holds, in two components:
#
#   runtime   fusion-run, libfusion-rt.so and its header; no LLVM
#   compiler  every tool below tools/, the Python tools, and what a plugin needs:
#             headers and lib/cmake/fusion
#
# scripts/package.sh installs them and adds the shared libraries that a bare
# system lacks; the run path is relative, so an archive works where it is put.

# All executable targets of a folder and the folders below it.
function(fusion_executables folder out)
  set(found)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      list(APPEND found ${target})
    endif()
  endforeach()
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS below)
    fusion_executables(${subfolder} inner)
    list(APPEND found ${inner})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

set_target_properties(fusion-run PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
set_target_properties(fusion-rt fusion-gloo PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS fusion-run fusion-rt fusion-gloo COMPONENT runtime
  RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/ DESTINATION include
  COMPONENT runtime)
install(FILES LICENSE DESTINATION share/doc/fusion COMPONENT runtime)

if(FUSION_BUILD_COMPILER)
  fusion_executables(${PROJECT_SOURCE_DIR}/tools tools)
  set_target_properties(${tools} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${tools} COMPONENT compiler RUNTIME DESTINATION bin)
  install(PROGRAMS ${CMAKE_BINARY_DIR}/package/fusion-bench
    ${CMAKE_BINARY_DIR}/package/fusion-import DESTINATION bin COMPONENT compiler)
  # The hand-written kernels that fusion-bench compares with.
  install(FILES ${PROJECT_SOURCE_DIR}/test/Benchmark/limits.cu
    DESTINATION share/fusion/bench COMPONENT compiler)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/fusion_compiler
    DESTINATION lib/python COMPONENT compiler PATTERN __pycache__ EXCLUDE)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ ${PROJECT_BINARY_DIR}/include/
    DESTINATION include COMPONENT compiler
    FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc"
    PATTERN "CMakeFiles" EXCLUDE)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/devices/ DESTINATION share/fusion/devices
    COMPONENT compiler FILES_MATCHING PATTERN "*.json")
  install(FILES CHANGELOG.md DESTINATION share/doc/fusion COMPONENT compiler)
  # The pages link the examples by their place beside docs/.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
    DESTINATION share/doc/fusion COMPONENT compiler PATTERN __pycache__ EXCLUDE)

  include(CMakePackageConfigHelpers)
  set(INCLUDE_DESTINATION include)
  set(TOOLS_DESTINATION bin)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/PackageConfig.cmake.in
    ${CMAKE_BINARY_DIR}/package/FusionConfig.cmake INSTALL_DESTINATION lib/cmake/fusion
    PATH_VARS INCLUDE_DESTINATION TOOLS_DESTINATION)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/FusionConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/package/FusionConfig.cmake
    ${CMAKE_BINARY_DIR}/package/FusionConfigVersion.cmake
    cmake/FusionPlugin.cmake cmake/PluginStamp.cpp
    DESTINATION lib/cmake/fusion COMPONENT compiler)
endif()

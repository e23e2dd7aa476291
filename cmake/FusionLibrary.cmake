# Helpers that every library and tool of the compiler goes through, so that the
# link rules (libMLIR.so only, one precompiled header a header set) stand once.

# fusion_add_library(Name sources... [PCH ir|passes|codegen] [LINK libs...] [DEPENDS targets...])
#
# A static library of the compiler. PCH names the header set it is compiled
# with; the set's header is compiled once, by the library fusion_pch_<set>.
function(fusion_add_library name)
  cmake_parse_arguments(ARG "" "PCH" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  # fusion-headers: every generated header exists before anything compiles.
  add_dependencies(${name} fusion-headers ${ARG_DEPENDS})
  if(ARG_PCH)
    target_precompile_headers(${name} REUSE_FROM fusion_pch_${ARG_PCH})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
endfunction()

# fusion_add_pch(set header): the object library that owns a header set.
function(fusion_add_pch set header)
  add_library(fusion_pch_${set} OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch/empty.cpp)
  llvm_update_compile_flags(fusion_pch_${set})
  target_precompile_headers(fusion_pch_${set} PRIVATE ${header})
endfunction()

# fusion_add_tool(name sources... [PCH set] [LINK libs...])
function(fusion_add_tool name)
  cmake_parse_arguments(ARG "" "PCH" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  add_dependencies(${name} fusion-headers)
  if(ARG_PCH)
    target_precompile_headers(${name} REUSE_FROM fusion_pch_${ARG_PCH})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
  # Plugins resolve the dialect's symbols from the tool itself.
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
endfunction()

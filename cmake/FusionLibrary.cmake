# Helpers that every library and tool of the compiler goes through, so that the
# link rules (libMLIR.so only, one precompiled header a header set) stand once.

# fusion_seed_bugs(sources...): with FUSION_SEEDED_BUGS, the sources that include
# fusion/Support/SeededBugs.h can make their mistakes. No other source gets the
# definition, so that its object and the precompiled headers are those of dev.
function(fusion_seed_bugs)
  if(NOT FUSION_SEEDED_BUGS)
    return()
  endif()
  # An edit may add the first mistake to a source, or take the last one away.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  foreach(source ${ARGN})
    file(STRINGS ${source} includes REGEX "fusion/Support/SeededBugs.h" LIMIT_COUNT 1)
    if(includes)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS FUSION_SEEDED_BUGS)
    endif()
  endforeach()
endfunction()

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
  fusion_seed_bugs(${ARG_UNPARSED_ARGUMENTS})
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

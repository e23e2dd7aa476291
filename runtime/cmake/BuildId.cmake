# fusion_build_id(variable): a hash over the sources of compiler and runtime.
#
# It is taken when the tree is configured, from file contents in sorted order,
# so the same sources give the same id on every machine. Modules carry it;
# `fusion-run --trust=own` accepts native code only from a build with its own.
function(fusion_build_id variable)
  file(GLOB_RECURSE sources LIST_DIRECTORIES false RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/lib/*.cpp ${PROJECT_SOURCE_DIR}/lib/*.h
    ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/include/*.td
    ${PROJECT_SOURCE_DIR}/runtime/src/*.cpp ${PROJECT_SOURCE_DIR}/runtime/src/*.h
    ${PROJECT_SOURCE_DIR}/runtime/schema/*.fbs)
  list(SORT sources)
  set(hashes "${PROJECT_VERSION}")
  foreach(source ${sources})
    file(SHA256 ${PROJECT_SOURCE_DIR}/${source} hash)
    string(APPEND hashes "\n${source} ${hash}")
  endforeach()
  string(SHA256 hash "${hashes}")
  string(SUBSTRING ${hash} 0 32 hash)
  set(${variable} ${hash} PARENT_SCOPE)
endfunction()

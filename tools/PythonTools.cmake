# Tools that are Python. Each gets a command that runs it: bin/NAME for this tree
# (with .venv's Python) and a relocatable one for the package (with the user's
# python3, the code in ../lib/python).
function(fusion_python_tool name entry)
  set(FUSION_TOOL ${name})
  set(FUSION_ENTRY ${entry})
  set(FUSION_TOOL_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(FUSION_TOOL_CODE "${PROJECT_SOURCE_DIR}/python")
  configure_file(python-tool.in ${CMAKE_BINARY_DIR}/bin/${name} @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                     WORLD_READ WORLD_EXECUTE)
  add_custom_target(${name} ALL DEPENDS ${CMAKE_BINARY_DIR}/bin/${name})
  set(FUSION_TOOL_PYTHON python3)
  set(FUSION_TOOL_CODE "$here/../lib/python")
  configure_file(python-tool.in ${CMAKE_BINARY_DIR}/package/${name} @ONLY)
endfunction()

fusion_python_tool(fusion-bench fusion_bench)
fusion_python_tool(fusion-import fusion_import)

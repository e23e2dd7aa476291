# Writes OUT, the part of a plugin's stamp that belongs to Fusion: VERSION and a
# digest of the public headers below ROOT. Two builds of one version whose headers
# differ take no plugins of each other, since classes may differ in layout.
#
#   cmake -DROOT=include/fusion -DVERSION=0.1.0 -DOUT=PluginAbi.inc -P PluginAbi.cmake

file(GLOB_RECURSE headers RELATIVE ${ROOT} ${ROOT}/*.h ${ROOT}/*.td)
list(SORT headers)
set(text "")
foreach(header IN LISTS headers)
  file(SHA256 ${ROOT}/${header} hash)
  string(APPEND text "${header} ${hash}\n")
endforeach()
string(SHA256 digest "${text}")
string(SUBSTRING ${digest} 0 12 digest)
file(WRITE ${OUT} "#define FUSION_PLUGIN_ABI \"${VERSION} (headers ${digest}\"\n")

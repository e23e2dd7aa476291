#!/usr/bin/env bash
# package.sh - makes the two relocatable archives in dist/ from build/release.
#
#   fusion-VERSION-linux-x86_64.tar.zst          every tool, takes plugins
#   fusion-runtime-VERSION-linux-x86_64.tar.zst  fusion-run and libfusion-rt.so
#
# Shared libraries that don't belong to glibc are put beside them, found through
# a relative run path. The same tree gives the same bytes. Run by ./dev package.
set -euo pipefail
FUSION_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
cd "$FUSION_ROOT"
source scripts/common.sh

BUILD=build/release
STAGE=build/package
FUSION_LIMIT=80000000 # bytes
RUNTIME_LIMIT=15000000
# Installed programs have the package's run path, not that of this machine.
LLVM_LIBRARIES=/usr/lib/llvm-22/lib
VERSION=$(sed -n 's/^project(Fusion VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1)

# The files of a folder that the loader reads: programs and shared libraries.
elfFiles() {
  find "$1" -type f \( -perm -u+x -o -name '*.so*' \) -exec sh -c \
    'head -c 4 "$1" | grep -q ELF && echo "$1"' _ {} \;
}

# Shared libraries of glibc, which every system has of its own.
isGlibc() {
  case $1 in
  libc.so.* | libm.so.* | libmvec.so.* | libdl.so.* | libpthread.so.* | librt.so.* | \
    libresolv.so.* | libutil.so.* | libanl.so.* | ld-linux*) return 0 ;;
  *) return 1 ;;
  esac
}

# The Debian package of a file; with a merged /usr its database may say /lib.
packageOf() {
  { dpkg -S "$1" || dpkg -S "${1#/usr}"; } 2>/dev/null | head -n 1 | cut -d: -f1 ||
    die 5 "no package owns $1, on this machine, its licence can't be bundled"
}

# In a step, as in any condition, bash does not stop at the first failure (set -e
# is off), so that each command says `|| return 1`.
# Copies the libraries that the files of a stage need, and their licences.
bundleLibraries() {
  local stage=$1 file name path package
  mkdir -p "$stage/lib" "$stage/share/doc/fusion/third-party"
  while read -r name path; do
    isGlibc "$name" && continue
    [[ $path == "$(readlink -f "$stage")"/* ]] && continue
    [[ -f $path ]] || die 5 "library $name not found, for $stage, install its package"
    install -m 755 "$(readlink -f "$path")" "$stage/lib/$name" || return 1
    package=$(packageOf "$(readlink -f "$path")") || return 1
    cp -L "/usr/share/doc/$package/copyright" "$stage/share/doc/fusion/third-party/$package" || return 1
  done < <(elfFiles "$stage" | while read -r file; do
    LD_LIBRARY_PATH=$LLVM_LIBRARIES ldd "$file"; done |
    awk '$2 == "=>" {print $1, $3}' | sort -u)
  if [[ -f $(echo "$stage"/lib/libicudata.so.*) ]]; then
    replaceIcuData "$(echo "$stage"/lib/libicudata.so.*)" || return 1
  fi
  for file in "$stage"/lib/*.so*; do
    [[ -L $file ]] || patchelf --set-rpath '$ORIGIN' "$file" || return 1
  done
}

replaceIcuData() {
  local library=$1 name version
  name=$(basename "$library")
  version=${name#libicudata.so.}
  clang-22 -shared -O2 -nostdlib "-DICU_DATA_SYMBOL=icudt${version}_dat" \
    "-Wl,-soname,$name" scripts/icu-stub.c -o "$library"
}

# archive NAME LIMIT COMPONENT...: stages, bundles and packs one archive.
archive() {
  local name=$1 limit=$2 component stage size
  shift 2
  stage="$STAGE/$name-$VERSION-linux-x86_64"
  rm -rf "$stage"
  for component in "$@"; do
    cmake --install "$BUILD" --prefix "$stage" --component "$component" --strip || return 1
  done
  bundleLibraries "$stage" || return 1
  mkdir -p dist
  local target="dist/$name-$VERSION-linux-x86_64.tar.zst"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$STAGE" -cf - "$(basename "$stage")" |
    zstd -q -f -19 -T0 --long=27 -o "$target.partial" || return 1
  zstd -q -t --long=27 "$target.partial" || return 1
  size=$(stat -c %s "$target.partial")
  ((size <= limit)) || {
    echo "error: $size bytes, in $target.partial, the limit is $limit bytes" >&2
    return 1
  }
  mv "$target.partial" "$target"
}

step "pack fusion-runtime" archive fusion-runtime "$RUNTIME_LIMIT" runtime || exit 1
step "pack fusion" archive fusion "$FUSION_LIMIT" runtime compiler || exit 1
for file in dist/*-"$VERSION"-linux-x86_64.tar.zst; do
  say "$file: $(stat -c %s "$file" | sed 's/\(.*\)\(.\)\(.\{5\}\)$/\1.\2 MB/')"
done

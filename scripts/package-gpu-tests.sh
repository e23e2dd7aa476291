#!/usr/bin/env bash
# package-gpu-tests.sh [PRESET] - makes dist/fusion-gpu-tests-*.tar.xz.
#
# What a machine with a GPU and without a compiler needs besides a package of the
# same build: the runtime's test programs, the scripts of test/Integration/cuda, and
# for each the modules and the results to expect, made here. `test-on-gpu` in it runs
# all of them. Expects what ./dev package-gpu-tests builds.
set -euo pipefail
FUSION_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
cd "$FUSION_ROOT"
source scripts/common.sh

PRESET=${1:-release}
BUILD=build/$PRESET
LIMIT=60000000 # bytes
VERSION=$(sed -n 's/^project(Fusion VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
NAME=fusion-gpu-tests-$VERSION-linux-x86_64
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
stage=$scratch/$NAME

copyPrograms() {
  install -D -t "$stage/bin" "$BUILD"/bin/fusionrt-{cuda-test,cuda-library-test,peer-check} &&
    install -D -t "$stage/lib" "$BUILD"/runtime/tests/*.so &&
    install -D -t "$stage/lib/fake-cuda" "$BUILD/runtime/tests/fake-cuda/libcuda.so.1" &&
    strip --strip-unneeded "$stage"/bin/* "$stage"/lib/fake-cuda/* &&
    patchelf --remove-rpath "$stage"/bin/*
}

copyScripts() {
  install -D -t "$stage" scripts/test-on-gpu LICENSE &&
    mkdir -p "$stage/test/Integration/cpu" "$stage/python/fusion_compiler" &&
    cp -r test/Integration/cuda "$stage/test/Integration/cuda" &&
    cp test/Integration/cpu/_support.py "$stage/test/Integration/cpu" &&
    install -D -m 644 -t "$stage/test/Fuzz/fuzzer" test/Fuzz/fuzzer/data.py &&
    cp python/fusion_compiler/{__init__,runtime}.py "$stage/python/fusion_compiler" &&
    find "$stage" -name __pycache__ -prune -exec rm -r {} +
}

prepareModules() {
  local script
  # Those that can do without the compiler on the GPU's machine.
  for script in $(grep -l '^def prepare(' test/Integration/cuda/[!_]*.py); do
    FUSION_BIN="$FUSION_ROOT/$BUILD/bin" "$VENV/bin/python" "$script" \
      --prepare "$stage/modules/$(basename "$script" .py)" || return 1
  done
}

pack() {
  local target=dist/$NAME.tar.xz size
  mkdir -p dist
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@1 -C "$scratch" -cf - "$NAME" |
    xz -T0 -6 >"$target.partial" || return 1
  size=$(stat -c %s "$target.partial")
  ((size <= LIMIT)) || {
    echo "error: $size bytes, in $target.partial, the limit is $LIMIT bytes" >&2
    return 1
  }
  mv "$target.partial" "$target"
}

source scripts/setup.sh
step "copy the test programs" copyPrograms || exit 1
step "copy the scripts" copyScripts || exit 1
step "make modules and what to expect" prepareModules || exit 1
step "pack $NAME" pack || exit 1
say "dist/$NAME.tar.xz: $(du -h "dist/$NAME.tar.xz" | cut -f1)"
say "unpack it on the GPU's machine beside fusion-runtime-$VERSION-linux-x86_64 and run"
say "  $NAME/test-on-gpu"

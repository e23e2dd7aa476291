#!/usr/bin/env bash
# bench-bundle.sh [PRESET [WORDS...]] - what a GPU's machine needs for fusion-bench.
#
# Makes build/bench/ with runtime.tar.xz (fusion-run, libfusion-rt.so and the libraries
# beside glibc and gcc's that it needs) and seed2.tar.xz (the suite's modules and the
# cubin of limits.cu), from a build that is there (default preset: dev). WORDS go to
# fusion-bench, such as --filter RE or --fp fast. Prints the commands for that machine.
set -euo pipefail
FUSION_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
cd "$FUSION_ROOT"
source scripts/common.sh

preset=${1:-dev}
[[ $# -gt 0 ]] && shift
build=build/$preset
[[ -x $build/bin/fusion-compile && -x $build/bin/fusion-run ]] ||
  die 5 "no fusion-compile and fusion-run, in $build/bin, run ./dev build $preset"
out=build/bench stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$out"
cmake --install "$build" --component runtime --prefix "$stage" >/dev/null
ldd "$stage/lib/libfusion-rt.so" | awk '$2 == "=>" {print $1, $3}' |
  while read -r name path; do
    case $name in
    libc.so.* | libm.so.* | libstdc++.so.* | libgcc_s.so.*) ;; # it has newer ones
    *)
      install -m 755 "$(readlink -f "$path")" "$stage/lib/$name"
      patchelf --set-rpath '$ORIGIN' "$stage/lib/$name"
      ;;
    esac
  done
strip --strip-unneeded "$stage"/bin/* "$stage"/lib/*.so*
tar -C "$stage" -cJf "$out/runtime.tar.xz" bin lib
rm -f "$out/seed2.tar.xz"
python=.venv/bin/python
PYTHONPATH=python "$python" -m fusion_compiler bench seed2 --compile-only --bin-dir "$build/bin" \
  --modules "$out/seed2.tar.xz" "$@"
ls -l "$out"
cat <<TEXT
On the GPU's machine, in the tree's root, with $out beside it:
  mkdir -p /tmp/rt && tar -C /tmp/rt -xJf $out/runtime.tar.xz
  export PYTHONPATH=python PYTHONUNBUFFERED=1
  python3 -m fusion_compiler bench seed2 --runtime /tmp/rt/lib/libfusion-rt.so \\
    --modules $out/seed2.tar.xz --json out.json --markdown out.md
TEXT

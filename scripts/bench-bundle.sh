#!/usr/bin/env bash
# bench-bundle.sh [PRESET [SUITE...] [WORDS...]] - what a GPU's machine needs for fusion-bench.
#
# Makes build/bench/ with runtime.tar.xz (fusion-run, libfusion-rt.so and the libraries
# beside glibc and gcc's that it needs) and SUITE.tar.xz (the suite's modules; of seed2,
# the default, the cubin of limits.cu too), from a build that is there (default preset:
# dev). SUITE: seed2, overlap, train, calibrate (what GPUs send each other). WORDS go to
# fusion-bench, such as --filter RE or --ranks 2. Prints the commands for that machine.
set -euo pipefail
FUSION_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
cd "$FUSION_ROOT"
source scripts/common.sh

preset=${1:-dev}
[[ $# -gt 0 ]] && shift
suites=()
while [[ ${1:-} =~ ^(seed2|overlap|train|calibrate)$ ]]; do
  suites+=("$1")
  shift
done
[[ ${#suites[@]} -gt 0 ]] || suites=(seed2)
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
python=.venv/bin/python
for suite in "${suites[@]}"; do
  rm -f "$out/$suite.tar.xz"
  PYTHONPATH=python "$python" -m fusion_compiler bench "$suite" --compile-only --bin-dir "$build/bin" \
    --modules "$out/$suite.tar.xz" "$@"
done
ls -l "$out"
cat <<TEXT
On the GPU's machine, in the tree's root, with $out beside it:
  mkdir -p /tmp/rt && tar -C /tmp/rt -xJf $out/runtime.tar.xz
  export PYTHONPATH=python PYTHONUNBUFFERED=1
  python3 -m fusion_compiler bench seed2 --runtime /tmp/rt/lib/libfusion-rt.so \\
    --modules $out/seed2.tar.xz --json out.json --markdown out.md
  python3 -m fusion_compiler bench train --ranks 2 --runner /tmp/rt/bin/fusion-run \\
    --modules $out/train.tar.xz --json out.json --markdown out.md
TEXT

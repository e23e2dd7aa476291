#!/usr/bin/env bash
# check-package.sh - tries the archives of dist/ where nothing else is installed.
#
# Unpacks both into a bare Debian 12 root (debootstrap --variant=minbase, made
# once in .cache), in a folder with a space in its name. There: every program and
# library finds all of its libraries, every tool prints its help, and a module
# compiled with the one archive runs with the other. Outside: the example plugin
# is built against the archive and loaded, and the tutorial's links lead somewhere.
# Needs root (or sudo) for the chroot.
set -euo pipefail
FUSION_ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
cd "$FUSION_ROOT"
source scripts/common.sh
source scripts/setup.sh

VERSION=$(sed -n 's/^project(Fusion VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
BASE="$FUSION_ROOT/.cache/debian12-root"
PLACE="/opt/a folder"
passed=0 failed=0

check() {
  local name=$1 log
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    say "  $name: ok"
  else
    failed=$((failed + 1))
    say "  $name: FAILED"
    tail -n 20 "$log" >&2
  fi
  rm -f "$log"
}

# Runs a shell command in the root with /proc, in a mount namespace of its own,
# so that nothing stays mounted.
inRoot() {
  asRoot unshare --mount --pid --fork sh -c '
    mount -t proc proc "$1/proc"
    exec chroot "$1" env -i PATH=/usr/bin:/bin HOME=/root LC_ALL=C sh -ec "$2"' _ "$ROOT" "$1"
}

makeBase() {
  [[ -f $BASE/.complete ]] && return
  asRoot rm -rf "$BASE"
  step "debootstrap a bare Debian 12" asRoot debootstrap --variant=minbase bookworm "$BASE" ||
    die 5 "debootstrap failed, in $BASE, check the network"
  asRoot touch "$BASE/.complete"
}

# Every ELF file below a folder, in the root, must find all its libraries, and
# only glibc's outside of the folder.
allLibrariesFound() {
  inRoot "
    cd \"\$(echo '$PLACE/$1'-$VERSION-*)\"
    here=\$(pwd) bad=0
    for file in bin/* lib/*.so*; do
      head -c 4 \"\$file\" | grep -q ELF || continue
      ldd \"\$file\" >/tmp/ldd 2>&1
      if grep 'not found' /tmp/ldd; then echo \"in \$file\"; bad=1; fi
      # libNAME => PATH: a path outside the package must be one of glibc's.
      if sed -n 's/.* => \(.*\) (0x.*/\1/p' /tmp/ldd | grep -v '/a folder/' |
        grep -vE '/(libc|libm|libmvec|libdl|libpthread|librt|libresolv|libutil)\.so'; then
        echo \"in \$file: not glibc and not in the package\"; bad=1
      fi
    done
    exit \$bad"
}

toolHelps() { inRoot "cd '$PLACE' && ./$1-$VERSION-*/bin/$2 --help | grep -q ."; }

# Three ops, compiled with `fusion`, run with `fusion-runtime`, and the values:
# relu(1 + 1) = 2 for each of 4 elements is what --check compares.
compilesAndRuns() {
  inRoot "
    cd /tmp
    cat >m.mlir <<'MLIR'
func.func @main(%x: tensor<4xf32> {fusion.name = \"x\"}) -> (tensor<4xf32> {fusion.name = \"y\"}) {
  %0 = fusion.add %x, %x : tensor<4xf32>
  %1 = fusion.relu %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
MLIR
    '$PLACE'/fusion-$VERSION-*/bin/fusion-compile m.mlir --target=cpu -o m.fsn
    npy() { printf '\223NUMPY\001\000v\000{%-115s}\n' \"'descr': '<f4', 'fortran_order': False, 'shape': (4,), \"; }
    { npy; printf '\000\000\200\077%.0s' 1 2 3 4; } >x.npy
    mkdir -p want
    { npy; printf '\000\000\000\100%.0s' 1 2 3 4; } >want/y.npy
    '$PLACE'/fusion-runtime-$VERSION-*/bin/fusion-run m.fsn --input x=x.npy --check want"
}

# Without a GPU, a driver or a toolkit: PTX is made and listed, what is missing is named.
compilesForGpus() {
  inRoot "
    cd /tmp
    for op in relu exp; do
      printf 'func.func @main(%%x: tensor<64xf32>) -> tensor<64xf32> {\n%%0 = fusion.%s %%x : tensor<64xf32>\nreturn %%0 : tensor<64xf32>\n}\n' \$op >\$op.mlir
    done
    fails() {
      status=0; \"\$@\" 2>errors >/dev/null || status=\$?
      cat errors
      [ \$status -eq 5 ]
    }
    compile=\$(echo '$PLACE'/fusion-$VERSION-*/bin/fusion-compile)
    run=\$(echo '$PLACE'/fusion-runtime-$VERSION-*/bin/fusion-run)
    \"\$compile\" relu.mlir --target=cuda:sm_90 -o relu.fsn
    \"\$run\" relu.fsn --inspect | grep 'section PTX'
    fails \"\$run\" relu.fsn --random-inputs 1
    grep 'CUDA driver library not found' errors
    fails \"\$compile\" exp.mlir --target=cuda:sm_90 -o exp.fsn
    grep 'no libdevice.10.bc; install' errors"
}

# The same tool where there is a toolkit, outside of the root.
compilesToMachineCode() {
  local package=$1 folder
  folder=$(mktemp -d)
  "$package/bin/fusion-compile" examples/graphs/bias-softmax.mlir --target=cuda:sm_90 \
    -o "$folder/m.fsn" &&
    "$package/bin/fusion-run" "$folder/m.fsn" --inspect | grep 'section device code'
  local status=$?
  rm -rf "$folder"
  return $status
}

# The example plugin, built against the unpacked archive, in the packaged tool.
pluginLoads() {
  local package=$1 build
  build=$(mktemp -d)
  cmake -S examples/plugin -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++-22 \
    -DCMAKE_C_COMPILER=clang-22 "-DFusion_DIR=$package/lib/cmake/fusion" &&
    cmake --build "$build" &&
    "$package/bin/fusion-opt" "--load-pass-plugin=$build/SelectFirst.so" \
      '--pass-pipeline=builtin.module(func.func(example-select-first))' examples/plugin/model.mlir |
    grep -c 'fusion.sqrt' | grep -qx 1
  local status=$?
  rm -rf "$build"
  return $status
}

# The pages, the examples that they link, and nothing of the build.
hasDocuments() {
  local package=$1 link
  for link in $(sed -n 's/.*](\([A-Za-z0-9_./-]*\)\(#[a-z-]*\)*).*/\1/p' "$package/share/doc/fusion/docs/tutorial-first-pass.md"); do
    [[ -e $package/share/doc/fusion/docs/$link ]] || { echo "no $link"; return 1; }
  done
  [[ -f $package/share/doc/fusion/docs/plans.md ]] && [[ -z $(find "$package" -name CMakeFiles) ]]
}

makeBase
ROOT=$(mktemp -d "${TMPDIR:-/tmp}/fusion-root.XXXXXX")
trap 'asRoot rm -rf "$ROOT"' EXIT
asRoot cp -a "$BASE/." "$ROOT"
asRoot mkdir -p "$ROOT$PLACE"
for name in fusion fusion-runtime; do
  file=$(echo "dist/$name-$VERSION"-*.tar.zst)
  [[ -f $file ]] || die 5 "no archive $name, in dist/, run ./dev package"
  # Long windows are within zstd's default limit; the root itself has no zstd.
  zstd -q -d -c "$file" | asRoot tar -x -C "$ROOT$PLACE"
done

say "in a bare Debian 12:"
for name in fusion fusion-runtime; do
  check "$name finds its libraries" allLibrariesFound "$name"
done
check "fusion-runtime: fusion-run --help" toolHelps fusion-runtime fusion-run
for tool in "$ROOT$PLACE/fusion-$VERSION"-*/bin/*; do
  tool=$(basename "$tool")
  # Python tools: a bare root lacks Python; setup's tries them here.
  if [[ $tool == fusion-import || $tool == fusion-bench ]]; then
    check "fusion: $tool --help (outside)" env "PATH=$VENV/bin:$PATH" \
      "$(echo "$ROOT$PLACE/fusion-$VERSION"-*)/bin/$tool" --help
  else
    check "fusion: $tool --help" toolHelps fusion "$tool"
  fi
done
check "compile with fusion, run with fusion-runtime" compilesAndRuns
check "compile for a GPU with fusion, list with fusion-runtime" compilesForGpus
if command -v ptxas >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/ptxas ]]; then
  check "fusion: machine code for a GPU (outside)" compilesToMachineCode \
    "$(echo "$ROOT$PLACE/fusion-$VERSION"-*)"
else
  say "  fusion: machine code for a GPU (outside): skipped, no ptxas"
fi
check "plugin built against fusion loads" pluginLoads "$(echo "$ROOT$PLACE/fusion-$VERSION"-*)"
check "fusion has the documentation" hasDocuments "$(echo "$ROOT$PLACE/fusion-$VERSION"-*)"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]

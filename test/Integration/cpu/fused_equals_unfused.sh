#!/usr/bin/env bash
# Grouping changes no bit: random graphs, compiled with and without fusion and
# evaluated before and behind the fuse phase (Inputs/random_graphs.py says how).
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
bin=${FUSION_BIN:-$here/../../../build/dev/bin}
python=${FUSION_PYTHON:-python3}
"$python" "$here/Inputs/random_graphs.py" --bin "$bin" --mode interpret --graphs 2000
"$python" "$here/Inputs/random_graphs.py" --bin "$bin" --mode compile --graphs 2000

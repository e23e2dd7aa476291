#!/usr/bin/env bash
# 500 random graphs: each pass alone, passes in random orders, and compiled, fused
# and unfused, against the reference evaluator. Fails as well if an op of the dialect
# never appears. One seed, so that a change is blamed for what it broke; `./dev fuzz`
# draws new ones.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
exec "${FUSION_PYTHON:-python3}" "$here/fuzzer" ${FUSION_BIN:+--bin "$FUSION_BIN"} \
  --graphs 500 --seed "${FUSION_FUZZ_SEED:-4711}" --coverage "$@"

#!/usr/bin/env bash
# 500 random graphs: each pass alone, passes in random orders, and compiled, fused
# and unfused, against the reference evaluator. Each run draws new graphs and prints
# its seed; FUSION_FUZZ_SEED=N draws those of a seed again.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
exec "${FUSION_PYTHON:-python3}" "$here/fuzzer" ${FUSION_BIN:+--bin "$FUSION_BIN"} \
  --graphs 500 ${FUSION_FUZZ_SEED:+--seed "$FUSION_FUZZ_SEED"} --coverage "$@"

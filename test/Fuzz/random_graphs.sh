#!/usr/bin/env bash
# 500 random graphs with a new seed, which the first line says: each pass alone,
# passes in random orders, and compiled, fused and unfused, against the reference
# evaluator. Fails as well if an op of the dialect never appears.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
exec "${FUSION_PYTHON:-python3}" "$here/fuzzer" ${FUSION_BIN:+--bin "$FUSION_BIN"} \
  --graphs 500 --coverage "$@"

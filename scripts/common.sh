# common.sh - messages, timed steps and machine facts; sourced by dev.
#
# Expects FUSION_ROOT to be set. A step's output goes to a log file and is
# shown only when the step fails; on a terminal it is shown as it comes.

LOG_DIR="$FUSION_ROOT/.cache/logs"

say() { printf '[dev] %s\n' "$*"; }

# die CODE MESSAGE: the contract's error line, "what, where, what to do".
die() {
  local code=$1
  shift
  printf 'error: %s\n' "$*" >&2
  exit "$code"
}

# Seconds since an earlier value of EPOCHREALTIME, with one digit.
secondsSince() {
  local now=${EPOCHREALTIME/[.,]/} start=${1/[.,]/}
  local tenths=$(((now - start) / 100000))
  printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

# step NAME COMMAND...: runs the command, prints one line when it starts and
# one with its time when it ends. Returns the command's exit status.
step() {
  local name=$1 start=$EPOCHREALTIME status=0 log
  shift
  mkdir -p "$LOG_DIR"
  log="$LOG_DIR/$(printf '%.60s' "${name//[^A-Za-z0-9._-]/_}").log"
  say "$name ..."
  if [[ -t 1 ]]; then
    "$@" || status=$?
  else
    "$@" >"$log" 2>&1 </dev/null || status=$?
  fi
  if [[ $status -eq 0 ]]; then
    say "$name: ok, $(secondsSince "$start") s"
    return 0
  fi
  say "$name: FAILED (exit $status), $(secondsSince "$start") s"
  if [[ ! -t 1 ]]; then
    grep -E -m 20 'error|Error|FAILED' "$log" >&2 || true
    printf -- '--- last lines of %s\n' "$log" >&2
    tail -n 40 "$log" >&2
  fi
  return "$status"
}

# Parallel jobs: one a core, but at least 1.5 GB of free memory for each (an
# MLIR-heavy file takes that much). FUSION_JOBS overrides.
jobs_() {
  if [[ -n ${FUSION_JOBS:-} ]]; then
    echo "$FUSION_JOBS"
    return
  fi
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  ((memory >= 1)) || memory=1
  echo $((cores < memory ? cores : memory))
}

presetNames() {
  sed -n '/"buildPresets"/,$ s/.*"name": "\([^"]*\)".*/ \1/p' \
    "$FUSION_ROOT/CMakePresets.json" | tr -d '\n'
}

presetExists() { [[ " $(presetNames) " == *" $1 "* ]]; }

# setup.sh - brings a Debian 12 machine to where Fusion builds; sourced by dev.
#
# setup LEVEL installs only what is missing: Debian packages (packages.txt),
# the virtual environment .venv with the exact versions of requirements.txt
# (and of requirements-cuda.txt where no toolkit of CUDA is), and the wheel that
# carries the demo's model. Levels: build (packages), all
# (everything that a command needs), test (all, and the wheels of the networks
# that tests run), package (all, and the tools that package.sh needs).

VENV="$FUSION_ROOT/.venv"
LLVM_PIN='1:22.1.8*'
DEMO_WHEEL_NAME=rapidocr_onnxruntime-1.4.4-py3-none-any.whl
DEMO_WHEEL_SHA256=971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf
DEMO_WHEEL="$FUSION_ROOT/.cache/wheels/$DEMO_WHEEL_NAME"

setup() {
  local level=$1
  mkdir -p "$FUSION_ROOT/.cache" "$LOG_DIR"
  # Two commands at once in one clone: the second waits for the first's setup.
  exec 9>"$FUSION_ROOT/.cache/setup.lock"
  flock 9
  checkDisk
  setupPackages base
  [[ $level == package ]] && setupPackages package
  if [[ $level != build ]]; then
    setupVenv
    setupCudaCompiler
    setupDemoModel
  fi
  [[ $level != test ]] || setupNetworks
  exec 9>&-
}

# A build with its tests takes about 3 GB; less than that fails in the middle.
checkDisk() {
  local free
  free=$(df --output=avail -BM "$FUSION_ROOT" | tail -n 1 | tr -dc 0-9)
  if [[ ! -d $FUSION_ROOT/build ]] && ((free < 4000)); then
    die 6 "only ${free} MB free, in $FUSION_ROOT, free 4000 MB or clone elsewhere"
  fi
}

# Names of one section ([base], [package]) of packages.txt, one a line.
packagesOf() {
  awk -v want="[$1]" '/^\[/ {on = ($1 == want); next}
    on && NF && $1 !~ /^#/ {print $1}' "$FUSION_ROOT/scripts/packages.txt"
}

# Those of the given packages that are not installed.
missingPackages() {
  local installed package
  # Multi-arch packages print as name:arch; one query for all keeps it fast.
  installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null |
    awk '$1 == "ii" || $1 == "hi" {print $2}' || true)
  for package in "$@"; do
    grep -qxF -- "$package" <<<"$installed" || echo "$package"
  done
}

asRoot() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif ! command -v sudo >/dev/null; then
    die 5 "packages are missing and there is no sudo, on this machine, run as root: $*"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

setupPackages() {
  local section=$1 wanted missing preferences
  mapfile -t wanted < <(packagesOf "$section")
  mapfile -t missing < <(missingPackages "${wanted[@]}")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  command -v apt-get >/dev/null ||
    die 5 "apt-get not found, on this machine, install by hand: ${missing[*]}"

  # The pin reaches LLVM's libraries too (a leaf package alone would conflict
  # with a newer libllvm22), for this one command: /etc stays as it is.
  preferences=$(mktemp)
  [[ ! -f /etc/apt/preferences ]] || cat /etc/apt/preferences >"$preferences"
  printf '\nPackage: src:llvm-toolchain-22\nPin: version %s\nPin-Priority: 1001\n' \
    "$LLVM_PIN" >>"$preferences"
  chmod 644 "$preferences"
  local options=(-o "Dir::Etc::Preferences=$preferences" -o DPkg::Lock::Timeout=600
    -o Acquire::Retries=3)

  # Package lists only when apt can't place one of the packages.
  if ! apt-get -s "${options[@]}" install "${missing[@]}" >/dev/null 2>&1; then
    step "update package lists" asRoot apt-get "${options[@]}" update || {
      rm -f "$preferences"
      die 5 "apt-get update failed, on this machine, check the network and /etc/apt/sources.list*"
    }
  fi
  if ! installPackages; then
    # Lists that name files the mirror no longer has: refresh once.
    step "update package lists" asRoot apt-get "${options[@]}" update || true
    installPackages || {
      rm -f "$preferences"
      die 5 "packages can't be installed, on this machine, need Debian 12 with its" \
        "security archive and: ${missing[*]}"
    }
  fi
  rm -f "$preferences"
  mapfile -t missing < <(missingPackages "${wanted[@]}")
  [[ ${#missing[@]} -eq 0 ]] ||
    die 5 "still missing after apt-get, on this machine, install by hand: ${missing[*]}"
}

installPackages() {
  step "install ${#missing[@]} Debian packages ($section)" asRoot env \
    DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y \
    --allow-downgrades --no-install-recommends "${missing[@]}"
}

# The Python that makes .venv: Debian's, else one from PATH that is new enough.
hostPython() {
  local candidate
  for candidate in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
    candidate=$(command -v "$candidate") || continue
    if "$candidate" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
      2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  die 5 "no Python 3.11 or newer with venv, on this machine, install python3 and python3-venv"
}

setupVenv() {
  local python stamp wanted
  python=$(hostPython) || exit 5
  # A moved clone, another Python or new requirements make a new environment.
  wanted="$VENV $("$python" -I -V) $(sha256sum <"$FUSION_ROOT/requirements.txt")"
  stamp="$VENV/.fusion-stamp"
  [[ -f $stamp && $(<"$stamp") == "$wanted" ]] && return 0
  rm -rf "$VENV"
  step "make .venv" env PYTHONNOUSERSITE=1 "$python" -I -m venv "$VENV" ||
    die 5 "python -m venv failed, with $python, install python3-venv"
  step "install Python packages" env PYTHONNOUSERSITE=1 "$VENV/bin/python" -I -m pip \
    install --disable-pip-version-check --no-input --only-binary :all: \
    --require-virtualenv -r "$FUSION_ROOT/requirements.txt" ||
    die 5 "pip install failed, from requirements.txt, check the network"
  printf '%s' "$wanted" >"$stamp"
}

# Whether a toolkit is here that knows every target: sm_100 came with 12.8.
hasCudaToolkit() {
  local root version
  for root in "${CUDA_HOME:-}" /usr/local/cuda; do
    [[ -n $root && -f $root/nvvm/libdevice/libdevice.10.bc ]] || continue
    version=$("$root/bin/ptxas" --version 2>/dev/null |
      sed -n 's/.*release \([0-9.]*\),.*/\1/p') || continue
    [[ -n $version && $(printf '12.8\n%s\n' "$version" | sort -V | head -n 1) == 12.8 ]] &&
      return 0
  done
  return 1
}

setupCudaCompiler() {
  local stamp wanted
  hasCudaToolkit && return 0
  wanted=$(sha256sum <"$FUSION_ROOT/requirements-cuda.txt")
  stamp="$VENV/.fusion-cuda-stamp"
  [[ -f $stamp && $(<"$stamp") == "$wanted" ]] && return 0
  step "install CUDA assembler" env PYTHONNOUSERSITE=1 "$VENV/bin/python" -I -m pip \
    install --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    --require-virtualenv -r "$FUSION_ROOT/requirements-cuda.txt" ||
    die 5 "pip install failed, from requirements-cuda.txt, check the network"
  printf '%s' "$wanted" >"$stamp"
}

# Only the wheel's file is wanted (it holds the model); it is never installed.
setupDemoModel() {
  local folder
  folder=$(dirname "$DEMO_WHEEL")
  if [[ -f $DEMO_WHEEL ]]; then
    wheelIsRight && return 0
    say "demo model: $DEMO_WHEEL_NAME is damaged, fetching it again"
    rm -f "$DEMO_WHEEL"
  fi
  mkdir -p "$folder"
  step "fetch demo model" "$VENV/bin/python" -I -m pip download \
    --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    --dest "$folder" rapidocr-onnxruntime==1.4.4 ||
    die 5 "pip download failed, for rapidocr-onnxruntime 1.4.4, check the network"
  wheelIsRight || {
    rm -f "$DEMO_WHEEL"
    die 5 "wrong SHA-256, of $DEMO_WHEEL_NAME, the package index served another file"
  }
}

# The other networks of the tests; scripts/networks.py knows which.
setupNetworks() {
  "$VENV/bin/python" -I "$FUSION_ROOT/scripts/networks.py" --check ||
    step "fetch the tests' networks" "$VENV/bin/python" -I "$FUSION_ROOT/scripts/networks.py" ||
    die 5 "no networks for the tests, see the message above, check the network"
}

wheelIsRight() {
  echo "$DEMO_WHEEL_SHA256  $DEMO_WHEEL" | sha256sum --check --status 2>/dev/null
}

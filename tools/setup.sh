# Sourced by tools/rehearse and tools/test: installs what is missing (Debian or Ubuntu). Everything goes to stderr.

PACKAGES=(
  g++ cmake ninja-build                                      # toolchain
  libboost-graph-dev libboost-program-options-dev            # routing and cycle reports; command line
  libyaml-dev libfmt-dev     nlohmann-json3-dev              # scenarios; text; JSON
  libtomlplusplus-dev                                        # TOML of trainers (import)
  rapidjson-dev                                              # traces of profilers, as a stream
  zlib1g-dev                                                 # compressed traces
  libsqlite3-dev                                             # stores of sweeps
  doctest-dev python3-numpy libsimgrid-dev                   # tests; their independent oracles
  python3-yaml                                               # what the gallery is made of (tools/gallery)
  liburing-dev                                               # files of the tier nvme, in what performs
  libopenmpi-dev openmpi-bin libopenblas-dev                 # for the MPI backend; nothing of the core links them
  iproute2                                                   # makes the hosts of `rehearse hosts`
)

install_packages() {
  local missing=() p
  for p in "${PACKAGES[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  if ! command -v apt-get >/dev/null; then
    echo "rehearse: needs the packages: ${missing[*]} (this system has no apt-get; install their equivalents)" >&2
    exit 3
  fi
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "rehearse: needs root or sudo to install: ${missing[*]}" >&2; exit 3; }
    sudo=(sudo)
  fi
  echo "rehearse: installing ${missing[*]}" >&2
  { "${sudo[@]}" apt-get update -qq &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >"${TMPDIR:-/tmp}/rehearse-apt.log" 2>&1 ||
    { tail -5 "${TMPDIR:-/tmp}/rehearse-apt.log" >&2; echo "rehearse: could not install packages" >&2; exit 3; }
}

# build PRESET TARGET...: configures when needed, builds, speaks only when something fails.
build() {
  local preset=$1; shift
  local log=build/$preset/build.log
  mkdir -p "build/$preset"
  echo "rehearse: building ($preset) ..." >&2
  { [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"; } >"$log" 2>&1 &&
    cmake --build "build/$preset" --target "$@" >>"$log" 2>&1 ||
    { grep -E 'error|FAILED' "$log" | head -20 >&2; echo "rehearse: the build failed; see $log" >&2; exit 3; }
}

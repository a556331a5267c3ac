# shellcheck shell=bash
# Configuring and building a preset. Needs steps.sh.

# A clone elsewhere finds what another has compiled: the compiler cache leaves the clone's own path out.
export CCACHE_BASEDIR=$SLUICE_ROOT CCACHE_NOHASHDIR=true

# configure PRESET [CMAKE OPTION...]: once; Ninja runs CMake again by itself when a file of it changes.
configure() {
  local preset=$1 wanted="${*:2}" stamp=$SLUICE_ROOT/build/$1/.configured
  shift
  if [[ -f $stamp && $(cat "$stamp") == "$wanted" && -f $SLUICE_ROOT/build/$preset/build.ninja ]]; then
    return 0
  fi
  step "Configuring the $preset build"
  (cd "$SLUICE_ROOT" && follow "configure-$preset" cmake --preset "$preset" "$@")
  echo "$wanted" >"$stamp"
}

# find_nvcc: the CUDA compiler's path, or nothing.
find_nvcc() {
  command -v nvcc || { [[ -x /usr/local/cuda/bin/nvcc ]] && echo /usr/local/cuda/bin/nvcc; } || true
}

# preset_for_devices: the preset that has a backend for each device of this machine. NVIDIA's kernels
# need their compiler; all others are always built.
preset_for_devices() {
  if [[ ! -e /dev/nvidiactl ]]; then
    echo release
  elif [[ -n $(find_nvcc) ]]; then
    echo cuda
  else
    echo "    an NVIDIA GPU, but no nvcc: built without its kernels; install CUDA 13 and run again" >&2
    echo release
  fi
}

# build PRESET [TARGET...]: what is up to date is not built again.
build() {
  local preset=$1
  step "Building the $preset preset${2:+: ${*:2}}"
  follow "build-$preset" ninja -C "$SLUICE_ROOT/build/$preset" "${@:2}"
}

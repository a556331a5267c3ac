# shellcheck shell=bash
# Configuring and building a preset. Needs steps.sh.

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

# build PRESET [TARGET...]: what is up to date is not built again.
build() {
  local preset=$1
  step "Building the $preset preset${2:+: ${*:2}}"
  follow "build-$preset" ninja -C "$SLUICE_ROOT/build/$preset" "${@:2}"
}

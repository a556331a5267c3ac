# shellcheck shell=bash
# Running the libFuzzer targets of build/fuzz. Needs steps.sh.

# fuzz_one PROGRAM SECONDS: new inputs go to the cache's corpus, a finding to build/fuzz/findings.
# Seeds are the files of tests/fuzz/<target>, where there are any. A target itself takes an input
# that needs too much CPU time for a finding (base/fuzz_target.h); the timeout is for one that hangs.
fuzz_one() {
  local program=$1 name corpus seeds log
  name=$(basename "$program")
  corpus=$SLUICE_CACHE/corpus/$name
  seeds=$SLUICE_ROOT/tests/fuzz/${name%_fuzz}
  log=$SLUICE_LOGS/fuzz-$name.log
  mkdir -p "$corpus" "$SLUICE_ROOT/build/fuzz/findings"
  [[ -d $seeds ]] || seeds=
  if "$program" -max_total_time="$2" -timeout=20 -rss_limit_mb=3000 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$SLUICE_ROOT/build/fuzz/findings/$name-" "$corpus" ${seeds:+"$seeds"} >"$log" 2>&1; then
    printf '    %s: %s runs, no finding\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  else
    tail -n 60 "$log"
    printf '    %s: a finding, kept in build/fuzz/findings; the log is %s\n' "$name" "$log"
    return 1
  fi
}

# run_fuzz_targets SECONDS: all targets, as many at a time as there are cores.
run_fuzz_targets() {
  local programs
  mapfile -t programs < <(find "$SLUICE_ROOT/build/fuzz" -maxdepth 1 -name '*_fuzz' -type f -executable | sort)
  ((${#programs[@]})) || fail "build/fuzz holds no fuzz target"
  export SLUICE_ROOT SLUICE_CACHE SLUICE_LOGS
  export -f fuzz_one
  # shellcheck disable=SC2016
  printf '%s\0' "${programs[@]}" |
    xargs -0 -P "$(nproc)" -I{} bash -c 'fuzz_one "$1" "$2"' _ {} "$1" ||
    fail "a fuzz target found a fault; see above"
}

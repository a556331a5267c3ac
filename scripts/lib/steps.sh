# shellcheck shell=bash
# Steps that say what they do and show how far they are. Sourced by scripts/demo and scripts/test.

SLUICE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# The rule of src/files/model_cache.cc.
SLUICE_CACHE=${SLUICE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sluice}
# What comes from a package index; elsewhere than the cache where .ci/run empties that.
SLUICE_DOWNLOADS=${SLUICE_DOWNLOADS:-$SLUICE_CACHE}
SLUICE_LOGS=$SLUICE_ROOT/build/log
export SLUICE_CACHE SLUICE_DOWNLOADS
mkdir -p "$SLUICE_CACHE" "$SLUICE_DOWNLOADS" "$SLUICE_LOGS"

# step TEXT: the heading of what comes next.
step() { printf '==> %s\n' "$*" >&2; }

# fail TEXT: one sentence, then the end.
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# free_mib FOLDER: what its disk has free.
free_mib() { df --output=avail -BM "$1" | tr -dc '0-9\n' | tail -n 1; }

# need_space MIB FOLDER WHAT: fails if FOLDER's disk has less free.
need_space() {
  local free
  free=$(free_mib "$2")
  ((free >= $1)) || fail "$3 needs $1 MiB in $2, $free MiB are free; set SLUICE_CACHE to a folder on another disk"
}

# follow LABEL COMMAND...: runs it with its output in build/log/LABEL.log; on a terminal the latest
# line stands in place, elsewhere one line comes every 15 seconds. A failure prints the log's end,
# or $REMEDY where that is set: one sentence that says more than the log would.
follow() {
  local label=$1 log=$SLUICE_LOGS/$1.log started=$SECONDS said=$SECONDS status=0 line
  shift
  : >"$log"
  rm -f "$log.status"
  while IFS= read -r line; do
    if [[ -t 2 ]]; then
      printf '\r\033[K    %.100s' "$line" >&2
    elif ((SECONDS - said >= 15)); then
      printf '    %.100s\n' "$line" >&2
      said=$SECONDS
    fi
  done < <(
    {
      "$@" 2>&1 </dev/null && status=0 || status=$?
      echo "$status" >"$log.status"
    } | tee "$log"
  )
  status=$(cat "$log.status" 2>/dev/null) || status=
  rm -f "$log.status"
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
  if [[ ! $status =~ ^[0-9]+$ ]]; then
    fail "$label ended, but how could not be written to $log.status; is the disk of $SLUICE_LOGS full ($(free_mib "$SLUICE_LOGS") MiB are free)?"
  fi
  if ((status != 0)); then
    [[ -z ${REMEDY:-} ]] || fail "$REMEDY; the log is $log"
    tail -n 40 "$log" >&2
    fail "$label failed with status $status after $((SECONDS - started)) s; all of its output is in $log"
  fi
  printf '    %s: done in %d s\n' "$label" $((SECONDS - started)) >&2
}

# shellcheck shell=bash
# Steps that say what they do and show how far they are. Sourced by scripts/demo and scripts/test.

SLUICE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SLUICE_CACHE=${SLUICE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sluice}
SLUICE_LOGS=$SLUICE_ROOT/build/log
export SLUICE_CACHE
mkdir -p "$SLUICE_CACHE" "$SLUICE_LOGS"

# step TEXT: the heading of what comes next.
step() { printf '==> %s\n' "$*" >&2; }

# fail TEXT: one sentence, then the end.
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# follow LABEL COMMAND...: runs it with its output in build/log/LABEL.log; on a terminal the latest
# line stands in place, elsewhere one line comes every 15 seconds. A failure prints the log's end.
follow() {
  local label=$1 log=$SLUICE_LOGS/$1.log started=$SECONDS said=$SECONDS status=0 line
  shift
  : >"$log"
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
  status=$(cat "$log.status")
  rm -f "$log.status"
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
  if ((status != 0)); then
    tail -n 40 "$log" >&2
    fail "$label failed with status $status after $((SECONDS - started)) s; all of its output is in $log"
  fi
  printf '    %s: done in %d s\n' "$label" $((SECONDS - started)) >&2
}

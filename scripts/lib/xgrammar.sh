#!/usr/bin/env bash
# XGrammar's sources, from the source package of PyPI: sourced by scripts/demo and scripts/test, or
# run by hand before CMake.
if [[ -z ${SLUICE_ROOT:-} ]]; then
  set -euo pipefail
  # shellcheck source-path=SCRIPTDIR
  source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
fi

XGRAMMAR_PACKAGE=xgrammar==0.2.8
XGRAMMAR_ARCHIVE=xgrammar-0.2.8.tar.gz
XGRAMMAR_SHA256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80

# Leaves the unpacked folder, checked, where cmake/SluiceXGrammar.cmake looks for it.
get_xgrammar() {
  local target=$SLUICE_DOWNLOADS/${XGRAMMAR_ARCHIVE%.tar.gz} folder
  if [[ -f $target/.checked ]]; then return 0; fi
  step "Getting XGrammar's sources ($XGRAMMAR_PACKAGE, 3 MiB) from the Python package index"
  need_space 100 "$SLUICE_DOWNLOADS" "XGrammar"
  folder=$(mktemp -d "$SLUICE_DOWNLOADS/download.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  REMEDY="the package index cannot be reached or lacks $XGRAMMAR_PACKAGE; set PIP_INDEX_URL" \
    follow xgrammar python3 -m pip download --retries 2 --no-deps --no-binary xgrammar --dest "$folder" \
    "$XGRAMMAR_PACKAGE"
  echo "$XGRAMMAR_SHA256  $folder/$XGRAMMAR_ARCHIVE" | sha256sum --check --status ||
    fail "$XGRAMMAR_ARCHIVE of the package index has another SHA-256 than $XGRAMMAR_SHA256"
  tar -xzf "$folder/$XGRAMMAR_ARCHIVE" -C "$folder"
  touch "$folder/${XGRAMMAR_ARCHIVE%.tar.gz}/.checked"
  rm -rf "$target"
  mv "$folder/${XGRAMMAR_ARCHIVE%.tar.gz}" "$target"
  rm -rf "$folder"
  trap - EXIT
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then get_xgrammar; fi

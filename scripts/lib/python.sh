# shellcheck shell=bash
# What the tests need from the Python package index, kept in $SLUICE_DOWNLOADS. Needs steps.sh.

SLUICE_VENV=$SLUICE_DOWNLOADS/venv
SLUICE_FIXTURES=$SLUICE_DOWNLOADS/fixtures
SLUICE_PYTHON=$SLUICE_VENV/bin/python
FIXTURES_PACKAGE=llama-cpp-python==0.3.36
SLUICE_SCHEMAS=$SLUICE_DOWNLOADS/json-schemas
SCHEMAS_PACKAGE=jsonschema==4.26.0
export SLUICE_FIXTURES SLUICE_PYTHON SLUICE_SCHEMAS

# A virtual environment with scripts/lib/requirements.txt, made again when that file changes.
get_test_python() {
  local wanted=$SLUICE_ROOT/scripts/lib/requirements.txt
  if cmp -s "$wanted" "$SLUICE_VENV/requirements.txt" && [[ -x $SLUICE_PYTHON ]]; then return 0; fi
  step "Making the tests' Python environment in $SLUICE_VENV"
  rm -rf "$SLUICE_VENV"
  follow python-venv python3 -m venv "$SLUICE_VENV"
  REMEDY="the package index cannot be reached, or a package of $wanted cannot be installed; set PIP_INDEX_URL" \
    follow python-packages "$SLUICE_PYTHON" -m pip install -r "$wanted"
  cp "$wanted" "$SLUICE_VENV/requirements.txt"
}

# Vocabularies and chat templates of public models, read by tests from $SLUICE_FIXTURES: the folder
# vendor/llama.cpp/models of the source package of llama-cpp-python. The archive is kept beside it
# for bench/peers.
get_fixtures() {
  local stamp=$SLUICE_FIXTURES/.package folder archive
  if [[ -f $stamp && $(cat "$stamp") == "$FIXTURES_PACKAGE" ]]; then return 0; fi
  step "Getting vocabularies and chat templates of public models ($FIXTURES_PACKAGE, 73 MiB)"
  folder=$(mktemp -d "$SLUICE_DOWNLOADS/download.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  REMEDY="the package index cannot be reached or lacks $FIXTURES_PACKAGE; set PIP_INDEX_URL" \
    follow fixtures "$SLUICE_PYTHON" -m pip download --no-deps --no-binary llama-cpp-python \
    --dest "$folder" "$FIXTURES_PACKAGE"
  archive=$(echo "$folder"/llama_cpp_python-*.tar.gz)
  mkdir "$folder/models"
  tar -xzf "$archive" -C "$folder/models" --strip-components=4 --wildcards '*/vendor/llama.cpp/models/*'
  echo "$FIXTURES_PACKAGE" >"$folder/models/.package"
  rm -rf "$SLUICE_FIXTURES"
  mv "$folder/models" "$SLUICE_FIXTURES"
  mv "$archive" "$SLUICE_DOWNLOADS/"
  rm -rf "$folder"
  trap - EXIT
}

# The JSON-Schema-Test-Suite, which the source package of jsonschema holds.
get_schemas() {
  local stamp=$SLUICE_SCHEMAS/.package folder
  if [[ -f $stamp && $(cat "$stamp") == "$SCHEMAS_PACKAGE" ]]; then return 0; fi
  step "Getting the JSON-Schema-Test-Suite ($SCHEMAS_PACKAGE, 1 MiB)"
  folder=$(mktemp -d "$SLUICE_DOWNLOADS/download.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  REMEDY="the package index cannot be reached or lacks $SCHEMAS_PACKAGE; set PIP_INDEX_URL" \
    follow schemas "$SLUICE_PYTHON" -m pip download --no-deps --no-binary jsonschema \
    --dest "$folder" "$SCHEMAS_PACKAGE"
  mkdir "$folder/package"
  tar -xzf "$folder"/jsonschema-*.tar.gz -C "$folder/package" --strip-components=1
  echo "$SCHEMAS_PACKAGE" >"$folder/package/.package"
  rm -rf "$SLUICE_SCHEMAS"
  mv "$folder/package" "$SLUICE_SCHEMAS"
  rm -rf "$folder"
  trap - EXIT
}

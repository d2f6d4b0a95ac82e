#!/usr/bin/env bash
# Installs what building and testing Tessera needs from Debian's packages. Does nothing where all is there.
#   tools/install-deps.sh            build and test
#   tools/install-deps.sh --fuzz     also clang with libFuzzer
#   tools/install-deps.sh --tidy     also clang-tidy
#   tools/install-deps.sh --package  also what makes Debian packages and a clean root to try them in
#   tools/install-deps.sh --slurm    also Slurm, which test/launch/slurm.sh starts
#   tools/install-deps.sh --bench    also PyTorch, as the peer that the benchmarks compare with
set -euo pipefail

packages=(
  cmake ninja-build g++ ccache lld-22 libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools libzstd-dev
  zlib1g-dev libjpeg62-turbo-dev libpng-dev libprotobuf-dev protobuf-compiler catch2 libdnnl-dev ocl-icd-opencl-dev libopenmpi-dev
  openmpi-bin libcli11-dev nlohmann-json3-dev clang-format python3 python3-numpy python3-yaml
  libonnx-testdata python3-onnx chromium
)
if [[ "${1:-}" == --bench ]]; then
  packages+=(python3-torch python3-torchvision libopenblas0-pthread)
elif [[ "${1:-}" == --fuzz ]]; then
  packages+=(clang-22 libclang-rt-22-dev libomp-22-dev)
elif [[ "${1:-}" == --tidy ]]; then
  packages+=(clang-tidy-22 libomp-22-dev)
elif [[ "${1:-}" == --package ]]; then
  packages+=(dpkg-dev file debootstrap)
elif [[ "${1:-}" == --slurm ]]; then
  packages+=(slurm-wlm munge iproute2)
elif [[ $# -gt 0 ]]; then
  sed -n '2,8p' "$0"
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

sudo=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || {
    echo "install-deps: missing packages: ${missing[*]}; run this script as root" >&2
    exit 1
  }
  sudo=(sudo)
fi
echo "install-deps: installing ${missing[*]}"
"${sudo[@]}" apt-get update -qq
if ! apt-cache show libmlir-22-dev >/dev/null 2>&1; then
  echo "install-deps: no package libmlir-22-dev: enable Debian 12's security suite (bookworm-security main)" >&2
  exit 1
fi
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

#!/usr/bin/env bash
# Installs what building and testing Tessera needs from Debian's packages. Does nothing where all is there.
#   tools/install-deps.sh            build and test
#   tools/install-deps.sh --fuzz     also clang with libFuzzer
#   tools/install-deps.sh --tidy     also clang-tidy
#   tools/install-deps.sh --package  also what makes Debian packages and a clean root to try them in
#   tools/install-deps.sh --slurm    also Slurm, which test/launch/slurm.sh starts
#   tools/install-deps.sh --bench    also PyTorch, as the peer that the benchmarks compare with
#   tools/install-deps.sh --onednn3 [PREFIX]   also oneDNN 3 from PyPI, in PREFIX (/opt/onednn, where CMake finds it)
set -euo pipefail

onednn=

packages=(
  cmake ninja-build g++ ccache lld-22 libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools libzstd-dev
  zlib1g-dev libjpeg62-turbo-dev libpng-dev libprotobuf-dev protobuf-compiler catch2 libdnnl-dev ocl-icd-opencl-dev libopenmpi-dev
  openmpi-bin libcli11-dev nlohmann-json3-dev clang-format python3 python3-numpy python3-yaml
  libmimalloc-dev libonnx-testdata python3-onnx chromium
)
[[ $(uname -m) != x86_64 ]] || packages+=(libxbyak-dev)
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
elif [[ "${1:-}" == --onednn3 ]]; then
  packages+=(python3-pip)
  onednn=${2:-/opt/onednn}
elif [[ $# -gt 0 ]]; then
  sed -n '2,9p' "$0"
  exit 2
fi

# Debian's oneDNN is the default, and what continuous integration builds with.
if [[ -z $onednn && ! -e /opt/onednn/include/dnnl.hpp ]] && grep -qsw amx_bf16 /proc/cpuinfo; then
  echo "install-deps: this processor has AMX: oneDNN 3 computes faster with it in bf16, 2 convolves faster in f32 (tools/install-deps.sh --onednn3)"
fi

# The wheels onednn-cpu-gomp (libdnnl.so) and onednn-devel-cpu-gomp (headers, CMake package), unpacked. A wheel holds the
# library three times, since it cannot hold links.
install_onednn() {
  [[ $(uname -m) == x86_64 ]] || {
    echo "install-deps: PyPI has oneDNN 3 for x86-64 alone; build it from source and give CMake -Ddnnl_DIR" >&2
    exit 1
  }
  [[ -e $onednn/include/dnnl.hpp ]] && return
  local new wheel library
  new=$(mktemp -d)
  mkdir "$new/onednn"
  /usr/bin/python3 -m pip download -q --no-deps -d "$new" onednn-cpu-gomp onednn-devel-cpu-gomp
  for wheel in "$new"/*.whl; do
    /usr/bin/python3 -m zipfile -e "$wheel" "$new/unpacked"
  done
  cp -a "$new"/unpacked/*.data/data/. "$new/onednn"
  library=$(basename "$new"/onednn/lib/libdnnl.so.3.*)
  ln -sf "$library" "$new/onednn/lib/libdnnl.so.3"
  ln -sf "$library" "$new/onednn/lib/libdnnl.so"
  "${sudo[@]}" mkdir -p "$(dirname "$onednn")"
  "${sudo[@]}" cp -a "$new/onednn" "$onednn.new"
  "${sudo[@]}" mv -T "$onednn.new" "$onednn" # whole or not at all
  rm -rf "$new"
  echo "install-deps: oneDNN ${library#libdnnl.so.} is in $onednn"
  [[ $onednn == /opt/onednn ]] || echo "install-deps: configure with -DCMAKE_PREFIX_PATH=$onednn"
}

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done

sudo=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null && sudo=(sudo)
fi
if [[ ${#missing[@]} -eq 0 ]]; then
  [[ -z $onednn ]] || install_onednn
  exit 0
fi
if [[ $EUID -ne 0 && ${#sudo[@]} -eq 0 ]]; then
  echo "install-deps: missing packages: ${missing[*]}; run this script as root" >&2
  exit 1
fi
echo "install-deps: installing ${missing[*]}"
"${sudo[@]}" apt-get update -qq
if ! apt-cache show libmlir-22-dev >/dev/null 2>&1; then
  echo "install-deps: no package libmlir-22-dev: enable Debian 12's security suite (bookworm-security main)" >&2
  exit 1
fi
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
[[ -z $onednn ]] || install_onednn

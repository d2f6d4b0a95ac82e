#!/usr/bin/env bash
# Installs the Debian packages in a clean Debian 12 root, and uses them there: programs, library, completion, removal.
#   test/install/deb_root.sh [BUILD_DIR]      default: configures and builds the preset release
# Needs root (chroot, mounts) and some 4 GB of disk; the root is made anew from this machine's package sources, which must
# have Debian's security suite. Takes some ten minutes, so that it is no part of tools/test.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ $EUID -eq 0 ]] || { echo "deb_root.sh: run it as root: it makes a root and changes into it" >&2 && exit 1; }

say() { echo "deb_root.sh: $*"; }
tools/install-deps.sh --package
if [[ $# -gt 0 ]]; then
  build=$1
else
  build=build-release
  cmake --preset release >/dev/null
  cmake --build --preset release
fi
packages=$(mktemp -d)
root=$(mktemp -d /var/tmp/tessera-root.XXXXXX)
chmod 755 "$root"
cleanUp() {
  umount "$root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$root" "$packages"
}
trap cleanUp EXIT
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$packages" >"$packages/cpack.log" || { cat "$packages/cpack.log" && exit 1; }
for package in "$packages"/*.deb; do
  say "$(basename "$package"): $(stat -c %s "$package") bytes; needs $(dpkg-deb -f "$package" Depends)"
done

debootstrap --variant=minbase bookworm "$root" >"$packages/debootstrap.log" || { tail "$packages/debootstrap.log" && exit 1; }
cp /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/" && rm -f "$root/etc/apt/sources.list"
cp /etc/resolv.conf "$root/etc/"
mount -t proc proc "$root/proc" # cores and programs' own paths are read there
mkdir "$root/packages" && cp "$packages"/*.deb test/models/mlp_train.onnx "$root/packages/"
cp -r test/install/consumer "$root/packages/"

inRoot() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp DEBIAN_FRONTEND=noninteractive "$@"; }
asUser() { inRoot setpriv --reuid=1000 --regid=1000 --clear-groups sh -ec "cd /tmp; $1"; }
install() { inRoot apt-get install -y -qq --no-install-recommends "$@" >"$packages/apt.log" 2>&1 || { cat "$packages/apt.log" && exit 1; }; }
inRoot apt-get update -qq

say "a root with $(inRoot dpkg-query -f '.\n' -W | wc -l) packages; installing tessera"
install "$(inRoot sh -c 'echo /packages/tessera_*.deb')"
say "now $(inRoot dpkg-query -f '.\n' -W | wc -l) packages"
asUser "tessera-compile --version; tessera-run --version"
asUser "tessera-compile /packages/mlp_train.onnx --mesh data=2,model=2 --mode auto --dim batch=16 --train -o plan"
asUser "tessera-run plan --data synthetic --steps 3 && tessera-run plan --data synthetic --steps 1 --verify"
asUser "tessera-run plan --data synthetic --steps 2 --processes --quiet && tessera-dump plan | head -n 4"
inRoot sh -ec 'test -s /usr/share/man/man1/tessera-compile.1.gz; test -s /usr/share/doc/tessera/copyright
  test -s /usr/share/zsh/vendor-completions/_tessera-run'
inRoot bash -ec '. /usr/share/bash-completion/completions/tessera-compile
  COMP_WORDS=(tessera-compile --mode "") COMP_CWORD=2; _tessera_compile; echo "completion of --mode: ${COMPREPLY[*]}"'

if compgen -G "$packages/tessera-cuda_*.deb" >/dev/null; then
  install "$(inRoot sh -c 'echo /packages/tessera-cuda_*.deb')"
  say "tessera-cuda without NVIDIA's libraries says:"
  asUser "tessera-run plan --data synthetic --steps 1 --device cuda 2>&1 | tee message || true; grep -q 'needs the library' message"
fi

say "installing tessera-dev, a compiler and CMake"
install "$(inRoot sh -c 'echo /packages/tessera-dev_*.deb')" g++ cmake make
asUser "cmake -S /packages/consumer -B consumer >/dev/null && cmake --build consumer >/dev/null"
asUser "consumer/consumer /packages/mlp_train.onnx consumer-plan | tail -n 2"

inRoot dpkg --purge tessera-dev tessera-cuda tessera >/dev/null 2>&1
left=$(inRoot find /usr -name '*tessera*')
[[ -z $left ]] || { say "purged packages leave: $left" && exit 1; }
say "passed: installed, compiled, trained, built against, removed"

#!/usr/bin/env bash
# Installs a build into a folder of its own, looks at what is there and uses it: as programs, and from another project
# through find_package(Tessera).
#   install_test.sh BUILD_DIR MODEL.onnx
set -euo pipefail
build=$(realpath "$1")
model=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

# Somewhere else than where the build was configured for: what is installed may be moved.
cmake --install "$build" --prefix "$work/first" >"$work/install.log" || { tail "$work/install.log" && exit 1; }
mv "$work/first" "$prefix"
for file in bin/tessera-{compile,run,dump,ckpt,profile,solve} share/man/man1/tessera-compile.1 \
  share/bash-completion/completions/tessera-run share/zsh/site-functions/_tessera-dump share/doc/tessera/LICENSE \
  include/tessera/runtime/session/Session.h include/tessera/compiler/driver/Driver.h; do
  [[ -e $prefix/$file ]] || { echo "install_test: $file is not installed" && exit 1; }
done
if grep -rlF "$build" "$prefix/lib" --include=*.cmake || readelf -d "$prefix"/bin/* | grep -F "$build"; then
  echo "install_test: the files above name the build folder" && exit 1
fi

PATH=$prefix/bin:$PATH
tessera-compile "$model" --mesh 2 --dim batch=8 --train -q -o "$work/plan"
tessera-run "$work/plan" --data synthetic --steps 2 --quiet
echo "install_test: the installed programs work"

# docs/installing.md shows the project as it is.
sed -n '/^```cmake$/,/^```$/{/^```/!p}' "$here/../../docs/installing.md" | diff - "$here/consumer/CMakeLists.txt"
cmake -G Ninja -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug >"$work/configure.log" ||
  { cat "$work/configure.log" && exit 1; }
cmake --build "$work/consumer" >"$work/build.log" || { cat "$work/build.log" && exit 1; }
"$work/consumer/consumer" "$model" "$work/consumer-plan"

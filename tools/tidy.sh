#!/usr/bin/env bash
# Runs clang-tidy (version 22, .clang-tidy) over the C++ sources that a change touches. Every warning is an error.
#   tools/tidy.sh [BASE]     what changed since the commit BASE; default: where this branch left main, on main HEAD~1
#   tools/tidy.sh --all      every source
# Tests are left out. A header is checked through the sources of its folder that include it, or, if there are none, through one that does.
# Sources that the preset dev does not build on this machine are named and left out.
# TESSERA_TIDY_SECONDS=N begins no source after N seconds, names those that are left, and does not fail for them.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build # the folder of the preset dev
folders=(compiler dialects runtime strategies tools)
jobs=${TESSERA_JOBS:-$(nproc)}
start=$SECONDS

# The commit to compare with where none is named; empty: there is none.
default_base() {
  local head main branch
  head=$(git rev-parse -q --verify HEAD 2>/dev/null) || return 0
  for main in origin/main main; do
    branch=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    [[ $branch == "$head" ]] || {
      echo "$branch"
      return
    }
  done
  git rev-parse -q --verify HEAD~1 && return
  # A shallow clone lacks the commit before this one: ask for it.
  [[ $(git rev-parse --is-shallow-repository) == false ]] || git fetch -q --deepen=1 2>/dev/null || true
  git rev-parse -q --verify HEAD~1 || true
}

# The sources (.cpp) that show what is wrong in a header.
sources_of() { # HEADER
  local folder name all
  folder=$(dirname "$1") name=$(basename "$1")
  all=$({
    git grep --untracked -lF "#include \"$1\"" -- "${folders[@]}"
    git grep --untracked -lF "#include \"$name\"" -- ":(glob)$folder/*.cpp" ":(glob)$folder/*.h"
  } | grep -E '\.(cpp|h)$' | sort -u) || true
  grep -E "^$folder/[^/]*\.cpp$" <<<"$all" || grep -m1 '\.cpp$' <<<"$all" || {
    # Only headers include it: ask the first.
    [[ -z $all ]] || sources_of "$(head -n1 <<<"$all")"
  }
}

case ${1:-} in
--all)
  sources=$(find "${folders[@]}" -name '*.cpp')
  ;;
-*)
  sed -n '3,4p' "$0" >&2
  exit 2
  ;;
*)
  if [[ $# -gt 0 ]]; then
    base=$(git rev-parse -q --verify "$1^{commit}") || {
      echo "tidy.sh: no commit '$1' to compare with" >&2
      exit 2
    }
  else
    base=$(default_base)
  fi
  if [[ -z $base ]]; then
    echo "tidy.sh: nothing checked: no commit before this one to compare with (tools/tidy.sh --all checks everything)"
    exit 0
  fi
  changed=$({
    git diff --name-only --diff-filter=d "$base" -- "${folders[@]}"
    git ls-files -o --exclude-standard -- "${folders[@]}"
  } | grep -E '\.(cpp|h)$') || true
  # Changed sources come first, in case time runs out.
  sources=$({
    grep '\.cpp$' <<<"$changed" || true
    { grep "\.h$" <<<"$changed" || true; } | while read -r file; do sources_of "$file"; done
  } | awk '!seen[$0]++')
  ;;
esac
if [[ -z $sources ]]; then
  echo "tidy.sh: nothing to check: no C++ source changed since $(git log -1 --format='%h (%s)' "$base")"
  exit 0
fi

tools/install-deps.sh --tidy
cmake --preset dev -B "$build" >"$build.configure.log" 2>&1 || {
  cat "$build.configure.log"
  exit 1
}
rm -f "$build.configure.log"
commands=$(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\",\?$|\1|p" "$build/compile_commands.json")
built=$(grep -xF "$commands" <<<"$sources" || true)
grep -vxF "$commands" <<<"$sources" | sed 's/^/tidy.sh: left out, not built here: /' || true
if [[ -z $built ]]; then
  echo "tidy.sh: nothing to check: no changed source is built here"
  exit 0
fi
# The headers that the build makes.
ninja -C "$build" -t targets rule CUSTOM_COMMAND | grep -E '\.(h|inc)$' | xargs -r ninja -C "$build" -j"$jobs" --quiet

tidy() { # SOURCE: prints what clang-tidy has to say, and the name if it is not clean
  local said
  if ((EPOCHSECONDS >= deadline)); then
    echo "$1" >>"$unchecked"
    return
  fi
  said=$(clang-tidy-22 --quiet -p "$build" "$1" 2>&1) && return
  printf '%s\ntidy.sh: not clean: %s\n' "$said" "$1"
  return 1
}
export -f tidy
deadline=$((EPOCHSECONDS + ${TESSERA_TIDY_SECONDS:-1000000}))
unchecked=$(mktemp)
trap 'rm -f "$unchecked"' EXIT
export build deadline unchecked
status=0
xargs -P "$jobs" -I{} bash -c 'tidy {}' <<<"$built" || status=1
left=$(wc -l <"$unchecked")
checked=$(($(wc -l <<<"$built") - left))
if ((left > 0)); then
  sed 's/^/tidy.sh: NOT CHECKED, out of time: /' "$unchecked"
  echo "tidy.sh: $left sources were not begun within $TESSERA_TIDY_SECONDS s: run tools/tidy.sh by hand, without TESSERA_TIDY_SECONDS"
fi
if ((status)); then
  echo "tidy.sh: FAILED, see the warnings above ($checked sources in $((SECONDS - start)) s)"
  exit 1
fi
echo "tidy.sh: $checked sources are clean ($((SECONDS - start)) s)"

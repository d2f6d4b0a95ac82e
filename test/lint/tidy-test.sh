#!/usr/bin/env bash
# Which sources tools/tidy.sh checks: in repositories made for it, with stand-ins for the tools that it calls.
#   tidy-test.sh ROOT
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null TESSERA_JOBS=1
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
# The checker finds fault with what contains BAD. CMake writes the database: every source but Absent.cpp.
mkdir "$work/bin" && export PATH=$work/bin:$PATH
# shellcheck disable=SC2016
printf '#!/bin/sh\nfor last; do :; done\necho "checked $last"\n! grep -q BAD "$last"\n' >"$work/bin/clang-tidy-22"
cat >"$work/bin/cmake" <<'END'
#!/bin/bash
mkdir -p build
find "$PWD" -name '*.cpp' ! -name Absent.cpp -printf '  "file": "%p"\n' >build/compile_commands.json
END
printf '#!/bin/sh\necho Passes.h.inc\n' >"$work/bin/ninja"
chmod +x "$work"/bin/*

failed=0
expect() { # WHAT STATUS TEXT ARGUMENTS...: runs tidy.sh, whose output must have the text
  local what=$1 status=$2 text=$3 got=0 said
  shift 3
  said=$(tools/tidy.sh "$@" 2>&1) || got=$?
  if [[ $got != "$status" || $said != *"$text"* ]]; then
    printf '%s: exit code %s, expected %s and "%s" in:\n%s\n' "$what" "$got" "$status" "$text" "$said"
    failed=1
  fi
}
commit() { git add -A && git commit -qm "$1"; }

git init -q -b main "$work/tree" && cd "$work/tree"
mkdir -p tools compiler/a compiler/b runtime strategies dialects test
cp "$root/tools/tidy.sh" tools/
printf '#!/bin/sh\nexit 0\n' >tools/install-deps.sh && chmod +x tools/*.sh
echo /build >.gitignore
expect "no commit" 0 "nothing checked: no commit before this one"
touch compiler/a/A.h compiler/b/Far.h
echo '#include "compiler/a/A.h"' | tee compiler/a/A.cpp compiler/a/User.cpp >compiler/b/Elsewhere.cpp
echo '#include "compiler/b/Far.h"' | tee compiler/a/FarUser.cpp >compiler/b/Middle.h
touch compiler/a/Absent.cpp
commit first
expect "first commit" 0 "nothing checked: no commit before this one"
expect "unknown commit" 2 "no commit 'nowhere' to compare with" nowhere
expect "unknown option" 2 "tools/tidy.sh [BASE]" --what
expect "everything" 0 "tidy.sh: 4 sources are clean" --all
expect "not built" 0 "left out, not built here: compiler/a/Absent.cpp" --all
echo text >README.md && commit second
expect "no source" 0 "nothing to check: no C++ source changed since"
echo '// a' >>compiler/a/A.h && commit third
expect "header, its folder" 0 "tidy.sh: 2 sources are clean"
echo '// BAD' >>compiler/a/User.cpp
expect "uncommitted" 1 "tidy.sh: not clean: compiler/a/User.cpp"
expect "last line" 1 "tidy.sh: FAILED"
git checkout -q compiler
echo '// far' >>compiler/b/Far.h && commit fourth
expect "header, elsewhere" 0 "tidy.sh: 1 sources are clean"
echo '#include "compiler/b/Middle.h"' >compiler/b/New.cpp
expect "untracked" 0 "tidy.sh: 2 sources are clean"
git checkout -q -b branch && commit fifth && echo '// more' >>compiler/a/A.cpp && commit sixth
expect "branch" 0 "tidy.sh: 2 sources are clean"
git rm -q compiler/a/A.cpp && commit seventh
expect "removed" 0 "tidy.sh: 1 sources are clean"
git rm -q compiler/b/Far.h compiler/b/New.cpp && touch compiler/b/Absent.cpp && commit eighth
expect "nothing built" 0 "nothing to check: no changed source is built here" HEAD~1
echo '// c' >>compiler/a/User.cpp && echo '// c' >>compiler/b/Elsewhere.cpp && commit ninth
TESSERA_TIDY_SECONDS=0 expect "out of time" 0 "NOT CHECKED, out of time: compiler/b/Elsewhere.cpp" HEAD~1
TESSERA_TIDY_SECONDS=0 expect "out of time, number" 0 "2 sources were not begun within 0 s" HEAD~1
TESSERA_TIDY_SECONDS=60 expect "in time" 0 "tidy.sh: 2 sources are clean" HEAD~1
git clone -q --depth 1 "file://$work/tree" "$work/shallow" && cd "$work/shallow"
expect "shallow clone" 0 "tidy.sh: 2 sources are clean"
cd .. && git clone -q --depth 1 "file://$work/tree" "$work/cut" && cd "$work/cut"
git remote remove origin
expect "shallow clone without its origin" 0 "nothing checked: no commit before this one"
rm -rf .git
expect "no repository" 0 "nothing checked: no commit before this one"
exit $failed

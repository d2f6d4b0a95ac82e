#!/usr/bin/env bash
# Fails if a C++ file is not formatted by .clang-format (clang-format 14, Debian 12's) or a comment is wider than 120
# columns. clang-format leaves comments as they are.
set -euo pipefail
cd "$1"
find compiler runtime dialects strategies tools test -name '*.cpp' -o -name '*.h' -o -path '*/kernels/*.cu' | sort |
  xargs clang-format --dry-run --Werror

wide=$(find compiler runtime dialects strategies tools test \( -name '*.cpp' -o -name '*.h' -o -name '*.td' -o -name '*.def' -o -path '*/kernels/*.cu' \) -exec grep -HnE '^ *//.{119,}' {} + || true)
if [[ -n $wide ]]; then
  printf 'comments wider than 120 columns:\n%s\n' "$wide" >&2
  exit 1
fi

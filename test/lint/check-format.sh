#!/usr/bin/env bash
# Fails if a C++ file is not formatted by .clang-format (clang-format 14, Debian 12's).
set -euo pipefail
cd "$1"
find compiler runtime dialects strategies tools test -name '*.cpp' -o -name '*.h' -o -path '*/kernels/*.cu' | sort |
  xargs clang-format --dry-run --Werror

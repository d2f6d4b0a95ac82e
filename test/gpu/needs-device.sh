#!/bin/sh
# Runs a test that needs a CUDA device, or skips it (77) and says why.
if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
  echo "skipped: there is no CUDA device on this machine"
  exit 77
fi
exec "$@"

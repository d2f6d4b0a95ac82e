#!/bin/sh
# Everything that needs a GPU, in one run: see run.py, which it starts with the Python that has PyTorch, if any.
#
# usage: test/gpu/run.sh BUNDLE [REPORT-FOLDER [SECTION...]] [--minutes N] [--only TEXT]        (BUNDLE: test/gpu/bundle.py's archive)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for wanted in numpy,torch numpy; do
  for python in ${PYTHON:-} python3 /usr/bin/python3; do
    if "$python" -c "import $wanted" 2>/dev/null; then exec "$python" "$here/run.py" "$@"; fi
  done
done
echo "run.sh: there is no Python with NumPy (set PYTHON)" >&2
exit 2

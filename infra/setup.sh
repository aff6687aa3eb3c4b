#!/bin/sh
# Make .venv from the lock file, with uv where it is installed and pip where not,
# compile our modules, and the record kernels into its cache.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Lakelog needs Python 3.11 or newer; $PYTHON is $("$PYTHON" -V 2>&1)." >&2
    exit 1
}
if command -v uv >/dev/null 2>&1; then
    echo "installing into .venv with uv ..."
    uv venv --quiet --allow-existing --python "$PYTHON" .venv
    uv pip install --quiet --compile-bytecode --python .venv/bin/python --require-hashes -r requirements.lock
    uv pip install --quiet --compile-bytecode --python .venv/bin/python --no-deps --no-build-isolation -e .
else
    echo "installing into .venv with pip (about two minutes) ..."
    [ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
fi
# Programs of ours start a third of a second sooner, also where Python may not write.
.venv/bin/python -m compileall -q broker jobs lakehouse admin_api
echo "compiling the record kernels ..."
.venv/bin/python -m broker.records.warm
.venv/bin/python -c "import broker.storage.kernels_append"
touch .venv/ready

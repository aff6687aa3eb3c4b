#!/bin/sh
# Resolve pyproject.toml into requirements.lock, with the hash of every file.
set -eu
cd "$(dirname "$0")/.."
if .venv/bin/python -m pip --version >/dev/null 2>&1; then
    .venv/bin/python -m pip install --quiet pip-tools
else  # uv made it
    uv pip install --quiet --python .venv/bin/python pip-tools
fi
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
    --no-emit-index-url --no-emit-find-links --no-header --no-build-isolation \
    --extra test --output-file requirements.lock pyproject.toml

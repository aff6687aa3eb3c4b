#!/bin/sh
# Resolve pyproject.toml into requirements.lock, with the hash of every file.
set -eu
cd "$(dirname "$0")/.."
.venv/bin/python -m pip install --quiet pip-tools
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
    --no-emit-index-url --no-emit-find-links --no-header --no-build-isolation \
    --extra test --output-file requirements.lock pyproject.toml

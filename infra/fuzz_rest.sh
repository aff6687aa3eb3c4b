#!/bin/sh
# Walk the REST plane's OpenAPI document with schemathesis, beside a broker of its own:
# no answer may be a 5xx. EXAMPLES (100) an operation. Its short form is in the tests.
set -eu
cd "$(dirname "$0")/.."
data=$(mktemp -d)
.venv/bin/lakelog up --no-compactor --data-dir "$data/lakelog-data" \
    --listener 127.0.0.1:0 --admin 127.0.0.1:0 >"$data/said" 2>"$data/log" &
up=$!
trap 'kill "$up" 2>/dev/null; wait "$up" || true; rm -r "$data"' EXIT
until grep -q '^ready ' "$data/said"; do
    kill -0 "$up" || { cat "$data/log"; exit 1; }
    sleep 0.2
done
kafka=$(sed -n 's/^ready .*kafka=\([^ ]*\).*/\1/p' "$data/said")
admin=$(sed -n 's/^ready .*admin=\([^ ]*\).*/\1/p' "$data/said")
echo 'a record' | .venv/bin/lakelog produce fuzzed --bootstrap "$kafka"
# What is made up would hardly ever be the cluster or a topic, and all else a 404. A topic
# stays, therefore; and its tail has no end, so it is no answer to be waited for.
cluster=$(.venv/bin/python -c 'import json, sys, urllib.request as asking
print(json.load(asking.urlopen(sys.argv[1] + "/v3/clusters"))["data"][0]["cluster_id"])' "$admin")
cd "$data"
printf '[parameters]\n"path.cluster_id" = "%s"\n"path.topic_name" = "fuzzed"\n' "$cluster" >schemathesis.toml
"$OLDPWD/.venv/bin/schemathesis" run "$admin/openapi.json" --url "$admin" \
    --checks not_a_server_error --phases examples,fuzzing \
    --max-examples "${EXAMPLES:-100}" --exclude-path-regex 'tail$' \
    --exclude-name 'DELETE /v3/clusters/{cluster_id}/topics/{topic_name}' \
    --request-timeout 60 --warnings off "$@"

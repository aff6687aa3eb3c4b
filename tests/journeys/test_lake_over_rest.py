"""A topic and its table over REST, with all parts running."""

import json
from urllib.request import Request, urlopen

import deltalake
import pytest

from tests.support.confluent import create, produce_all
from tests.support.patience import Patience
from tests.support.process import WholePart

pytestmark = [pytest.mark.spark, pytest.mark.shared_out("tables", 4, whole=True)]

COUNT = 60


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    part = WholePart(tmp_path_factory.mktemp("rest") / "data", "lake.flush_ms=3600000")
    part.start()
    create(part.bootstrap, "orders", 2)
    records = [(b"k%d" % n, b'{"n": %d}' % n, None, n % 2) for n in range(COUNT)]
    produce_all(part.bootstrap, "orders", records)
    yield part
    part.end()


def asked(up, path, method="GET"):
    url = path if path.startswith("http") else up.facts["admin"] + path
    with urlopen(Request(url, method=method)) as answer:
        return json.load(answer)


def until(up, path, condition):
    """The answer once it is as it shall be."""
    patience = Patience()
    while not condition(found := asked(up, path)):
        assert patience.lasts(found), found
    return found


@pytest.fixture(scope="module")
def compacted(up):
    """All is in the table because it was asked for: by itself it would take an hour."""
    operation = asked(up, "/v1/tables/orders:compact?timeout=60", "POST")
    return until(up, operation["metadata"]["self"], lambda o: o["state"] == "DONE")


def test_a_table_is_made_current_by_asking_and_shown_as_such(up, compacted):
    assert compacted["topic_names"] == ["orders"]
    found = until(up, "/v1/tables/orders", lambda t: t["broker_problem"] is None)
    assert (found["rows"], found["lag_records"]) == (COUNT, 0)
    assert (found["lag_seconds"], found["problem"]) == (0.0, None)
    for part in found["partitions"]:
        assert part["table_end"] == part["high_watermark"] == COUNT / 2
    [listed] = asked(up, "/v1/tables")["data"]
    assert listed["location"] == found["location"]


def test_its_commits_lead_to_versions_and_back(up, compacted):
    commits = asked(up, "/v1/tables/orders/commits")["data"]
    assert commits[-1]["operation"] == "CREATE TABLE"
    rounds = [one for one in commits if one["written_by"] == "compactor"]
    assert sum(span["records"] for one in rounds for span in one["ranges"]) == COUNT
    found = asked(up, "/v1/tables/orders/versions?partition=1&offset=7")
    path = asked(up, "/v1/tables/orders")["location"]
    for version, there in ((found["version"], 1), (found["version"] - 1, 0)):
        table = deltalake.DeltaTable(path, version=version)
        rows = table.to_pyarrow_table(
            filters=[("partition", "=", 1), ("offset", "=", 7)]
        )
        assert rows.num_rows == there


def test_its_records_are_read_and_the_code_for_its_table_opens_it(up, compacted):
    url = "/v1/topics/orders/records?filter=value.n%20%3E%3D%2050&timeout_ms=30000"
    found = []
    while url:
        page = asked(up, url)
        found += [json.loads(one["value"]["data"])["n"] for one in page["data"]]
        url = page["metadata"]["next"]
    assert sorted(found) == list(range(50, COUNT))
    snippets = asked(up, "/v1/tables/orders/snippets")["data"]
    [code] = [one["code"] for one in snippets if one["engine"] == "deltalake"]
    names = {}
    exec(code, names)
    assert names["rows"].num_rows == 10

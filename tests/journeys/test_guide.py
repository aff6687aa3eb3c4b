"""The guide's blocks about tables, typed as they stand, on one system with a compactor.

A story in the order in which an operator may need them; `lake` marks the blocks. The
section on a stuck topic is acted out: an owner really stops one, and undoes it. Nine
Spark sessions are started, each by a command of the guide: so it is a long form.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import deltalake
import pytest
from deltalake import TableFeatures

from broker.runtime.rebuilding.found_log import found_log
from tests.support.confluent import create, produce_all
from tests.support.guide import PAGES, Block, Typing, blocks
from tests.support.patience import STUCK_S, wait_until
from tests.support.ports import nobody
from tests.support.process import WholePart, lakelog
from tests.support.readers import by_deltalake, consumed

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SETTINGS = (
    "lake.flush_ms=200",
    "lake.flush_max_ms=200",
    "lake.follow_ms=50",
    "lake.table_delete_delay_ms=100",
    "lake.retention_check_ms=200",
    "wal.idle_seal_ms=100",
    "groups.initial_rebalance_delay_ms=0",
)
CUSTOMER = b"customer-4711"
UNDO = re.search(
    r"`(SET TBLPROPERTIES \('delta.enableRowTracking'[^`]+)`", PAGES["operate"]
)


class House:
    """`lakelog up` in a directory, and somebody who types beside it."""

    def __init__(self, directory: Path, metastore: str) -> None:
        self.directory, self.metastore = directory, metastore
        self.up = WholePart(directory / "lakelog-data", *SETTINGS)
        self.left = {one.name: one for one in blocks() if "lake" in one.marks}
        self.offset = 0
        self.up.start()

    def take(self, page: str, first: str) -> Block:
        """The block of a page that begins so; it is taken once."""
        [name] = [one for one in self.left if one[0] == page and one[1] == first]
        return self.left.pop(name)

    def type(self, page: str, first: str) -> str:
        block = self.take(page, first)
        return self.run(block.code, block.language)

    def run(self, code: str, language: str = "sh") -> str:
        bootstrap, admin = self.up.bootstrap, self.up.facts["admin"]
        typing = Typing(self.directory, bootstrap, admin, self.metastore)
        return typing.run(language, code)

    def produce(self, count: int, key: bytes = b"k") -> None:
        rows = [
            (key, b"%d of %s" % (self.offset + n, key), None, 0) for n in range(count)
        ]
        produce_all(self.up.bootstrap, "orders", rows)
        self.offset += count

    def compact(self) -> None:
        words = ("--data-dir", str(self.up.data_dir), "--timeout", str(STUCK_S))
        lakelog("compact", "orders", *words)

    def rows(self) -> list[int]:
        return sorted(row[1] for row in by_deltalake(self.table))

    @property
    def table(self) -> str:
        return str(self.up.data_dir / "tables" / "orders")

    def offsets(self) -> list[int]:
        return [row[1] for row in consumed(self.up.bootstrap, "orders")]

    def has_log(self, number: int) -> bool:
        """Whether segments have records of a topic; a rebuild would ask whose."""
        with found_log(self.up.data_dir / "wal") as log:
            return any(topic == number for topic, _ in log.held)

    def health(self) -> str:
        with urlopen(f"{self.up.facts['admin']}/v1/health") as answer:
            return json.dumps(json.load(answer))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with nobody() as metastore:
        pass
    made = House(tmp_path_factory.mktemp("guide"), metastore)
    for topic in ("orders", "others"):
        create(made.up.bootstrap, topic)
    yield made
    made.up.end()


def test_records_are_asked_for_and_deleted_by_sql(house: House) -> None:
    house.produce(30)
    house.type("query", "lakelog compact orders")
    assert house.rows() == list(range(30))
    first = 'lakelog sql "SELECT count(*), max(timestamp) FROM lakelog.orders"'
    said = house.type("query", first)
    assert re.match(r"count.*\n30 ", said), said
    assert len(re.findall(r"^\d+ of k$", said, re.MULTILINE)) == 10
    assert re.search(r"orders\W+0\W+30\W+30\W+0", said), said
    assert house.rows() == []
    house.produce(40)
    house.compact()
    first = 'lakelog table orders --sql "DELETE FROM orders WHERE offset < 1000"'
    house.type("operate", first)
    assert house.rows() == []


def test_a_session_of_ones_own_knows_the_tables_by_name(house: House) -> None:
    house.produce(10)
    house.compact()
    serving = house.take("query", "lakelog metastore --listen 127.0.0.1:9083").code
    [first] = [one for page, one in house.left if one.startswith("spark-sql")]
    asking = house.take("query", first).code
    begun = f"set -m\n{serving.strip()} &\ntrap 'kill %1' EXIT\nset +m\n"
    code = begun + asking
    said = house.run(code).splitlines()
    assert [one for one in said if not one.startswith("ready")][:1] == ["10"], said
    [first] = [one for _, one in house.left if "ALTER TABLE" in one]
    house.type("operate", first)
    properties = deltalake.DeltaTable(house.table).metadata().configuration
    assert properties["delta.deletedFileRetentionDuration"] == "interval 6 hours"


def test_a_customer_is_erased(house: House) -> None:
    house.produce(3, CUSTOMER)
    house.produce(5)
    house.compact()
    said = house.type("operate", "lakelog erase orders --key customer-4711 --dry-run")
    assert "3" in said
    assert CUSTOMER not in {row[4] for row in by_deltalake(house.table)}
    assert CUSTOMER not in {row[4] for row in consumed(house.up.bootstrap, "orders")}


def test_a_stuck_topic_is_told_and_undone_as_the_page_says(house: House) -> None:
    assert UNDO is not None
    house.produce(25)
    house.compact()
    features = [TableFeatures.RowTracking, TableFeatures.DomainMetadata]
    table = deltalake.DeltaTable(house.table)
    table.alter.add_feature(features, allow_protocol_versions_increase=True)
    house.produce(7)
    seen = "lakelog table orders\ncurl -fsS http://127.0.0.1:8082/v1/health\n"
    assert f"```sh run\n{seen}```" in PAGES["operate"]
    wait_until(lambda: "rowTracking" in house.run(seen))
    before = house.rows()
    assert house.offsets()[-7:] == list(range(house.offset - 7, house.offset))
    produce_all(house.up.bootstrap, "others", [(b"k", b"v", None, 0)])
    others = str(house.up.data_dir / "tables" / "others")
    first = Path(others) / "_delta_log" / f"{1:020}.json"
    wait_until(first.exists)
    assert len(by_deltalake(others)) == 1
    assert house.rows() == before
    undo = f"ALTER TABLE lakelog.orders {UNDO[1]}".replace("\n", " ")
    lakelog("sql", "--write", undo, "--data-dir", str(house.up.data_dir))
    house.type("operate", "lakelog compact orders")
    assert house.rows()[-7:] == list(range(house.offset - 7, house.offset))
    wait_until(lambda: "rowTracking" not in house.health())


def test_records_before_an_offset_are_given_up(house: House) -> None:
    said = house.type("operate", "lakelog topic trim orders --partition 0 --before 20")
    assert said.split()[-1] == "20"


def test_a_deleted_topic_and_a_lost_catalog_come_back(house: House) -> None:
    kept = house.offsets()
    assert kept
    lakelog("topic", "delete", "orders", "--bootstrap", house.up.bootstrap)
    wait_until(lambda: not Path(house.table).exists())
    house.up.stop()
    house.type("operate", "lakelog undelete orders")
    house.up.start()
    wait_until(lambda: house.offsets() == kept)
    wait_until(lambda: not house.has_log(number=1))  # as the deleted one was known
    house.up.stop()
    for file in house.up.data_dir.glob("catalog.db*"):
        file.rename(house.directory / file.name)
    house.type("operate", "lakelog rebuild --dry-run")
    house.up.start()
    wait_until(lambda: house.offsets() == kept)
    assert not house.left, "no story types these"

"""What is in the metastore follows the data directory, broker or none."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from admin_api.metastore.content import KEPT_MS, Content
from admin_api.metastore.thrift import STRUCT, field
from broker.catalog.errors import CatalogError
from broker.status.file import encode, path_of
from broker.status.schema import BrokerStatus
from tests.support.clock import ManualClock
from tests.support.laked import id_of, make_table, make_topic
from tests.support.metastore import asked, rows_of, taken_apart
from tests.support.ports import nobody
from tests.support.tables import Writer


class Seen:
    """What a metastore says at a moment."""

    def __init__(self, data_dir: Path) -> None:
        self.clock = ManualClock(0)
        self.content = Content(data_dir, self.clock)

    def tables(self, database: str = "lakelog") -> list[str]:
        return asyncio.run(self.content.tables(database))

    def table(self, name: str, database: str = "lakelog") -> Any:
        found = asyncio.run(self.content.table(database, name))
        if found is None:
            return None
        return taken_apart(asked("x", field(STRUCT, 1, found)))[1][1]

    def state(self) -> Any:
        return rows_of(self.table("tables")[10].decode())


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    for number, topic in enumerate(["flights", "Orders", "orders"]):
        make_table(tmp_path, topic, topic_id=id_of(number))
    return Seen(tmp_path)


def test_tables_are_where_their_topics_are(seen: Seen, tmp_path: Path) -> None:
    assert seen.tables() == ["flights", "orders", "tables", "~orders"]
    assert seen.tables("default") == []
    place = f"file:{tmp_path}/tables/~orders".encode()
    assert seen.table("~Orders")[7][2] == place
    assert seen.table("flights", "default") is None


def test_a_topic_is_there_with_its_first_records(seen: Seen, tmp_path: Path) -> None:
    make_topic(tmp_path, "later", topic_id=id_of(7))
    assert seen.table("later") is None
    assert "later" not in seen.tables()
    assert [r["table_name"] for r in seen.state() if r["topic"] == "later"] == [
        None
    ] * 2
    earlier = Writer(str(tmp_path / "tables"), "later", id_of(8))
    assert seen.table("later") is None, "it is an earlier topic's of that name"
    shutil.rmtree(earlier.path)
    Writer(str(tmp_path / "tables"), "later", id_of(7))
    assert seen.table("LATER")[1] == b"later"


def test_a_link_that_leads_elsewhere_is_no_table(seen: Seen, tmp_path: Path) -> None:
    make_topic(tmp_path, "linked", topic_id=id_of(7))
    elsewhere = tmp_path / "elsewhere"
    os.makedirs(elsewhere / "_delta_log")
    (tmp_path / "tables" / "linked").symlink_to(elsewhere)
    assert seen.table("linked") is None


def test_the_state_of_all_is_looked_at_again_after_a_second(
    seen: Seen, tmp_path: Path
) -> None:
    def topics() -> set[str]:
        return {row["topic"] for row in seen.state()}

    before = topics()
    assert before == {"flights", "Orders", "orders"}
    make_topic(tmp_path, "later", topic_id=id_of(7))
    assert topics() == before
    seen.clock.advance(KEPT_MS + 1)
    assert topics() == {*before, "later"}


def test_databases(seen: Seen) -> None:
    assert seen.content.databases() == ["default", "lakelog"]
    assert seen.content.database("LAKELOG")
    assert seen.content.database("other") is None


def test_without_a_data_directory_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CatalogError):
        Seen(tmp_path).tables()


def test_the_second_of_the_state_begins_when_it_is_there(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands of tables it takes longer than a second to be made."""
    names, looked = seen.content._lake.names, []

    def slow() -> list[str]:
        looked.append(seen.clock.advance(5 * KEPT_MS))
        return names()

    monkeypatch.setattr(seen.content._lake, "names", slow)
    assert seen.state() == seen.state()
    assert len(looked) == 1
    seen.clock.advance(KEPT_MS + 1)
    seen.state()
    assert len(looked) == 2


def test_many_tables_are_looked_up_with_as_many_questions_as_one(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, asked_for = seen.content._lake.read, []

    def counted(query: Any) -> Any:
        asked_for.append(query)
        return read(query)

    monkeypatch.setattr(seen.content._lake, "read", counted)
    names = [f"~nobody-{n}" for n in range(100)]
    wanted = ["ORDERS", *names, "flights", "orders", "~orders"]
    found = asyncio.run(seen.content.named("Lakelog", wanted))
    assert len(found) == 3
    assert len(asked_for) == 2
    assert asyncio.run(seen.content.named("default", wanted)) == []


def test_a_broker_that_comes_back_elsewhere_is_asked_there(
    seen: Seen, tmp_path: Path
) -> None:
    def asked_at(kafka: str, state: str = "serving") -> str | None:
        path = path_of(tmp_path, BrokerStatus)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode(BrokerStatus(kafka=kafka, state=state)))
        found = seen.content._broker()
        return None if found is None else found.bootstrap

    with nobody() as first, nobody() as second:
        for address in (first, second):
            assert asked_at(address) == address
        assert asked_at(second, "stopping") is None

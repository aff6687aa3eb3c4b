"""Catalog and Delta logs, read without a broker."""

import subprocess
import sys

import pytest

from admin_api import lake as lake_module
from admin_api.lake import Lake
from admin_api.problems import Problem, problem_of
from broker.catalog import topics
from broker.catalog.catalog import Catalog
from broker.catalog.errors import CatalogError
from lakehouse.errors import LakehouseError, LogDamaged, TableMissing
from tests.support.laked import id_of, make_table, make_topic
from tests.support.patience import STUCK_S
from tests.support.tables import Writer


def test_topics_are_found_with_where_their_logs_start(tmp_path):
    make_topic(tmp_path, "b", topic_id=id_of(1))
    topic = make_topic(tmp_path, "a", topic_id=id_of(2))
    lake = Lake(tmp_path)
    assert lake.names() == ["a", "b"]
    assert lake.topic("a") == topic
    assert lake.topics(["a", "nobody"]) == [(topic, {})]
    with pytest.raises(Problem, match="There is no topic nobody") as caught:
        lake.topic("nobody")
    assert caught.value.error_code == 40403


@pytest.mark.parametrize("one_by_one_max", [0, 200])
def test_of_many_topics_the_same_is_found_as_of_a_few(
    tmp_path, monkeypatch, one_by_one_max
):
    monkeypatch.setattr(lake_module, "FOUND_ONE_BY_ONE_MAX", one_by_one_max)
    b = make_topic(tmp_path, "b", topic_id=id_of(1))
    a = make_topic(tmp_path, "a", topic_id=id_of(2))
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        catalog.change(
            lambda connection: topics.set_log_start(connection, {(a.number, 1): 7})
        )
    found = Lake(tmp_path).topics(["b", "nobody", "a"])
    assert found == [(b, {}), (a, {1: 7})]


def test_the_id_of_its_cluster_is_in_the_catalog(tmp_path):
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        assert Lake(tmp_path).cluster_id() == catalog.cluster_id


@pytest.mark.parametrize("content", [None, b"not a catalog at all" * 100])
def test_without_a_catalog_it_says_so(tmp_path, content):
    if content is not None:
        (tmp_path / "catalog.db").write_bytes(content)
    with pytest.raises(CatalogError) as caught:
        Lake(tmp_path).names()
    assert problem_of(caught.value).error_code == 50302
    assert str(tmp_path) in str(caught.value)


def test_a_table_is_read_now_and_as_it_was(tmp_path):
    writer = make_table(tmp_path, "orders")
    writer.add(0, 0, 5)
    lake = Lake(tmp_path)
    topic = lake.topic("orders")
    assert lake.snapshot(topic).version == 1
    assert lake.snapshot_at(topic, 0).files == {}
    assert lake.place(topic) == writer.path


def test_the_table_of_an_earlier_topic_is_not_this_ones(tmp_path):
    topic = make_topic(tmp_path, "orders", topic_id=id_of(2))
    Writer(str(tmp_path / "tables"), "orders", id_of(1))
    with pytest.raises(TableMissing, match="orders has no table yet"):
        Lake(tmp_path).snapshot(topic)


def test_whatever_an_owner_did_is_one_kind_of_error(tmp_path):
    topic = make_topic(tmp_path, "orders")
    log = tmp_path / "tables" / "orders" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text('{"metaData": {"schemaString": 5}}')
    with pytest.raises(LakehouseError):
        Lake(tmp_path).snapshot(topic)
    (log / f"{0:020d}.json").unlink()
    (log / f"{0:020d}.json").mkdir()
    with pytest.raises(LogDamaged) as caught:
        Lake(tmp_path).snapshot(topic)
    assert problem_of(caught.value).status == 409


def test_a_link_out_of_the_warehouse_is_not_followed(tmp_path):
    topic = make_topic(tmp_path, "orders")
    elsewhere = Writer(str(tmp_path), "elsewhere", topic.id.hex())
    (tmp_path / "tables" / "orders").symlink_to(elsewhere.path)
    with pytest.raises(LakehouseError, match="does not lie in"):
        Lake(tmp_path).snapshot(topic)


def test_who_asks_for_no_table_loads_nothing_heavy():
    program = (
        "import sys, admin_api.app; "
        "print(sorted({'sqlalchemy', 'pyarrow', 'deltalake'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=STUCK_S
    )
    assert done.stdout == "[]\n", done.stderr

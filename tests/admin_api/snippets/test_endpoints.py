"""Snippets over HTTP."""

from lakehouse.log.delta_log import load
from tests.support.bitmaps import delete_rows
from tests.support.laked import make_table, make_topic


def test_each_engine_has_code_for_this_very_table(lonely):
    writer = make_table(lonely.data_dir, "orders")
    found = lonely.get("/v1/tables/orders/snippets").json()
    assert found["location"] == writer.path
    assert [one["engine"] for one in found["data"]] == [
        "spark-sql",
        "pyspark",
        "deltalake",
        "polars",
        "duckdb",
    ]
    assert all(writer.path in one["code"] for one in found["data"])


def test_what_the_table_asks_of_readers_now_is_said(lonely):
    writer = make_table(lonely.data_dir, "vectors")
    writer.add(0, 0, 8)
    url = "/v1/tables/vectors/snippets"
    before = lonely.get(url).json()
    assert before["reader_features"] == []
    assert {one["note"] for one in before["data"]} == {None}
    [path] = load(writer.path).files
    delete_rows(writer, {path: [1]})
    after = lonely.get(url).json()
    assert after["reader_features"] == ["deletionVectors"]
    notes = {one["engine"]: one["note"] for one in after["data"]}
    assert "deletion vectors" in notes["duckdb"]
    assert notes["pyspark"] is None


def test_a_table_that_is_not_there_cannot_be_opened(lonely):
    make_topic(lonely.data_dir, "new")
    answer = lonely.get("/v1/tables/new/snippets")
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40405)

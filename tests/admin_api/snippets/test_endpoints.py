"""Snippets over HTTP."""

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


def test_a_table_that_is_not_there_cannot_be_opened(lonely):
    make_topic(lonely.data_dir, "new")
    answer = lonely.get("/v1/tables/new/snippets")
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40405)

"""Commits over HTTP."""

import deltalake

from tests.support.laked import make_table, make_topic


def test_commits_come_in_pages_the_newest_first(lonely):
    writer = make_table(lonely.data_dir, "orders")
    for n in range(4):
        writer.add(0, n * 5, n * 5 + 5)
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    url, found = "/v1/tables/orders/commits?page_size=4", []
    while url:
        answer = lonely.get(url)
        assert answer.status_code == 200, answer.text
        found += answer.json()["data"]
        url = answer.json()["metadata"]["next"]
    assert [one["version"] for one in found] == [5, 4, 3, 2, 1, 0]
    assert (found[0]["operation"], found[0]["written_by"]) == ("DELETE", "other")
    assert found[1]["ranges"][0]["first_offset"] == 15


def test_tokens_that_are_not_ours_are_refused(lonely):
    make_table(lonely.data_dir, "orders")
    for token in ("bm8=", "LTE=", "4pGg", "x"):  # "no", "-1", a digit in a circle
        answer = lonely.get(f"/v1/tables/orders/commits?page_token={token}")
        assert (answer.status_code, answer.json()["error_code"]) == (400, 400)


def test_without_a_topic_or_a_table_it_is_a_404(lonely):
    make_topic(lonely.data_dir, "new")
    missing = lonely.get("/v1/tables/nobody/commits")
    assert (missing.status_code, missing.json()["error_code"]) == (404, 40403)
    empty = lonely.get("/v1/tables/new/commits")
    assert (empty.status_code, empty.json()["error_code"]) == (404, 40405)

"""What topics are called in SQL, where letters have no case."""

from hypothesis import given
from hypothesis import strategies as st

from admin_api.metastore.names import STATE, table_names, topic_of

LEGAL = st.text("aAbB._-1", min_size=1, max_size=4).filter(
    lambda name: name not in (".", "..")
)


def test_a_topic_is_called_by_its_name_in_small_letters() -> None:
    topics = ["flights", "Orders", "a.b", "x-1", "_hidden"]
    assert table_names(topics) == {
        "flights": "flights", "orders": "Orders", "a.b": "a.b", "x-1": "x-1",
        "_hidden": "_hidden",
    }  # fmt: skip


def test_of_two_the_one_in_small_letters_keeps_the_name() -> None:
    names = {"orders": "orders", "~orders": "Orders", "~o~rders": "ORders"}
    assert table_names(["Orders", "orders", "ORders"]) == names


def test_of_two_with_capitals_neither_has_it() -> None:
    topics = ["Orders", "ORDERS"]
    assert table_names(topics) == {"~orders": "Orders", "~o~r~d~e~r~s": "ORDERS"}
    assert topic_of("orders", topics) is None


def test_a_topic_that_is_called_as_the_view_has_another_name() -> None:
    assert table_names([STATE, "Tables"]) == {"tables~": STATE, "~tables": "Tables"}
    assert topic_of(STATE, [STATE, "Tables"]) is None


def test_the_name_of_its_directory_is_always_the_topics() -> None:
    for topics in (["Orders"], ["Orders", "orders"]):
        assert topic_of("~orders", topics) == "Orders"
        assert topic_of("ORDERS", topics) == topics[-1]
    assert topic_of("~x", ["x"]) is None


@given(st.lists(LEGAL, unique=True))
def test_each_topic_has_a_name_of_its_own(topics: list[str]) -> None:
    names = table_names(topics)
    assert sorted(names.values()) == sorted(topics)
    assert all(name == name.lower() for name in names)
    assert all(topic_of(name.upper(), topics) == topic for name, topic in names.items())

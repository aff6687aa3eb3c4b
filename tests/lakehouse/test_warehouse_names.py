"""A warehouse's name is plain, and a topic's configurations say it or none."""

from lakehouse.warehouse_names import CONFIG, NAME, name_of


def test_a_name_is_of_small_letters_digits_and_dashes() -> None:
    assert all(NAME.fullmatch(name) for name in ("fast", "2", "disk-2", "a" * 63))
    wrong = ("", "-a", "A", "a/b", "..", "a.b", "a b", "a" * 64, "a\n")
    assert not any(NAME.fullmatch(name) for name in wrong)


def test_a_topic_names_one_or_none() -> None:
    assert name_of(None) == name_of({}) == name_of({CONFIG: ""}) == ""
    assert name_of({CONFIG: "fast"}) == "fast"

"""A bounded cache: what goes first, and that each entry is made once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import NamedTuple, NoReturn

import pytest

from broker.lake.cache import Cache
from tests.support.patience import IDLE_S


class Thing(NamedTuple):
    size_bytes: int


def not_again() -> NoReturn:
    raise AssertionError("it was made already")


def kept(cache: Cache[Thing], keys: str) -> str:
    ready = "".join(key for key in keys if cache.is_ready(key))
    assert ready == "".join(key for key in keys if cache.holds(key))
    return ready


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = Cache[Thing](30)
    for key in "abc":
        cache.get(key, lambda: Thing(10))
    assert kept(cache, "abc") == "abc"
    assert cache.get("a", not_again) == Thing(10)
    cache.get("d", lambda: Thing(10))
    assert (kept(cache, "abcd"), cache.size_bytes) == ("acd", 30)
    cache.get("e", lambda: Thing(11))
    assert (kept(cache, "abcde"), cache.size_bytes) == ("de", 21)


def test_what_was_there_and_what_had_to_be_made_is_counted() -> None:
    cache = Cache[Thing](30)
    for key in "abaa":
        cache.get(key, lambda: Thing(10))
    assert (cache.hits, cache.misses) == (2, 2)


def test_what_is_there_is_had_without_making_it_and_was_used() -> None:
    cache = Cache[Thing](20)
    assert cache.kept("a") is None
    for key in "ab":
        cache.get(key, lambda: Thing(10))
    assert cache.kept("a") == Thing(10)
    cache.get("c", lambda: Thing(10))
    assert (kept(cache, "abc"), cache.hits, cache.misses) == ("ac", 1, 3)


def test_one_is_kept_however_large_and_goes_with_the_next() -> None:
    cache = Cache[Thing](30)
    cache.get("a", lambda: Thing(10))
    cache.get("b", lambda: Thing(100))
    assert (kept(cache, "ab"), cache.size_bytes) == ("b", 100)
    cache.get("c", lambda: Thing(1))
    assert (kept(cache, "abc"), cache.size_bytes) == ("c", 1)


def test_nothing_is_left_after_clearing() -> None:
    cache = Cache[Thing](30)
    cache.get("a", lambda: Thing(10))
    cache.clear()
    assert (kept(cache, "a"), cache.size_bytes) == ("", 0)
    cache.get("a", lambda: Thing(20))
    assert cache.size_bytes == 20


def test_who_comes_while_it_is_made_waits_for_it() -> None:
    cache, begun, go_on, made = Cache[Thing](30), Event(), Event(), list[int]()

    def make() -> Thing:
        begun.set()
        assert go_on.wait(IDLE_S)
        made.append(1)
        return Thing(10)

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(cache.get, "a", make)
        assert begun.wait(IDLE_S)
        assert cache.holds("a")
        assert not cache.is_ready("a")
        others = [pool.submit(cache.get, "a", make) for _ in range(2)]
        assert cache.get("b", lambda: Thing(1)) == Thing(1)  # which waits for nobody
        go_on.set()
        for one in others:
            assert one.result(IDLE_S) is first.result(IDLE_S)
    assert made == [1]
    assert cache.size_bytes == 11


def test_what_could_not_be_made_is_told_and_made_anew() -> None:
    cache = Cache[Thing](30)

    def broken() -> NoReturn:
        raise ValueError("damaged")

    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"):
            cache.get("a", broken)
        assert not cache.holds("a")
    assert cache.get("a", lambda: Thing(10)) == Thing(10)

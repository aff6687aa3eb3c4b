"""The demo's proof: equal only if every record is equal."""

import pytest

from infra.demo.fingerprint import Fingerprint


class Message:
    """What a client hands out."""

    def __init__(self, offset=0, value=b"v", key=b"k", headers=None, at=(1, 5), part=0):
        self._found = part, offset, at, key, value, headers

    def partition(self):
        return self._found[0]

    def offset(self):
        return self._found[1]

    def timestamp(self):
        return self._found[2]

    def key(self):
        return self._found[3]

    def value(self):
        return self._found[4]

    def headers(self):
        return self._found[5]


def over(*messages: Message) -> Fingerprint:
    found = Fingerprint()
    for message in messages:
        found.consumed(message)
    return found


def test_the_order_of_arrival_does_not_matter():
    one, two = Message(0), Message(1, b"w")
    assert over(one, two).partitions() == over(two, one).partitions()


def test_what_was_produced_equals_what_is_consumed():
    headers = [("a", b"1"), ("a", b"2")]
    sent = Fingerprint()
    sent.acknowledged(Message(3, None, None), b"k", b"v", headers)
    assert sent.partitions() == over(Message(3, headers=headers)).partitions()


@pytest.mark.parametrize(
    "other",
    [
        Message(1),
        Message(value=b""),
        Message(value=None),
        Message(key=b""),
        Message(key=None),
        Message(headers=[("a", b"")]),
        Message(headers=[("a", None)]),
        Message(at=(2, 5)),
        Message(at=(1, 6)),
        Message(part=1),
        Message(key=b"kv", value=b""),
    ],
)
def test_any_difference_is_seen(other):
    assert over(Message()).partitions() != over(other).partitions()


def test_a_record_that_came_twice_and_one_that_did_not_come_are_seen():
    assert over(Message(0), Message(0)).twice() == 1
    assert over(Message(0), Message(1)).twice() == 0
    assert over(Message(0)).partitions() != over(Message(0), Message(1)).partitions()

"""Client instances: who may ask and push when, and how much of it is kept."""

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.process import telemetry as module
from broker.runtime.process.telemetry import (
    CODECS,
    Instance,
    Subscription,
    Telemetry,
    subscription_of,
)

EVERY_SECOND = Subscription(7, 1_000, ("a",))
ID = b"i" * 16


def instance(telemetry: Telemetry, instance_id: bytes = ID) -> Instance:
    return telemetry.put(instance_id, "c", EVERY_SECOND, telemetry.version)


def code_of(call, *given, **named) -> int:
    try:
        call(*given, **named)
    except KafkaError as refused:
        return int(refused.code)
    return 0


def push(telemetry, one, now_ms, number=7, codec=0, size=1, *, ends=False) -> int:
    return code_of(
        telemetry.check_push, one, number, codec, size, 100, ends=ends, now_ms=now_ms
    )


def test_who_asks_before_its_time_is_throttled():
    telemetry = Telemetry()
    one = instance(telemetry)
    asked = [code_of(telemetry.ask, one, ms) for ms in (5, 1_004, 1_005)]
    assert asked == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0]


def test_who_pushes_before_its_time_is_throttled_unless_it_asked_or_ends():
    telemetry = Telemetry()
    one = instance(telemetry)
    telemetry.ask(one, 5)
    assert push(telemetry, one, 6) == 0
    assert push(telemetry, one, 1_005) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(telemetry, one, 1_006) == 0
    assert push(telemetry, one, 1_007, ends=True) == 0
    for ends in (True, False):
        found = push(telemetry, one, 99_000, ends=ends)
        assert found == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"number": 8}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"codec": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"codec": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_who_errs_may_ask_again_at_once(wrong, code):
    telemetry = Telemetry()
    one = instance(telemetry)
    telemetry.ask(one, 5)
    assert push(telemetry, one, 6, **wrong) == code
    assert code_of(telemetry.ask, one, 7) == 0
    again = code_of(telemetry.ask, one, 8)
    assert again == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_too_much_is_refused():
    telemetry = Telemetry()
    one = instance(telemetry)
    assert push(telemetry, one, 6, size=101) == ErrorCode.TELEMETRY_TOO_LARGE
    assert all(
        push(telemetry, one, ms * 10**6, codec=c) == 0 for ms, c in enumerate(CODECS, 1)
    )


def test_an_instance_whose_subscription_is_another_now_is_not_known():
    telemetry = Telemetry()
    one = instance(telemetry)
    assert telemetry.known(ID) is one
    telemetry.version += 1
    assert telemetry.known(ID) is None
    assert instance(telemetry) is one
    assert telemetry.known(ID) is one


def test_a_subscription_is_what_all_that_match_ask_for():
    none = subscription_of(ID, [])
    assert none[1:3] == (300_000, ())
    some = subscription_of(
        ID, [{"metrics": "b,a", "interval.ms": "500"}, {"metrics": "c"}]
    )
    assert some[1:3] == (500, ("a", "b", "c"))
    everything = subscription_of(ID, [{"metrics": "a"}, {"metrics": "*"}])
    assert everything.metrics == ("*",)
    numbers = {
        one.id for one in (none, some, everything, subscription_of(b"j" * 16, []))
    }
    assert len(numbers) == 4
    assert all(-(1 << 31) <= number < 1 << 31 for number in numbers)


def test_the_one_that_was_silent_for_longest_is_forgotten(monkeypatch):
    monkeypatch.setattr(module, "INSTANCES_MAX", 3)
    monkeypatch.setattr(module, "BYTES_MAX", 10 + 3 * len("c"))
    telemetry = Telemetry()
    a, b, c = (instance(telemetry, name * 16) for name in (b"a", b"b", b"c"))
    telemetry.ask(a, 5)
    instance(telemetry, b"d" * 16)
    assert telemetry.known(b.id) is None
    telemetry.keep(b, b"x" * 100)  # it was forgotten: nothing is kept
    telemetry.keep(a, b"x" * 6)
    telemetry.keep(a, b"x" * 5)
    telemetry.keep(c, b"x" * 5)
    assert [one.id for one in telemetry.instances()] == [c.id, a.id, b"d" * 16]
    telemetry.keep(a, b"x" * 6)
    assert [one.metrics for one in telemetry.instances()] == [b"x" * 6, b""]


def test_names_and_what_instances_are_asked_for_count_as_well(monkeypatch):
    monkeypatch.setattr(module, "BYTES_MAX", 1_000)
    telemetry = Telemetry()
    asked = subscription_of(ID, [{"metrics": ",".join("abcde"), "interval.ms": "500"}])
    assert 5 * module.NAME_BYTES <= asked.bytes < 500
    made = [
        telemetry.put(bytes([number]) * 16, "c" * 100, asked, 0) for number in range(9)
    ]
    assert list(telemetry.instances()) == made[-2:]
    telemetry.keep(made[-1], b"x" * 200)
    assert list(telemetry.instances()) == made[-1:]
    larger = asked._replace(bytes=2_000)
    telemetry.put(made[-1].id, "c", larger, 1)
    assert list(telemetry.instances()) == []
    telemetry.keep(made[-1], b"x")  # whoever was forgotten leaves nothing behind
    telemetry.put(b"z" * 16, "c" * 300, asked, 1)
    telemetry.put(b"y" * 16, "c", asked, 1)
    assert [one.id[:1] for one in telemetry.instances()] == [b"z", b"y"]


def test_a_new_id_is_a_uuid_of_chance():
    made = Telemetry(lambda count: b"\xff" * count).new_id()
    assert (made[6] >> 4, made[8] >> 6) == (4, 2)

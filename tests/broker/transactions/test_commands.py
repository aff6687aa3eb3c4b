"""The commands: what is not said means nothing is expected and nothing is brought."""

from broker.transactions.commands import Add, End, InitProducer, TimerKey, Written


def test_an_init_without_fields_is_that_of_a_new_instance() -> None:
    command = InitProducer(1_000)
    assert (command.producer_id, command.producer_epoch) == (-1, -1)
    assert command.new_producer_id == -1


def test_version_one_is_what_a_request_without_a_version_speaks() -> None:
    assert (Add(1, 0).version, End(1, 0, True).version) == (1, 1)
    assert Add(1, 0).partitions == Add(1, 0).groups == frozenset()


def test_a_write_has_succeeded_unless_a_code_says_otherwise() -> None:
    assert Written(3).code == 0


def test_timers_have_names_that_differ() -> None:
    assert len(set(TimerKey)) == len(list(TimerKey)) == 2

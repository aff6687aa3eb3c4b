"""What is a reason, what a warning."""

from admin_api.health.reasons import NO_BROKER, NO_COMPACTOR, problems_of, warnings_of
from broker.status.schema import BrokerStatus, CompactorStatus

BROKER = BrokerStatus(problems=("full",), warnings=("slow",))
COMPACTOR = CompactorStatus(problems=("stuck",))


def test_a_part_that_is_not_there_is_a_reason_or_a_warning():
    assert problems_of(None) == (NO_BROKER,)
    assert warnings_of(None, None) == [NO_COMPACTOR]


def test_what_the_parts_say_is_passed_on():
    assert problems_of(BROKER) == ("full",)
    assert warnings_of(BROKER, COMPACTOR) == ["slow", "stuck"]


def test_a_table_that_an_erasure_holds_is_a_warning_that_advises_nothing():
    held = CompactorStatus(holds={"orders": 1_700_000_000_123}, erased=("orders",))
    assert warnings_of(BrokerStatus(), held) == [
        "orders: lakelog erase holds its table, and records wait in the log until it "
        "ends (if it was killed, until 2023-11-14T22:13:20+00:00)"
    ]


def test_a_table_that_its_owner_holds_is_a_warning():
    held = CompactorStatus(holds={"orders": 1_700_000_000_123})
    assert warnings_of(BrokerStatus(), held) == [
        "orders: its owner holds its table until 2023-11-14T22:13:20+00:00, and "
        "records wait in the log (lakelog table orders --release)"
    ]

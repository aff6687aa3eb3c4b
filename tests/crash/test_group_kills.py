"""A group goes on exactly where its last answered commit put it."""

import pytest

from tests.crash.groups import Member, committed
from tests.crash.house import HITS
from tests.crash.workload import running, tell, wait_for

pytestmark = [pytest.mark.crash, pytest.mark.shared_out("kills of a broker", 6)]


def test_a_member_that_comes_after_a_kill_starts_at_the_last_commit(build):
    house = build().start()
    broker, load = house.broker, house.load("p", pause_s=0.01)
    before: dict[int, int] = {}
    with running(load):
        for _ in range(2 * HITS):
            member = Member(broker.bootstrap, "t", "readers")
            member.start()
            wait_for(lambda member=member: len(member.acknowledged) == 3)
            assert {p: before.get(p, 0) for p in range(3)} == member.starts
            member.finish()  # so that nothing is under way, and all is known
            broker.kill()
            broker.start()
            before = committed(broker.bootstrap, "t", "readers", 3)
            assert before == member.acknowledged == member.asked
    house.check()
    tell("groups", 2 * HITS, [load])

"""What a broker answers at the corners of its groups, asked over raw frames.

``table(bootstrap)`` prepares groups of each kind (unknown, deleted, simple, emptied,
stable, static, between join and sync, rebalancing) and asks each group API about them
in each version. The answers come as lines in which the names that a broker makes up
stand as ``M`` and ``G``, so that two brokers' tables can be compared; states and
versions that are answered alike share a line. Of a refused join and of a simple group's
last offset Kafka leaves an empty group behind for a while, and Lakelog none: that is
not asked.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.support.peer import Peer
from tests.support.reached import telling
from tests.support.wire import frame_of

PATIENCE_S = 60.0
VERSION = re.compile(r"v\d+")
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x07flights" + b"\x00" * 4
STATES = (
    "nameless", "unknown", "deleted", "simple", "emptied", "knocked", "stable",
    "static", "completing", "preparing",
)  # fmt: skip
GONE = ("nameless", "unknown", "deleted")
APIS = (
    "heartbeat", "sync", "joins", "leave", "commits", "fetches", "describes",
    "deletes", "offset_deletes",
)  # fmt: skip


@telling
def table(bootstrap: str) -> list[str]:
    """What a broker answers, as sorted lines ``case: answer   [versions] [states]``."""
    corners = Corners(bootstrap)
    try:
        corners.wait_ready()
        return _lines(corners.answers())
    finally:
        corners.close()


def _lines(answers: Iterable[tuple[str, str, Any]]) -> list[str]:
    by_case: dict[tuple[str, str], dict[str, list[str]]] = {}
    for case, state, answer in answers:
        versions = [word for word in case.split() if VERSION.fullmatch(word)]
        plain = " ".join(word for word in case.split() if word not in versions)
        of_state = by_case.setdefault((plain, repr(answer)), {})
        of_state.setdefault(state, []).extend(versions)
    lines = []
    for (case, answer), states in by_case.items():
        alike: dict[str, list[str]] = {}
        for state, versions in states.items():
            alike.setdefault(span(versions), []).append(state)
        for those, names in alike.items():
            lines.append(f"{case} {those}: {answer}   {' '.join(names)}")
    return sorted(lines)


def span(versions: list[str]) -> str:
    """``v0-2`` for v0, v1 and v2."""
    numbers = sorted(int(version[1:]) for version in versions)
    if len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"v{numbers[0]}-{numbers[-1]}"
    return ",".join(f"v{number}" for number in numbers)


class Corners:
    """One broker, and a group of each kind on it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.run = os.urandom(3).hex()
        self.topic = f"corners-{self.run}"
        self.peer = self.connect()
        self.peer.create(self.topic)
        self.made = 0
        self.held: list[Peer] = []

    def connect(self) -> Peer:
        return Peer(self.bootstrap, PATIENCE_S)

    def wait_ready(self) -> None:
        """A Kafka makes its topic of offsets when it is first asked."""
        deadline = time.monotonic() + PATIENCE_S
        while _code(self.peer.ask(self.commit("ready", "", -1), 2)):
            assert time.monotonic() < deadline, "no coordinator"
            self.peer.prepare(FindCoordinatorRequest("ready", 0), 3)
            time.sleep(0.1)

    def close(self) -> None:
        for peer in (self.peer, *self.held):
            peer.socket.close()

    # -- groups of each kind --------------------------------------------------

    def group(self, state: str) -> tuple[str, str]:
        """A new group in this state; its id, and a member's (or ``nobody``)."""
        if state == "nameless":
            return "", "nobody"
        self.made += 1
        name = f"{state}-{self.run}-{self.made}"
        make: Callable[[str], str | None] = getattr(self, f"_{state}")
        return name, make(name) or "nobody"

    def _unknown(self, name: str) -> None:
        pass

    def _simple(self, name: str) -> None:
        self._committed(name)

    def _deleted(self, name: str) -> None:
        self._committed(name)
        (answer,) = self.peer.ask(DeleteGroupsRequest([name]), 2).results
        assert answer.error_code == 0, answer

    def _emptied(self, name: str) -> None:
        member = self._stable(name)
        self._committed(name, member, 1)
        (left,) = self.peer.ask(
            LeaveGroupRequest(name, members=[MemberIdentity(member)]), 3
        ).members
        assert left.error_code == 0

    def _knocked(self, name: str) -> str:
        answer = self.peer.ask(self.join(name), 4)
        assert answer.error_code == 79, answer
        return str(answer.member_id)

    def _stable(self, name: str, instance: str | None = None) -> str:
        member = self._completing(name, instance)
        mine = [SyncGroupRequestAssignment(member, b"all")]
        asked = SyncGroupRequest(name, 1, member, instance, assignments=mine)
        assert self.peer.ask(asked, 3).error_code == 0
        return member

    def _static(self, name: str) -> str:
        return self._stable(name, "i")

    def _completing(self, name: str, instance: str | None = None) -> str:
        asked = self.join(name, group_instance_id=instance)
        answer = self.peer.ask(asked, 5 if instance else 3)
        assert answer.error_code == 0, answer
        return str(answer.member_id)

    def _preparing(self, name: str) -> str:
        member = self._stable(name)
        other = self.connect()
        self.held.append(other)
        other.send(frame_of(self.join(name), 3))
        while self.state_of(name) != "PreparingRebalance":
            time.sleep(0.01)
        return member

    def state_of(self, name: str) -> str:
        (answer,) = self.peer.ask(DescribeGroupsRequest([name]), 5).groups
        return str(answer.group_state)

    def _committed(self, name: str, member: str = "", generation: int = -1) -> None:
        answer = self.peer.ask(self.commit(name, member, generation), 7)
        assert answer.topics[0].partitions[0].error_code == 0, answer

    # -- requests -------------------------------------------------------------

    def join(self, name: str, member: str = "", **fields: Any) -> JoinGroupRequest:
        return JoinGroupRequest(
            **{
                "group_id": name,
                "session_timeout_ms": 30_000,
                "rebalance_timeout_ms": 60_000,
                "member_id": member,
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequestProtocol("range", SUBSCRIPTION)],
            }
            | fields
        )

    def commit(
        self,
        name: str,
        member: str,
        generation: int,
        instance: str | None = None,
        topic: str | None = None,
        **fields: Any,
    ) -> OffsetCommitRequest:
        part = OffsetCommitRequestPartition(0, 5, **fields)
        asked = OffsetCommitRequestTopic(topic or self.topic, partitions=[part])
        return OffsetCommitRequest(name, generation, member, instance, topics=[asked])

    # -- what is asked --------------------------------------------------------

    def answers(self) -> Iterator[tuple[str, str, Any]]:
        """(case, state of the group, answer) of everything that is asked."""
        for state in STATES:
            for api in APIS:
                found: Iterator[tuple[str, Any]] = getattr(self, api)(state)
                for case, answer in found:
                    yield f"{api} {case}", state, answer

    def heartbeat(self, state: str) -> Iterator[tuple[str, Any]]:
        name, member = self.group(state)
        for version in range(5):
            for who in ("stranger", "", member):
                for generation in (-1, 0, 1, 7):
                    asked = HeartbeatRequest(name, generation, who)
                    code = self.peer.ask(asked, version).error_code
                    yield f"v{version} {self._who(who)} {generation}", code
        for who, instance in (("x", "i"), (member, "i"), (member, "j"), ("", "i")):
            asked = HeartbeatRequest(name, 1, who, instance)
            yield f"{self._who(who)} {instance}", self.peer.ask(asked, 4).error_code

    def sync(self, state: str) -> Iterator[tuple[str, Any]]:
        for version in range(6):
            name, member = self.group(state)
            for who, generation in (("x", 1), ("", 1), (member, 0), (member, -1)):
                asked = SyncGroupRequest(name, generation, who)
                if version == 5:
                    asked.protocol_type, asked.protocol_name = "consumer", "range"
                code = self.peer.ask(asked, version).error_code
                yield f"v{version} {self._who(who)} {generation}", code
        for kind, protocol in (
            ("consumer", "robin"), ("connect", "range"), (None, None), ("", ""),
            ("consumer", None),
        ):  # fmt: skip
            name, member = self.group(state)
            asked = SyncGroupRequest(name, 1, member, None, kind, protocol)
            yield f"{kind} {protocol}", self.peer.ask(asked, 5).error_code
        for who, instance in (("x", "i"), (member, "j"), ("", "i")):
            asked = SyncGroupRequest(name, 1, who, instance, "consumer", "range")
            yield f"{self._who(who)} {instance}", self.peer.ask(asked, 5).error_code

    def joins(self, state: str) -> Iterator[tuple[str, Any]]:
        protocols = [JoinGroupRequestProtocol("robin", SUBSCRIPTION)]
        cases: dict[str, tuple[int, dict[str, Any]]] = {
            "stranger v0": (0, {"member": "x"}),
            "stranger v9": (9, {"member": "x"}),
            "stranger static": (5, {"member": "x", "group_instance_id": "i"}),
            "another static": (5, {"member": "x", "group_instance_id": "j"}),
            "short session": (4, {"session_timeout_ms": 1}),
            "long session": (4, {"session_timeout_ms": 2_000_000}),
            "no protocols": (4, {"protocols": []}),
            "no type": (4, {"protocol_type": ""}),
            "short session, stranger": (4, {"session_timeout_ms": 1, "member": "x"}),
            "no protocols, stranger": (4, {"protocols": [], "member": "x"}),
            "no type, stranger": (4, {"protocol_type": "", "member": "x"}),
            "other type, stranger": (4, {"protocol_type": "connect", "member": "x"}),
            "other protocol, stranger": (7, {"protocols": protocols, "member": "x"}),
            "empty instance": (5, {"group_instance_id": "", "member": "x"}),
        }
        if state in ("stable", "static", "completing", "preparing"):
            cases |= {
                "other type": (4, {"protocol_type": "connect"}),
                "other protocol v3": (3, {"protocols": protocols}),
                "other protocol v7": (7, {"protocols": protocols}),
            }
        for case, (version, fields) in cases.items():
            name, _ = self.group(state)
            answer = self.peer.ask(self.join(name, **fields), version)
            yield case, _joined(answer)
            if state not in GONE:
                yield f"{case}, then", self.state_of(name)

    def leave(self, state: str) -> Iterator[tuple[str, Any]]:
        for version in range(3):
            name, member = self.group(state)
            for who in ("x", "", member):
                code = self.peer.ask(LeaveGroupRequest(name, who), version).error_code
                yield f"v{version} {self._who(who)}", code
        for version in range(3, 6):
            name, member = self.group(state)
            for case, who in {
                "nobody at all": [],
                "a stranger": [MemberIdentity("x")],
                "no name": [MemberIdentity("")],
                "instances": [MemberIdentity("", "j"), MemberIdentity("x", "j")],
                "a stranger's instance": [MemberIdentity("x", "i")],
                "a member, as another instance": [MemberIdentity(member, "j")],
                "a member, twice": [MemberIdentity(member), MemberIdentity(member)],
                "an instance": [MemberIdentity("", "i")],
            }.items():
                answer = self.peer.ask(LeaveGroupRequest(name, members=who), version)
                codes = [
                    (self._who(one.member_id), one.group_instance_id, one.error_code)
                    for one in answer.members
                ]
                yield f"v{version} {case}", (answer.error_code, codes)

    def commits(self, state: str) -> Iterator[tuple[str, Any]]:
        def code(asked: OffsetCommitRequest, version: int) -> int:
            return _code(self.peer.ask(asked, version))

        for who in ("x", "", "member"):
            for generation in (7, 1, 0, -1, -2):
                for version in (2, 9):
                    name, member = self.group(state)
                    by = member if who == "member" else who
                    asked = self.commit(name, by, generation)
                    yield f"v{version} {who} {generation}", code(asked, version)
        for who, instance, generation in (
            ("x", "i", 1), ("x", "j", 1), ("", "i", -1), ("", "j", -1), ("", "i", 1),
        ):  # fmt: skip
            name, _ = self.group(state)
            asked = self.commit(name, who, generation, instance)
            yield f"{who} {instance} {generation}", code(asked, 7)
        name, _ = self.group(state)
        yield "no topic", code(self.commit(name, "x", 7, topic="no-such-topic"), 7)
        yield "long", code(self.commit(name, "x", 7, committed_metadata="x" * 5000), 7)
        nothing = OffsetCommitRequest(name, 7, "x", topics=[])
        yield "no topics", len(self.peer.ask(nothing, 7).topics)

    def fetches(self, state: str) -> Iterator[tuple[str, Any]]:
        name, member = self.group(state)
        for version in range(1, 8):
            for topic in (self.topic, "no-such-topic"):
                topics = [OffsetFetchRequestTopic(topic, [0, 9])]
                answer = self.peer.ask(OffsetFetchRequest(name, topics), version)
                yield f"v{version} {topic[:5]}", (answer.error_code, _rows(answer))
            if version >= 2:
                answer = self.peer.ask(OffsetFetchRequest(name, None), version)
                yield f"v{version} all", (answer.error_code, _rows(answer))
        for version in (8, 9):
            for who, epoch in ((None, -1), ("x", -1), ("x", 1), (member, 1), ("", 0)):
                asked = OffsetFetchRequestGroup(name, who, epoch)
                asked.topics = [OffsetFetchRequestTopics(self.topic, bytes(16), [0])]
                request = OffsetFetchRequest(groups=[asked])
                if version == 8 and who is not None:
                    continue
                (answer,) = self.peer.ask(request, version).groups
                case = f"v{version} {who and self._who(who)} {epoch}"
                yield case, (answer.error_code, _rows(answer))
        asked = OffsetFetchRequestGroup(name, None, -1, None)
        for version in (8, 9):
            (answer,) = self.peer.ask(
                OffsetFetchRequest(groups=[asked]), version
            ).groups
            yield f"v{version} all", (answer.error_code, _rows(answer))

    def describes(self, state: str) -> Iterator[tuple[str, Any]]:
        name, _ = self.group(state)
        for version in range(7):
            (one,) = self.peer.ask(DescribeGroupsRequest([name], True), version).groups
            shown = sorted(
                (m.group_instance_id or "", m.member_metadata, m.member_assignment)
                for m in one.members
            )
            message = (one.error_message or "").replace(name or " ", "G")
            about = (one.group_state, one.protocol_type, one.protocol_data)
            allowed = one.authorized_operations
            yield f"v{version}", (one.error_code, message, *about, shown, allowed)
        for version in range(6):
            listed = self.peer.ask(ListGroupsRequest(), version).groups
            mine = [one for one in listed if one.group_id == name]
            yield (
                f"list v{version}",
                [(one.protocol_type, one.group_state, one.group_type) for one in mine],
            )
        for version in range(7):
            asked = FindCoordinatorRequest(name, 0, [name])
            found = self.peer.ask(asked, version)
            one = found.coordinators[0] if version >= 4 else found
            yield f"find v{version}", (one.error_code, one.error_message)

    def deletes(self, state: str) -> Iterator[tuple[str, Any]]:
        for version in range(3):
            name, _ = self.group(state)
            asked = DeleteGroupsRequest([name, name])
            results = self.peer.ask(asked, version).results
            yield f"v{version} twice", [one.error_code for one in results]
            (one,) = self.peer.ask(DeleteGroupsRequest([name]), version).results
            yield f"v{version} again", one.error_code
            yield f"v{version} then", self.state_of(name)

    def offset_deletes(self, state: str) -> Iterator[tuple[str, Any]]:
        self.peer.ask(CreateTopicsRequest([CreatableTopic("flights", 1, 1)]), 7)
        for topic in (self.topic, "no-such-topic", "flights"):
            name, _ = self.group(state)
            parts = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9)]
            asked = OffsetDeleteRequestTopic(topic, parts)
            answer = self.peer.ask(OffsetDeleteRequest(name, [asked]), 0)
            partitions = [p for t in answer.topics for p in t.partitions]
            codes = {p.partition_index: p.error_code for p in partitions}
            yield topic[:5], (answer.error_code, sorted(codes.items()))
        answer = self.peer.ask(OffsetDeleteRequest(name, []), 0)
        yield "no topics", (answer.error_code, len(answer.topics))

    def _who(self, member: str) -> str:
        return member if len(member) < 20 else "M"


def _code(answer: OffsetCommitResponse) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def _rows(answer: Any) -> list[Any]:
    return [
        (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata,
         p.error_code)
        for topic in answer.topics
        for p in topic.partitions
    ]  # fmt: skip


def _joined(answer: Any) -> tuple[Any, ...]:
    member = "M" if len(answer.member_id) > 20 else answer.member_id
    protocol = (answer.protocol_type, answer.protocol_name)
    return answer.error_code, member, answer.generation_id, *protocol, answer.leader

"""The plain requests of groups, topics and configurations (see ``plain_requests``)."""

import time
from collections.abc import Iterator
from typing import Any, Final

from broker.protocol.messages import offset_delete
from broker.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
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
from tests.support.admin_corners import PATIENCE_S, Asker, Case
from tests.support.batches import Record, make_batch
from tests.support.plain_requests import (
    LONG,
    NO_ID,
    NOWHERE,
    UNNAMEABLE,
    advertised,
    cluster,
    fetched,
    hostile,
    metadata,
    offsets,
    produced,
)
from tests.support.reached import telling

MEMBER_ID_REQUIRED: Final = 79
NAMES: Final = {
    "empty": "",
    "a space": " ",
    "control": "\x00\x01\x1b[2J\r\n\x7f",
    "unicode": "g\u00e9\U0001f642\u202e",
    "a path": "../../etc/passwd",
    "long": "x" * 32_767,
    "longer": "x" * 40_000,
    "longest": "x" * 65_535,
}
"""Names that no client should have; what is longer than 32,767 only compact strings
can say, and a Kafka closes the connection."""
LENGTH_MAX: Final = 32_767


def coordinators(asker: Asker) -> Iterator[Case]:
    for version in range(7):
        for kind in (0, 1, 2, 7, -1) if version else (0,):
            for case, key in NAMES.items():
                if len(key) > LENGTH_MAX and version < 3:
                    continue
                request = FindCoordinatorRequest(key, kind, [key])
                found(asker, f"coordinator, {kind}, {case}", request, version)
        if version >= 4:
            for case, keys in {
                "none": [],
                "twice": ["g", "g"],
                "two": ["g", ""],
            }.items():
                request = FindCoordinatorRequest("", 0, keys)
                found(asker, f"coordinators, {case}", request, version)
    yield from ()


def found(asker: Asker, case: str, request: Any, version: int) -> None:
    """Note where a coordinator is said to be; once a Kafka has made its topics."""
    deadline = time.monotonic() + PATIENCE_S
    while "error_code=15" in repr(answer := asker.ask(request, version)):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if answer != "closed":
        for one in (answer, *answer.coordinators):
            one.host = one.host and "here"
            one.error_message = ""
    asker.note(case, version, answer)


def lives(asker: Asker) -> Iterator[Case]:
    """A member joins, gets its assignment, beats, is described and leaves."""
    for version in range(10):
        asker.stand_ins.clear()
        _life(asker, version)
    yield from ()


def _life(asker: Asker, version: int) -> None:
    name = f"life-{version}-{asker.run}"
    asker.stand_ins[f"life-{version}-R"] = "life"

    def join(member: str) -> Any:
        asked = [JoinGroupRequestProtocol("range", b"mine")]
        request = JoinGroupRequest(
            name, 30_000, 60_000, member, None, "consumer", asked, "because"
        )
        return asker.ask(request, version)

    def tell(word: str, answer: Any, of: int) -> Any:
        asker.note(f"lives, {word}", of, answer)
        return answer

    answer = join("")
    if version >= 4:
        member = answer.member_id
        asker.stand_ins[member] = "M"
        tell("knocks", answer, version)
        answer = join(member)
    member = answer.member_id
    asker.stand_ins[member] = "M"
    tell("joins", answer, version)
    of = min(version, 5)
    mine = [SyncGroupRequestAssignment(member, b"all")]
    sync = SyncGroupRequest(name, 1, member, None, "consumer", "range", mine)
    tell("is given", asker.ask(sync, of), of)
    beat = min(version, 4)
    tell("beats", asker.ask(HeartbeatRequest(name, 1, member), beat), beat)
    of = min(version, 6)
    answer = asker.ask(DescribeGroupsRequest([name], version % 2 == 0), of)
    for group in answer.groups:
        for one in group.members:
            one.client_host = one.client_host and "/here"
    word = "described" if version % 2 else "described with operations"
    tell(word, answer, of)
    for filters in ({}, {"states_filter": ["Stable"]}, {"states_filter": ["empty"]},
                    {"types_filter": ["Classic"]}, {"types_filter": ["consumer"]},
                    {"types_filter": ["odd"]}, {"states_filter": ["odd"]}):  # fmt: skip
        of = min(version, 5)
        if (filters and of < 4) or ("types_filter" in filters and of < 5):
            continue
        answer = asker.ask(ListGroupsRequest(**filters), of)
        answer.groups = [one for one in answer.groups if one.group_id == name]
        tell(f"listed {filters}", answer, of)
    of = min(version, 2)
    tell("not deleted", asker.ask(DeleteGroupsRequest([name]), of), of)
    of = min(version, 5)
    leave = LeaveGroupRequest(name, member, [MemberIdentity(member, None, "enough")])
    tell("leaves", asker.ask(leave, of), of)
    tell("leaves again", asker.ask(leave, of), of)
    of = min(version, 2)
    tell("deleted", asker.ask(DeleteGroupsRequest([name]), of), of)
    tell("deleted again", asker.ask(DeleteGroupsRequest([name]), of), of)


def commits(asker: Asker) -> Iterator[Case]:
    topic, id_ = asker.create("commits", 2)
    for version in range(2, 11):
        group = f"commits-{version}-{asker.run}"
        asker.stand_ins = {f"commits-{version}-R": "group"}
        for case, place in {
            "one": (topic, id_, 0),
            "no partition": (topic, id_, 9),
            "no topic": (NOWHERE, NO_ID, 0),
            "unnameable": (UNNAMEABLE, bytes(16), 0),
        }.items():
            name, of, part = place
            one = OffsetCommitRequestPartition(part, 5, 0, -1, "m")
            asked = OffsetCommitRequestTopic(name, of, [one])
            request = OffsetCommitRequest(group, topics=[asked])
            asker.note(f"commits, {case}", version, asker.ask(request, version))
        of_group(asker, group, (topic, id_), min(version, 10))
    of_group(asker, group, (topic, id_), 1)
    yield from ()


def of_group(asker: Asker, group: str, topic: tuple[str, bytes], version: int) -> None:
    """Note what a group has committed, asked in each way."""
    for case, (name, id_) in {"here": topic, "nowhere": (NOWHERE, NO_ID)}.items():
        by_name = [OffsetFetchRequestTopic(name, [0, 1, 9])]
        by_group = [OffsetFetchRequestTopics(name, id_, [0, 1, 9])]
        request = OffsetFetchRequest(
            group, by_name, [OffsetFetchRequestGroup(group, None, -1, by_group)]
        )
        answer = asker.ask(request, version)
        asker.note(f"commits, fetched, {case}", version, answer)
    if version >= 2:
        request = OffsetFetchRequest(
            group, None, [OffsetFetchRequestGroup(group, None, -1, None)]
        )
        asker.note("commits, fetched, all", version, asker.ask(request, version))
    nobody = OffsetFetchRequest(
        "nobody", [], [OffsetFetchRequestGroup("nobody", None, -1, [])]
    )
    asker.note("commits, fetched, nobody's", version, asker.ask(nobody, version))


def names(asker: Asker) -> Iterator[Case]:
    """Groups and members that are called what nobody should be called; to the group
    without a name nothing is committed, which ``corners`` looks for."""
    topic, id_ = asker.create("names")
    for case, name in NAMES.items():
        fits = len(name) <= LENGTH_MAX
        protocols = [JoinGroupRequestProtocol("range", b"")]
        for version in (0, 5, 9) if fits else (9,):
            for word, request in {
                "group": JoinGroupRequest(
                    name, 30_000, 60_000, "x", None, "consumer", protocols
                ),
                "member": JoinGroupRequest(
                    "names", 30_000, 60_000, name or "x", None, "consumer", protocols
                ),
            }.items():
                answer = asker.ask(request, version)
                code = answer if answer == "closed" else int(answer.error_code)
                asker.note(f"names, join, {word}, {case}", version, code)
        for version in (2, 7, 10) if fits else (8, 10):
            one = OffsetCommitRequestPartition(0, 5, 0, -1, "")
            asked = [OffsetCommitRequestTopic(topic, id_, [one])]
            request = OffsetCommitRequest(name or "names", topics=asked)
            asker.note(f"names, commit, {case}", version, asker.ask(request, version))
            one = OffsetCommitRequestPartition(0, 5, 0, -1, name)
            asked = [OffsetCommitRequestTopic(topic, id_, [one])]
            request = OffsetCommitRequest("names", topics=asked)
            asker.note(f"names, metadata, {case}", version, asker.ask(request, version))
        for version in (0, 4) if fits else (4,):
            beat = HeartbeatRequest(name, 1, name)
            asker.note(f"names, beat, {case}", version, asker.ask(beat, version))
    yield from ()


def topics(asker: Asker) -> Iterator[Case]:
    for version in range(2, 8):
        asker.stand_ins = {f"topics-{version}-R": "made"}
        name = f"topics-{version}-{asker.run}"
        for case, one in {
            "plain": CreatableTopic(name, 1, 1),
            "there": CreatableTopic(name, 1, 1),
            "by default": CreatableTopic(f"{name}.d", -1, -1),
            "unnameable": CreatableTopic(UNNAMEABLE, 1, 1),
            "long": CreatableTopic(LONG, 1, 1),
            "no partitions": CreatableTopic(f"{name}.no", 0, 1),
            "odd": CreatableTopic(
                f"{name}.no", 1, 1, [], [CreatableTopicConfig("no.such", "x")]
            ),
        }.items():
            answer = asker.ask(CreateTopicsRequest([one], 60_000), version)
            for made in answer.topics:
                made.configs = len(made.configs or []) > 20
                if made.error_message:
                    made.error_message = "why"
            asker.note(f"topics, {case}", version, answer)
        wait_for(asker, name)
        _grown(asker, name, min(version - 2, 3))
        _trimmed(asker, name, min(version - 2, 2))
        _deleted(asker, name, version - 1)
    yield from ()


def wait_for(asker: Asker, name: str) -> None:
    while asker.peer.produce(name, make_batch([Record()])).error_code:
        time.sleep(0.05)


def _grown(asker: Asker, name: str, version: int) -> None:
    for case, count in {"two": 2, "two again": 2, "less": 1, "none": 0}.items():
        asked = CreatePartitionsRequest([CreatePartitionsTopic(name, count)], 60_000)
        answer = asker.ask(asked, version)
        for one in answer.results:
            one.error_message = bool(one.error_message)
        asker.note(f"partitions, {case}", version, answer)


def _trimmed(asker: Asker, name: str, version: int) -> None:
    for case, (of, part, offset) in {
        "to the start": (name, 0, 0),
        "to one": (name, 0, 1),
        "to the end": (name, 0, -1),
        "behind the end": (name, 0, 9),
        "below nothing": (name, 0, -2),
        "no partition": (name, 9, 0),
        "no topic": (NOWHERE, 0, 0),
    }.items():
        asked = [DeleteRecordsTopic(of, [DeleteRecordsPartition(part, offset)])]
        answer = asker.ask(DeleteRecordsRequest(asked, 30_000), version)
        asker.note(f"records, {case}", version, answer)


def _deleted(asker: Asker, name: str, version: int) -> None:
    for case, of in {"there": name, "again": name, "unnameable": UNNAMEABLE}.items():
        request = DeleteTopicsRequest([DeleteTopicState(of)], [of], 60_000)
        answer = asker.ask(request, version)
        for one in answer.responses:
            one.error_message = None
        asker.note(f"topics, deleted, {case}", version, answer)


def configs(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("configs")
    keys = ["cleanup.policy", "max.message.bytes", "no.such"]
    for version in range(3):
        change = [AlterableConfig("max.message.bytes", "5000")]
        asked = AlterConfigsRequest([AlterConfigsResource(2, topic, change)])
        asker.note("configs, altered", version, asker.ask(asked, version))
    time.sleep(asker.settle_s)
    for case, of, name in (
        ("here", 2, topic), ("nowhere", 2, NOWHERE), ("no kind", 9, "x"),
    ):  # fmt: skip
        for synonyms in (True, False):
            one = DescribeConfigsResource(of, name, keys)
            request = DescribeConfigsRequest([one], synonyms, True)
            for version in range(1, 5):
                answer = asker.ask(request, version)
                answer.results[0].error_message = ""
                asker.note(f"configs, {case}, synonyms {synonyms}", version, answer)
    yield from ()


def forgotten(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("forgotten")
    for case, name in {"nobody": "nobody", "nameless": ""}.items():
        part = offset_delete.OffsetDeleteRequestPartition(0)
        asked = [offset_delete.OffsetDeleteRequestTopic(topic, [part])]
        yield case, offset_delete.OffsetDeleteRequest(name, asked), (0,)


APIS: Final = (
    advertised, metadata, cluster, produced, fetched, offsets,
    coordinators, lives, commits, names, topics, configs, forgotten,
    hostile,
)  # fmt: skip


@telling
def table(bootstrap: str, settle_s: float = 0.0) -> list[str]:
    """What a broker answers, as sorted lines ``case   [versions]: answer``."""
    with Asker(bootstrap, settle_s) as asker:
        for api in APIS:
            asker.stand_ins.clear()
            asker.play(api.__name__, api(asker))
        return asker.table()

"""The requests of ``admin_corners``: of topics, partitions, directories, features."""

from collections.abc import Iterator
from typing import Any

from broker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from broker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from broker.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from broker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.describe_acls import DescribeAclsRequest
from broker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from broker.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from broker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from broker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from broker.protocol.messages.unregister_broker import UnregisterBrokerRequest
from broker.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from tests.support.admin_corners import Asker, Case
from tests.support.peer import Peer
from tests.support.reached import telling

NOWHERE, UNNAMEABLE, LONG = "no-such-topic", "a b", "x" * 32_000
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def leaders_of(peer: Peer, topic: str) -> list[int]:
    request = MetadataRequest([MetadataRequestTopic(name=topic)])
    (found,) = peer.prepare(request, 4).topics
    return [part.leader_id for part in found.partitions]


def elections(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("elect", 2)

    def of(name: str, *parts: int) -> list[TopicPartitions]:
        return [TopicPartitions(name, list(parts))]

    for case, asked in {
        "one": of(topic, 0),
        "all of a topic": of(topic, 0, 1),
        "one twice": of(topic, 0, 0),
        "no partition": of(topic, 9, -1),
        "no topic": of(NOWHERE, 0),
        "no name": of(UNNAMEABLE, 0),
        "nobody": of("", 0),
        "a long name": of(LONG, 0),
        "no partitions": of(topic),
        "a topic twice": of(topic, 0) + of(topic, 1),
        "nothing": [],
    }.items():
        yield case, ElectLeadersRequest(0, asked), range(3)
        yield f"{case}, unclean", ElectLeadersRequest(1, asked), (1, 2)
    yield "everything", ElectLeadersRequest(0, None), range(3)
    yield "everything, unclean", ElectLeadersRequest(1, None), (1, 2)
    yield "odd kind", ElectLeadersRequest(2, of(topic, 0)), (1, 2)
    yield "odder kind", ElectLeadersRequest(-1, of(topic, 0)), (1, 2)


def reassignments(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("move", 2)

    def of(name: str, part: int, replicas: list[int] | None) -> list[ReassignableTopic]:
        return [ReassignableTopic(name, [ReassignablePartition(part, replicas)])]

    twice = ReassignablePartition(0, [1])
    for case, asked in {
        "where it is": of(topic, 0, [1]),
        "nobody": of(topic, 0, []),
        "twice the same": of(topic, 0, [1, 1]),
        "elsewhere": of(topic, 0, [9]),
        "elsewhere, too": of(topic, 0, [1, 9]),
        "below nothing": of(topic, 0, [-1]),
        "cancel": of(topic, 0, None),
        "cancel no partition": of(topic, 9, None),
        "cancel no topic": of(NOWHERE, 0, None),
        "no partition": of(topic, 9, [1]),
        "negative partition": of(topic, -1, [1]),
        "no topic": of(NOWHERE, 0, [1]),
        "no topic, elsewhere": of(NOWHERE, 0, [9]),
        "no name": of(UNNAMEABLE, 0, [1]),
        "nameless": of("", 0, [1]),
        "a partition twice": [ReassignableTopic(topic, [twice, twice])],
        "a topic twice": of(topic, 0, [1]) + of(topic, 1, [1]),
        "no partitions": [ReassignableTopic(topic, [])],
        "nothing": [],
    }.items():
        request = AlterPartitionReassignmentsRequest(60_000, topics=asked)
        yield case, request, (0, 1)
        fixed = AlterPartitionReassignmentsRequest(60_000, False, asked)
        yield f"{case}, factor fixed", fixed, (1,)


def listed_reassignments(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("listed")
    for case, asked in {
        "all": None,
        "none": [],
        "one": [(topic, [0])],
        "no partition": [(topic, [9, -1])],
        "no topic": [(NOWHERE, [0])],
        "no name": [("", [0])],
        "no partitions": [(topic, [])],
    }.items():
        topics = asked and [ListPartitionReassignmentsTopics(*one) for one in asked]
        if asked is not None:
            topics = topics or []
        yield case, ListPartitionReassignmentsRequest(60_000, topics), (0,)


def quorums(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("quorum")

    def of(name: str, *parts: int) -> list[TopicData]:
        return [TopicData(name, [PartitionData(part) for part in parts])]

    for case, asked in {
        "the quorum": of("__cluster_metadata", 0),
        "no partition": of("__cluster_metadata", 1),
        "one too many": of("__cluster_metadata", 0, 1),
        "twice": of("__cluster_metadata", 0, 0),
        "no partitions": of("__cluster_metadata"),
        "another topic": of(topic, 0),
        "another topic, too": of("__cluster_metadata", 0) + of(topic, 0),
        "no topic": of(NOWHERE, 0),
        "nothing": [],
    }.items():
        yield case, DescribeQuorumRequest(asked), range(3)


def two_phases(asker: Asker) -> Iterator[Case]:
    def of(name: str | None, *more: Any) -> InitProducerIdRequest:
        return InitProducerIdRequest(name, *more)

    for case, asked in {
        "prepared": of("t6", 1000, -1, -1, True, False),
        "kept": of("t6", 1000, -1, -1, False, True),
        "both": of("t6", 1000, -1, -1, True, True),
        "prepared, half an epoch": of("t6", 1000, 1, -1, True, False),
        "prepared, nameless": of("", 1000, -1, -1, True, False),
        "prepared, no time": of("t6", -1, -1, -1, True, False),
        "kept, no time": of("t6", -1, -1, -1, False, True),
        "no time": of("t6", 0, -1, -1, False, False),
    }.items():
        yield case, asked, (6,)


def brokers(asker: Asker) -> Iterator[Case]:
    for number in (9, -1, 2**31 - 1):
        yield f"{number}", UnregisterBrokerRequest(number), (0,)


def tokens(asker: Asker) -> Iterator[Case]:
    renewer = [CreatableRenewers("User", "a")]
    odd = [CreatableRenewers("Group", "a")]
    long = [CreatableRenewers("User", LONG)]
    yield "create", CreateDelegationTokenRequest(renewers=renewer), range(1, 4)
    yield "create, odd", CreateDelegationTokenRequest(renewers=odd), range(1, 4)
    yield "create, long", CreateDelegationTokenRequest(renewers=long), range(1, 4)
    of_other = CreateDelegationTokenRequest("User", "b", [], -1)
    yield "create for another", of_other, (3,)
    yield "renew", RenewDelegationTokenRequest(b"x" * 64, 1), (1, 2)
    yield "renew nothing", RenewDelegationTokenRequest(b"", -1), (1, 2)
    yield "expire", ExpireDelegationTokenRequest(b"x" * 64, -1), (1, 2)
    yield "describe all", DescribeDelegationTokenRequest(None), range(1, 4)
    yield "describe none", DescribeDelegationTokenRequest([]), range(1, 4)
    mine = [DescribeDelegationTokenOwner("User", "a")]
    yield "describe one", DescribeDelegationTokenRequest(mine), range(1, 4)


def acls(asker: Asker) -> Iterator[Case]:
    one = AclCreation(2, asker.run, 3, "User:a", "*", 3, 3)
    versions = range(1, 4)
    yield "create", CreateAclsRequest([one]), versions
    yield "create two", CreateAclsRequest([one, one]), versions
    yield "create none", CreateAclsRequest([]), versions
    yield "describe", DescribeAclsRequest(1, None, 1, None, None, 1, 1), versions
    mine = DeleteAclsFilter(1, None, 1, None, None, 1, 1)
    yield "delete", DeleteAclsRequest([mine]), versions
    yield "delete none", DeleteAclsRequest([]), versions


def directories(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("dirs", 2)
    (found,) = asker.peer.ask(DescribeLogDirsRequest([]), 4).results
    here = found.log_dir

    def of(path: str, name: str, *parts: int) -> list[AlterReplicaLogDir]:
        asked = [AlterReplicaLogDirTopic(name, list(parts))]
        return [AlterReplicaLogDir(path, asked)]

    for case, dirs in {
        "where it is": of(here, topic, 0, 1),
        "elsewhere": of("/nowhere", topic, 0),
        "a relative path": of("here", topic, 0),
        "no path": of("", topic, 0),
        "no partition": of(here, topic, 9),
        "no topic": of(here, NOWHERE, 0),
        "no topic, elsewhere": of("/nowhere", NOWHERE, 0),
        "no name": of(here, UNNAMEABLE, 0),
        "a long path": of("/" + LONG, topic, 0),
        "a long name": of(here, LONG, 0),
        "no partitions": of(here, topic),
        "nothing": [],
    }.items():
        yield f"alter, {case}", AlterReplicaLogDirsRequest(dirs), (1, 2)
    for case, topics in {
        "one": [(topic, [0])],
        "two": [(topic, [0, 1])],
        "one twice": [(topic, [0, 0])],
        "no partition": [(topic, [9, -1])],
        "no partitions": [(topic, [])],
        "no topic": [(NOWHERE, [0])],
        "nothing": [],
    }.items():
        asked = [DescribableLogDirTopic(*one) for one in topics]
        yield f"describe, {case}", DescribeLogDirsRequest(asked), range(1, 6)


def features(asker: Asker) -> Iterator[Case]:
    def of(*updates: tuple[str, int, int]) -> list[FeatureUpdateKey]:
        return [
            FeatureUpdateKey(name, level, kind != UPGRADE, kind)
            for name, level, kind in updates
        ]

    metadata, transaction = "metadata.version", "transaction.version"
    for case, updates in {
        "nothing": of(),
        "unknown": of(("no.such", 1, UPGRADE)),
        "unknown, off": of(("no.such", 0, SAFE_DOWNGRADE)),
        "nameless": of(("", 1, UPGRADE)),
        "a long name": of((LONG, 1, UPGRADE)),
        "metadata as it is": of((metadata, 30, UPGRADE)),
        "metadata beyond": of((metadata, 31, UPGRADE)),
        "metadata far beyond": of((metadata, 32767, UPGRADE)),
        "metadata upgraded to less": of((metadata, 29, UPGRADE)),
        "metadata off": of((metadata, 0, UNSAFE_DOWNGRADE)),
        "metadata below nothing": of((metadata, -1, UNSAFE_DOWNGRADE)),
        "metadata too old": of((metadata, 6, UNSAFE_DOWNGRADE)),
        "transactions as they are": of((transaction, 2, UPGRADE)),
        "transactions as they are, downgraded": of((transaction, 2, SAFE_DOWNGRADE)),
        "transactions beyond": of((transaction, 3, UPGRADE)),
        "transactions upgraded to less": of((transaction, 1, UPGRADE)),
        "transactions below nothing": of((transaction, -1, SAFE_DOWNGRADE)),
        "odd kind": of((transaction, 1, 9)),
        "unknown kind": of((transaction, 1, 0)),
        "twice": of((transaction, 1, SAFE_DOWNGRADE), (transaction, 1, SAFE_DOWNGRADE)),
        "one of two": of((transaction, 1, SAFE_DOWNGRADE), ("no.such", 1, UPGRADE)),
    }.items():
        yield case, UpdateFeaturesRequest(60_000, updates), range(3)
    for case, updates in {
        "transactions, less": of((transaction, 1, SAFE_DOWNGRADE)),
        "transactions, off": of((transaction, 0, SAFE_DOWNGRADE)),
        "transactions, less, unsafely": of((transaction, 1, UNSAFE_DOWNGRADE)),
        "metadata, less": of((metadata, 29, SAFE_DOWNGRADE)),
        "metadata, less, unsafely": of((metadata, 7, UNSAFE_DOWNGRADE)),
    }.items():
        yield f"{case}, only asked", UpdateFeaturesRequest(1, updates, True), (1, 2)
    for case, updates in {
        "less": of((transaction, 1, SAFE_DOWNGRADE)),
        "less again": of((transaction, 1, SAFE_DOWNGRADE)),
        "back": of((transaction, 2, UPGRADE)),
    }.items():
        yield f"transactions, {case}", UpdateFeaturesRequest(60_000, updates), (0, 1, 2)


def topics(asker: Asker) -> Iterator[Case]:
    def assigned(*nodes: list[int]) -> list[CreatableReplicaAssignment]:
        return [CreatableReplicaAssignment(n, one) for n, one in enumerate(nodes)]

    def topic(name: str, *more: Any) -> CreatableTopic:
        return CreatableTopic(f"{name}-{asker.run}", *more)

    odd = [CreatableTopicConfig("no.such", "x")]
    gap = [CreatableReplicaAssignment(0, [1]), CreatableReplicaAssignment(2, [1])]
    same = [CreatableReplicaAssignment(0, [1]), CreatableReplicaAssignment(0, [1])]
    for only_asked in (True, False):
        word = "only asked" if only_asked else "made"
        for case, one in {
            "plain": topic("plain", 2, 1),
            "assigned": topic("assigned", -1, -1, assigned([1], [1])),
            "assigned nobody": topic("no", -1, -1, assigned([])),
            "assigned elsewhere": topic("no", -1, -1, assigned([9])),
            "assigned twice": topic("no", -1, -1, assigned([1, 1])),
            "assigned unlike": topic("no", -1, -1, assigned([1], [1, 9])),
            "a gap": topic("no", -1, -1, gap),
            "one twice": topic("no", -1, -1, same),
            "both": topic("no", 1, -1, assigned([1])),
            "both factors": topic("no", -1, 1, assigned([1])),
            "two replicas": topic("no", 1, 2),
            "no partitions": topic("no", 0, 1),
            "odd config": topic("no", 1, 1, [], odd),
            "bad name": CreatableTopic("a b", 1, 1),
        }.items():
            asked = CreateTopicsRequest([one], 60_000, only_asked)
            yield f"{word}, {case}", asked, (4,)  # from 5 on it shows all configs


def more_partitions(asker: Asker) -> Iterator[Case]:
    name, _ = asker.create("more")

    def to(count: int, *nodes: list[int]) -> CreatePartitionsTopic:
        each = [CreatePartitionsAssignment(one) for one in nodes] or None
        return CreatePartitionsTopic(name, count, each)

    for only_asked in (True, False):
        word = "only asked" if only_asked else "made"
        for case, one in {
            "two": to(2),
            "three, assigned": to(3, *([[1]] * (2 if only_asked else 1))),
            "as many": to(1),
            "assigned too few": to(9, [1]),
            "assigned elsewhere": to(
                3 if only_asked else 4, *([[9]] * (2 if only_asked else 1))
            ),
            "none": to(0),
        }.items():
            asked = CreatePartitionsRequest([one], 60_000, only_asked)
            yield f"{word}, {case}", asked, (3,)


def deletions(asker: Asker) -> Iterator[Case]:
    first, first_id = asker.create("first")
    second, second_id = asker.create("second")

    def of(*those: tuple[str | None, bytes]) -> DeleteTopicsRequest:
        states = [DeleteTopicState(name, id_) for name, id_ in those]
        return DeleteTopicsRequest(states, timeout_ms=60_000)

    nobody = bytes(16)
    for case, asked in {
        "no id": of((None, b"x" * 16)),
        "neither": of((None, nobody)),
        "both": of((first, first_id)),
        "twice by id": of((None, first_id), (None, first_id)),
        "by id and by name": of((None, first_id), (first, nobody)),
        "no topic": of((NOWHERE, nobody)),
        "by id": of((None, first_id)),
        "by id again": of((None, first_id)),
        "by name": of((second, nobody)),
    }.items():
        yield case, asked, (6,)
    del second_id


APIS = (
    elections, reassignments, listed_reassignments, quorums, two_phases,
    brokers, tokens, acls,
    directories, features, topics, more_partitions, deletions,
)  # fmt: skip


@telling
def table(bootstrap: str) -> list[str]:
    """What a broker answers, as sorted lines ``case   [versions]: answer``."""
    with Asker(bootstrap) as asker:
        for api in APIS:
            asker.play(api.__name__, api(asker))
        return asker.table()

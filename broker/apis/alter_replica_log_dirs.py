"""AlterReplicaLogDirs: there is one directory, and all partitions are in it.

Behavior: as ``ReplicaManager.alterReplicaLogDirs``. To move a partition to where it is
succeeds and does nothing; elsewhere is LOG_DIR_NOT_FOUND, whether the partition is here
or not.
Version notes: none that changes behavior.
"""

from collections.abc import Awaitable, Iterator

from broker.apis._partitions import each_in_turns
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
)
from broker.runtime.services import Broker
from broker.topics.names import NAME_LENGTH_MAX

Asked = tuple[str, AlterReplicaLogDirTopic]
"""The directory, and what is to move there."""


@serves(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(0, 2))
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: Context
) -> AlterReplicaLogDirsResponse | Awaitable[AlterReplicaLogDirsResponse]:
    return in_turns(_moved(request, context.broker))


def _moved(
    request: AlterReplicaLogDirsRequest, broker: Broker
) -> Steps[AlterReplicaLogDirsResponse]:
    here = str(broker.settings.data_dir)

    def answer(asked: Asked, partition: int) -> AlterReplicaLogDirPartitionResult:
        path, topic = asked
        known = broker.topics.get(topic.name)
        code = ErrorCode.NONE
        if len(topic.name) > NAME_LENGTH_MAX:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif path != here:
            code = ErrorCode.LOG_DIR_NOT_FOUND
        elif known is None or not 0 <= partition < known.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return AlterReplicaLogDirPartitionResult(partition, code)

    each = yield from each_in_turns(
        _asked(request), lambda asked: asked[1].partitions, answer
    )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic.name, results)
            for (_, topic), results in each
            if results
        ]
    )


def _asked(request: AlterReplicaLogDirsRequest) -> Iterator[Asked]:
    for directory in request.dirs:
        for topic in directory.topics:
            yield directory.path, topic

"""AlterReplicaLogDirs: all is where it is."""

from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.support.coordinating import housed, story


def asked(path, name, *partitions):
    topic = AlterReplicaLogDirTopic(name, list(partitions))
    return AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, [topic])])


def test_a_partition_stays_where_it_is(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            here = str(house.broker.settings.data_dir)
            for request, codes in (
                (asked(here, "flights", 0), [ErrorCode.NONE]),
                (asked(here, "flights", 9), [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
                (asked(here, "none", 0), [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
                (asked(f"{here}/..", "flights", 0), [ErrorCode.LOG_DIR_NOT_FOUND]),
                (asked("", "none", 0, 1), [ErrorCode.LOG_DIR_NOT_FOUND] * 2),
                (asked("x" * 32_767, "flights", 0), [ErrorCode.LOG_DIR_NOT_FOUND]),
                (asked(here, "x" * 32_767, 0), [ErrorCode.INVALID_TOPIC_EXCEPTION]),
                (asked(here, "flights"), []),
            ):
                for version in range(3):
                    answer = await house.ask(request, version)
                    found = [
                        one.error_code
                        for topic in answer.results
                        for one in topic.partitions
                    ]
                    assert found == codes

    story(play)


def test_a_partition_that_is_named_again_is_answered_again(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            here = str(house.broker.settings.data_dir)
            many = [0] * (3 * ITEMS_A_TURN)
            answer = await house.ask(asked(here, "flights", *many), 2)
            assert len(answer.results[0].partitions) == len(many)

    story(play)

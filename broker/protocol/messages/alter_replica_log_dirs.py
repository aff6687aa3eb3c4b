"""Generated from definitions/alter_replica_log_dirs.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class AlterReplicaLogDirTopic:
    name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDir:
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirPartitionResult:
    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True)
class AlterReplicaLogDirTopicResult:
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class AlterReplicaLogDirsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS

    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)

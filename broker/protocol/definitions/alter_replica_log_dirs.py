"""AlterReplicaLogDirs: replicas move between directories."""

DEFINITION = """
AlterReplicaLogDirs  key 34  versions 0-2  flexible 2+

AlterReplicaLogDirsRequest
  dirs                 0+  []AlterReplicaLogDir
    path               0+  string
    topics             0+  []AlterReplicaLogDirTopic
      name             0+  string
      partitions       0+  []int32

AlterReplicaLogDirsResponse
  throttle_time_ms     0+  int32
  results              0+  []AlterReplicaLogDirTopicResult
    topic_name         0+  string
    partitions         0+  []AlterReplicaLogDirPartitionResult
      partition_index  0+  int32
      error_code       0+  int16
"""

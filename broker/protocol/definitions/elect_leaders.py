"""ElectLeaders: leaders, elected on demand."""

DEFINITION = """
ElectLeaders  key 43  versions 0-2  flexible 2+

ElectLeadersRequest
  election_type             1+  int8
  topic_partitions          0+  []TopicPartitions?
    topic                   0+  string
    partitions              0+  []int32
  timeout_ms                0+  int32  = 60000

ElectLeadersResponse
  throttle_time_ms          0+  int32
  error_code                1+  int16
  replica_election_results  0+  []ReplicaElectionResult
    topic                   0+  string
    partition_result        0+  []PartitionResult
      partition_id          0+  int32
      error_code            0+  int16
      error_message         0+  string?
"""

"""Fetch: record batches out of partitions."""

DEFINITION = """
Fetch  key 1  versions 0-18  flexible 12+

FetchRequest
  cluster_id                  12+   string?           = null  tag 0
  replica_id                  0-14  int32             = -1
  replica_state               15+   ReplicaState      tag 1
    replica_id                15+   int32             = -1
    replica_epoch             15+   int64             = -1
  max_wait_ms                 0+    int32
  min_bytes                   0+    int32
  max_bytes                   3+    int32             = 2147483647
  isolation_level             4+    int8
  session_id                  7+    int32
  session_epoch               7+    int32             = -1
  topics                      0+    []FetchTopic
    topic                     0-12  string
    topic_id                  13+   uuid
    partitions                0+    []FetchPartition
      partition               0+    int32
      current_leader_epoch    9+    int32             = -1
      fetch_offset            0+    int64
      last_fetched_epoch      12+   int32             = -1
      log_start_offset        5+    int64             = -1
      partition_max_bytes     0+    int32
      replica_directory_id    17+   uuid              tag 0
      high_watermark          18+   int64             = 9223372036854775807  tag 1
  forgotten_topics_data       7+    []ForgottenTopic
    topic                     7-12  string
    topic_id                  13+   uuid
    partitions                7+    []int32
  rack_id                     11+   string

FetchResponse
  throttle_time_ms            1+    int32
  error_code                  7+    int16
  session_id                  7+    int32
  responses                   0+    []FetchableTopicResponse
    topic                     0-12  string
    topic_id                  13+   uuid
    partitions                0+    []PartitionData
      partition_index         0+    int32
      error_code              0+    int16
      high_watermark          0+    int64
      last_stable_offset      4+    int64             = -1
      log_start_offset        5+    int64             = -1
      diverging_epoch         12+   EpochEndOffset    tag 0
        epoch                 12+   int32             = -1
        end_offset            12+   int64             = -1
      current_leader          12+   LeaderIdAndEpoch  tag 1
        leader_id             12+   int32             = -1
        leader_epoch          12+   int32             = -1
      snapshot_id             12+   SnapshotId        tag 2
        end_offset            12+   int64             = -1
        epoch                 12+   int32             = -1
      aborted_transactions    4+    []AbortedTransaction?
        producer_id           4+    int64
        first_offset          4+    int64
      preferred_read_replica  11+   int32             = -1
      records                 0+    records?
  node_endpoints              16+   []NodeEndpoint    tag 0
    node_id                   16+   int32
    host                      16+   string
    port                      16+   int32
    rack                      16+   string?           = null
"""

"""ShareAcknowledge: acknowledgements of a share group."""

DEFINITION = """
ShareAcknowledge  key 79  versions 1-2  flexible 0+

ShareAcknowledgeRequest
  group_id                     1+  string?  = null
  member_id                    1+  string?
  share_session_epoch          1+  int32
  is_renew_ack                 2+  bool
  topics                       1+  []AcknowledgeTopic
    topic_id                   1+  uuid
    partitions                 1+  []AcknowledgePartition
      partition_index          1+  int32
      acknowledgement_batches  1+  []AcknowledgementBatch
        first_offset           1+  int64
        last_offset            1+  int64
        acknowledge_types      1+  []int8

ShareAcknowledgeResponse
  throttle_time_ms             1+  int32
  error_code                   1+  int16
  error_message                1+  string?  = null
  acquisition_lock_timeout_ms  2+  int32
  responses                    1+  []ShareAcknowledgeTopicResponse
    topic_id                   1+  uuid
    partitions                 1+  []PartitionData
      partition_index          1+  int32
      error_code               1+  int16
      error_message            1+  string?  = null
      current_leader           1+  LeaderIdAndEpoch
        leader_id              1+  int32
        leader_epoch           1+  int32
  node_endpoints               1+  []NodeEndpoint
    node_id                    1+  int32
    host                       1+  string
    port                       1+  int32
    rack                       1+  string?  = null
"""

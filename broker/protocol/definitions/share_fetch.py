"""ShareFetch: records for a share group, with acknowledgements."""

DEFINITION = """
ShareFetch  key 78  versions 1-2  flexible 0+

ShareFetchRequest
  group_id                       1+  string?  = null
  member_id                      1+  string?
  share_session_epoch            1+  int32
  max_wait_ms                    1+  int32
  min_bytes                      1+  int32
  max_bytes                      1+  int32    = 2147483647
  max_records                    1+  int32
  batch_size                     1+  int32
  share_acquire_mode             2+  int8
  is_renew_ack                   2+  bool
  topics                         1+  []FetchTopic
    topic_id                     1+  uuid
    partitions                   1+  []FetchPartition
      partition_index            1+  int32
      acknowledgement_batches    1+  []AcknowledgementBatch
        first_offset             1+  int64
        last_offset              1+  int64
        acknowledge_types        1+  []int8
  forgotten_topics_data          1+  []ForgottenTopic
    topic_id                     1+  uuid
    partitions                   1+  []int32

ShareFetchResponse
  throttle_time_ms               1+  int32
  error_code                     1+  int16
  error_message                  1+  string?  = null
  acquisition_lock_timeout_ms    1+  int32
  responses                      1+  []ShareFetchableTopicResponse
    topic_id                     1+  uuid
    partitions                   1+  []PartitionData
      partition_index            1+  int32
      error_code                 1+  int16
      error_message              1+  string?  = null
      acknowledge_error_code     1+  int16
      acknowledge_error_message  1+  string?  = null
      current_leader             1+  LeaderIdAndEpoch
        leader_id                1+  int32
        leader_epoch             1+  int32
      records                    1+  records
      acquired_records           1+  []AcquiredRecords
        first_offset             1+  int64
        last_offset              1+  int64
        delivery_count           1+  int16
  node_endpoints                 1+  []NodeEndpoint
    node_id                      1+  int32
    host                         1+  string
    port                         1+  int32
    rack                         1+  string?  = null
"""

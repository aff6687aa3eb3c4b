"""Metadata: brokers, topics and partitions: who leads what."""

DEFINITION = """
Metadata  key 3  versions 0-13  flexible 9+

MetadataRequest
  topics                                 0+    []MetadataRequestTopic?1+
    topic_id                             10+   uuid
    name                                 0+    string?10+
  allow_auto_topic_creation              4+    bool     = true
  include_cluster_authorized_operations  8-10  bool
  include_topic_authorized_operations    8+    bool

MetadataResponse
  throttle_time_ms                       3+    int32
  brokers                                0+    []MetadataResponseBroker
    node_id                              0+    int32
    host                                 0+    string
    port                                 0+    int32
    rack                                 1+    string?  = null
  cluster_id                             2+    string?  = null
  controller_id                          1+    int32    = -1
  topics                                 0+    []MetadataResponseTopic
    error_code                           0+    int16
    name                                 0+    string?12+
    topic_id                             10+   uuid
    is_internal                          1+    bool
    partitions                           0+    []MetadataResponsePartition
      error_code                         0+    int16
      partition_index                    0+    int32
      leader_id                          0+    int32
      leader_epoch                       7+    int32    = -1
      replica_nodes                      0+    []int32
      isr_nodes                          0+    []int32
      offline_replicas                   5+    []int32
    topic_authorized_operations          8+    int32    = -2147483648
  cluster_authorized_operations          8-10  int32    = -2147483648
  error_code                             13+   int16
"""

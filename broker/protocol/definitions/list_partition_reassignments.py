"""ListPartitionReassignments: reassignments under way."""

DEFINITION = """
ListPartitionReassignments  key 46  versions 0  flexible 0+

ListPartitionReassignmentsRequest
  timeout_ms             0+  int32                                = 60000
  topics                 0+  []ListPartitionReassignmentsTopics?  = null
    name                 0+  string
    partition_indexes    0+  []int32

ListPartitionReassignmentsResponse
  throttle_time_ms       0+  int32
  error_code             0+  int16
  error_message          0+  string?
  topics                 0+  []OngoingTopicReassignment
    name                 0+  string
    partitions           0+  []OngoingPartitionReassignment
      partition_index    0+  int32
      replicas           0+  []int32
      adding_replicas    0+  []int32
      removing_replicas  0+  []int32
"""

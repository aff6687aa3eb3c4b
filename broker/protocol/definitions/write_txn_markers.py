"""WriteTxnMarkers: control batches that end transactions."""

DEFINITION = """
WriteTxnMarkers  key 27  versions 0-2  flexible 1+

WriteTxnMarkersRequest
  markers                0+  []WritableTxnMarker
    producer_id          0+  int64
    producer_epoch       0+  int16
    transaction_result   0+  bool
    topics               0+  []WritableTxnMarkerTopic
      name               0+  string
      partition_indexes  0+  []int32
    coordinator_epoch    0+  int32
    transaction_version  2+  int8

WriteTxnMarkersResponse
  markers                0+  []WritableTxnMarkerResult
    producer_id          0+  int64
    topics               0+  []WritableTxnMarkerTopicResult
      name               0+  string
      partitions         0+  []WritableTxnMarkerPartitionResult
        partition_index  0+  int32
        error_code       0+  int16
"""

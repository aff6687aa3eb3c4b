"""DescribeCluster: the brokers of a cluster."""

DEFINITION = """
DescribeCluster  key 60  versions 0-2  flexible 0+

DescribeClusterRequest
  include_cluster_authorized_operations  0+  bool
  endpoint_type                          1+  int8     = 1
  include_fenced_brokers                 2+  bool

DescribeClusterResponse
  throttle_time_ms                       0+  int32
  error_code                             0+  int16
  error_message                          0+  string?  = null
  endpoint_type                          1+  int8     = 1
  cluster_id                             0+  string
  controller_id                          0+  int32    = -1
  brokers                                0+  []DescribeClusterBroker
    broker_id                            0+  int32
    host                                 0+  string
    port                                 0+  int32
    rack                                 0+  string?  = null
    is_fenced                            2+  bool
  cluster_authorized_operations          0+  int32    = -2147483648
"""

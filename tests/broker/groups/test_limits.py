"""Defaults are Kafka's."""

from broker.groups.limits import GroupLimits


def test_the_defaults_are_those_of_kafkas_broker():
    limits = GroupLimits()
    assert limits.initial_rebalance_delay_ms == 3_000
    assert limits.session_timeout_min_ms == 6_000
    assert limits.session_timeout_max_ms == 1_800_000
    assert limits.members_max == 2_147_483_647
    assert limits.new_member_join_timeout_ms == 300_000
    assert limits.offset_metadata_max == 4_096
    assert limits.offsets_retention_ms == 604_800_000
    assert limits.offsets_retention_check_interval_ms == 600_000


def test_what_members_say_has_a_bound_that_kafka_has_not():
    assert GroupLimits().metadata_bytes_max == 67_108_864

"""The limits of groups, by the names that the broker's settings give them."""

from typing import Any

from broker.groups.limits import GroupLimits


def limits_of(settings: Any) -> GroupLimits:
    """The group limits that the broker's settings (``settings.groups``) ask for."""
    groups = settings.groups
    return GroupLimits(
        initial_rebalance_delay_ms=groups.initial_rebalance_delay_ms,
        session_timeout_min_ms=groups.min_session_timeout_ms,
        session_timeout_max_ms=groups.max_session_timeout_ms,
        members_max=groups.max_size,
        memory_bytes_max=groups.memory_bytes_max,
        offset_metadata_max=groups.offset_metadata_max_bytes,
        offsets_retention_ms=groups.offsets_retention_ms,
        offsets_retention_check_interval_ms=groups.offsets_retention_check_ms,
    )

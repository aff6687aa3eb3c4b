"""Settings become limits."""

from broker.groups.limits import GroupLimits
from broker.runtime.coordination.limits import limits_of
from broker.settings import GroupSettings, Settings


def test_each_limit_is_a_setting_of_its_own():
    settings = GroupSettings(
        initial_rebalance_delay_ms=101, min_session_timeout_ms=102,
        max_session_timeout_ms=103, max_size=104, offset_metadata_max_bytes=105,
        offsets_retention_ms=106, offsets_retention_check_ms=107,
        memory_bytes_max=108,
    )  # fmt: skip
    assert limits_of(Settings(groups=settings)) == GroupLimits(
        initial_rebalance_delay_ms=101, session_timeout_min_ms=102,
        session_timeout_max_ms=103, members_max=104, offset_metadata_max=105,
        offsets_retention_ms=106, offsets_retention_check_interval_ms=107,
        memory_bytes_max=108,
    )  # fmt: skip

"""Which warehouse a topic's table lies in: said once, when the topic is created.

A client says a name, and only one that the operator gave to a place
(``lake.warehouses``): so no client chooses a path. Afterwards nothing may say another
one, since a table is not moved by a configuration.
"""

from collections.abc import Collection, Mapping

from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics.configs import LAKE_WAREHOUSE
from lakehouse.warehouse_names import name_of


def check_allowed(configs: Mapping[str, str], names: Collection[str]) -> None:
    """Raise INVALID_CONFIG if a new topic's table is to lie in a warehouse that is none
    of these."""
    name = name_of(configs)
    if name and name not in names:
        allowed = ", ".join(sorted(names)) or "none"
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{LAKE_WAREHOUSE}={name} is none of the broker's lake.warehouses, which "
            f"are: {allowed}",
        )


def check_kept(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG if a topic's table would lie elsewhere than it does."""
    name = name_of(before)
    if name_of(after) != name:
        kept = f"{LAKE_WAREHOUSE}={name}" if name else f"no {LAKE_WAREHOUSE}"
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{LAKE_WAREHOUSE} is set when a topic is created, and cannot be changed: "
            f"this topic has {kept}, which any new configuration has to keep. For "
            "another warehouse make a new topic, and copy the records into it",
        )

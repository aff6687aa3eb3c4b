"""What holds for topics that do not say it themselves, as the compactor knows it.

The broker's own view is ``broker.runtime.configs.layers``. Here, too, what clients have
configured of this broker comes before that of all, and both before what the process
was started with: it is the same for the broker and the compactor, and the rest stands
in the catalog.
"""

from sqlalchemy import Connection

from broker.catalog import dynamic_configs as stored
from broker.settings import Settings
from broker.topics.broker_alter import topic_overrides


def topic_defaults(connection: Connection, settings: Settings) -> dict[str, str]:
    """By topic key, as of now; what is not in it is Kafka's default."""
    configured = stored.load_of(connection, stored.BROKER)
    common = configured.get(stored.ALL_BROKERS, {})
    own = configured.get(str(settings.node_id), {})
    return settings.topics.configs | topic_overrides({**common, **own})

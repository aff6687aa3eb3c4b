"""A client of one fetch session, asking a handler without a network."""

from typing import Any

from broker.apis.fetch import fetch
from broker.protocol.messages.fetch import (
    FetchResponse,
    ForgottenTopic,
    PartitionData,
)
from broker.runtime.services import Broker
from tests.support.rig import fetch_request, start

BY_NAME, BY_ID = 12, 18
BY_ID_SINCE = 13


class SessionClient:
    """One that follows partitions of a topic, as Java's ``FetchSessionHandler``."""

    def __init__(self, broker: Broker, name: str, version: int = BY_NAME) -> None:
        self.broker, self.name, self.version = broker, name, version
        self.topic_id = broker.topics.named(name).id
        self.session_id = self.epoch = 0

    def start(
        self,
        *places: tuple[int, int],
        forgotten: tuple[int, ...] = (),
        topic_id: bytes | None = None,
        **more: Any,
    ) -> Any:
        """Begin a fetch: a response, or an awaitable of it. Places are (partition,
        offset)."""
        more = {"session_id": self.session_id, "session_epoch": self.epoch} | more
        topic_id = self.topic_id if topic_id is None else topic_id
        request = fetch_request(self.name, *places, **more)
        request.topics[0].topic_id = topic_id
        if not places:
            request.topics = []
        if forgotten:
            left_out = ForgottenTopic(self.name, topic_id, list(forgotten))
            request.forgotten_topics_data = [left_out]
        if self.version >= BY_ID_SINCE:
            for one in [*request.topics, *request.forgotten_topics_data]:
                one.topic = ""
        self.epoch += 1
        return start(fetch, request, self.broker, self.version)

    async def ask(self, *places: tuple[int, int], **more: Any) -> FetchResponse:
        """A fetch and its response."""
        result = self.start(*places, **more)
        return self.heard(await result if hasattr(result, "__await__") else result)

    async def fetch(
        self, *places: tuple[int, int], **more: Any
    ) -> dict[int, PartitionData]:
        """The partitions of an answer that has no error, in its order."""
        response = await self.ask(*places, **more)
        assert response.error_code == 0
        return answered(response)

    def heard(self, response: FetchResponse) -> FetchResponse:
        """Go on as the answer says."""
        if response.error_code == 0:
            self.session_id = response.session_id
            self.epoch = self.epoch if response.session_id else 0
        return response


def answered(response: FetchResponse) -> dict[int, PartitionData]:
    """The partitions of an answer, in its order."""
    return {
        one.partition_index: one
        for topic in response.responses
        for one in topic.partitions
    }

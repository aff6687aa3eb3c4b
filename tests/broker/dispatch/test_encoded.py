"""An encoded response goes out as it is, behind the same head as any other."""

from broker.apis.metadata import metadata
from broker.apis.produce import produce
from broker.dispatch.dispatcher import Route
from broker.dispatch.encoded import Encoded, Wide
from broker.protocol.codec import response_encoder
from broker.protocol.messages.metadata import MetadataResponse
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)


def test_it_is_sent_as_the_response_would_be() -> None:
    for version in range(14):
        route = Route(metadata.served, version)
        response = MetadataResponse(cluster_id="here", controller_id=7)
        encoded = Encoded(response_encoder(route.key, version)(response))
        parts, size = route.answer(5, encoded)
        expected, expected_size = route.answer(5, response)
        assert b"".join(map(bytes, parts)) == b"".join(map(bytes, expected))
        assert size == expected_size


def test_a_wide_response_is_encoded_as_any_other_and_in_turns() -> None:
    parts = [PartitionProduceResponse(index) for index in range(2_000)]
    response = ProduceResponse([TopicProduceResponse("t", partition_responses=parts)])
    for version in range(13):
        route = Route(produce.served, version)
        steps, turns = route.answer_in_turns(5, Wide(response)), 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                wide, size = end.value
                break
            turns += 1
        expected, expected_size = route.answer(5, response)
        assert b"".join(map(bytes, wide)) == b"".join(map(bytes, expected))
        assert size == expected_size
        assert turns >= 3

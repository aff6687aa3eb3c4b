"""An encoded response goes out as it is, behind the same head as any other."""

from broker.apis.metadata import metadata
from broker.dispatch.dispatcher import Route
from broker.dispatch.encoded import Encoded
from broker.protocol.codec import response_encoder
from broker.protocol.messages.metadata import MetadataResponse


def test_it_is_sent_as_the_response_would_be() -> None:
    for version in range(14):
        route = Route(metadata.served, version)
        response = MetadataResponse(cluster_id="here", controller_id=7)
        encoded = Encoded(response_encoder(route.key, version)(response))
        parts, size = route.answer(5, encoded)
        expected, expected_size = route.answer(5, response)
        assert b"".join(map(bytes, parts)) == b"".join(map(bytes, expected))
        assert size == expected_size

"""What a handler is told."""

from broker.dispatch.context import Context


def test_a_connections_software_is_unknown_until_it_says() -> None:
    context = Context(
        version=3,
        client_id=None,
        key=18,
        peer_host="h",
        broker=object(),  # type: ignore[arg-type]
    )
    assert (context.software.name, context.software.version) == ("", "")
    assert context.listed == ()

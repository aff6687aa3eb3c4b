"""Without an authorizer all is refused, in Kafka's words."""

from broker.apis._acls import refused
from broker.protocol.messages.create_acls import AclCreationResult


def test_it_is_refused_in_these_words_or_others() -> None:
    result = refused(AclCreationResult())
    assert (result.error_code, result.error_message) == (
        54,
        "No Authorizer is configured.",
    )
    assert refused(AclCreationResult(), "others").error_message == "others"

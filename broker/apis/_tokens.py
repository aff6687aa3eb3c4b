"""What the APIs of delegation tokens answer: not on such a connection.

Source: ``KafkaApis.allowTokenRequests``: who did not authenticate with SASL (or by a
certificate of their own) may not ask for tokens, whether a broker has a secret for them
or not. Here nobody authenticates.
"""

from typing import Final

from broker.protocol.errors import ErrorCode

REFUSED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NEVER_MS: Final = -1
PRINCIPAL: Final = ("User", "ANONYMOUS")
"""Who asks."""

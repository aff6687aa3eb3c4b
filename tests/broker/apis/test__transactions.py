"""What the APIs of transactions have in common."""

import pytest

from broker.apis._transactions import NEVER, known_since
from broker.protocol.errors import ErrorCode

FENCED, ABORTABLE = ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize(
    ("code", "version", "known"),
    [
        (FENCED, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (FENCED, 2, FENCED),
        (ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ABORTABLE, 4, ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 0, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NONE, 0, ErrorCode.NONE),
    ],
)
def test_no_code_is_newer_than_the_version(code, version, known):
    assert known_since(code, version, fenced=2, abortable=4) is known


def test_a_code_may_be_known_to_no_version_of_an_api():
    older = ErrorCode.INVALID_PRODUCER_EPOCH
    assert known_since(FENCED, 13, fenced=NEVER) is older

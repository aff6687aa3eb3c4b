"""FindCoordinator: this broker; nobody, for what is not served."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.coordinating import housed, story


def where(one):
    return one.error_code, one.node_id, one.host, one.port


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("key_type", [0, 1])
def test_a_group_and_a_transactional_id_are_kept_here(tmp_path, version, key_type):
    async def play():
        async with housed(tmp_path) as house:
            asked = FindCoordinatorRequest("g", key_type if version else 0)
            found = await house.ask(asked, version)
            assert where(found) == (0, 7, "broker.test", 9092)
            assert found.error_message == ("NONE" if version else "")

    story(play)


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_many_of_them_are_kept_here(tmp_path, version, key_type):
    async def play():
        async with housed(tmp_path) as house:
            asked = FindCoordinatorRequest("", key_type, ["g", "h"])
            found = await house.ask(asked, version)
            assert [
                (one.key, *where(one), one.error_message) for one in found.coordinators
            ] == [(key, 0, 7, "broker.test", 9092, "") for key in ("g", "h")]

    story(play)


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (9, ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_kinds_are_refused_in_words(tmp_path, key_type, code):
    async def play():
        async with housed(tmp_path) as house:
            one = await house.ask(FindCoordinatorRequest("t", key_type), 1)
            assert (one.error_code, one.node_id, one.port) == (code, -1, -1)
            assert one.error_message
            asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["t"])
            (many,) = (await house.ask(asked, 6)).coordinators
            assert (many.error_code, many.node_id) == (code, -1)
            assert many.error_message

    story(play)

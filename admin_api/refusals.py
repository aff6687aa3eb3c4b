"""Where nobody listens no answer is waited for.

librdkafka tries again and again, and after all of its time says that it timed out,
where connections are refused at once. So while an answer is not there it is looked
whether anybody listens. A broker that starts again is waited for a while: given up is
only who was refused `LOOKS` times in a row.
"""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

T = TypeVar("T")

LOOK_S = 1.5
"""An answer that comes sooner costs no look, and a look takes no longer."""
LOOKS: Final = 2


async def unless_refused(asking: Coroutine[Any, Any, T], address: str) -> T:
    """What the broker at ``address`` (host:port) answers.

    Raises KafkaException _TRANSPORT where nobody listens there, else what ``asking``
    does.
    """
    answer, refused = asyncio.create_task(asking), 0
    try:
        while not (await asyncio.wait({answer}, timeout=LOOK_S))[0]:
            refused = refused + 1 if await is_refused(address) else 0
            if refused == LOOKS and not answer.done():
                raise KafkaException(
                    KafkaError(KafkaError._TRANSPORT, "connections are refused")
                )
        return answer.result()
    finally:
        answer.cancel()


async def is_refused(address: str) -> bool:
    """Whether connections are refused; not where it is only slow or has no name. A name
    may have several addresses, as localhost has, of which nobody listens at any."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOK_S):
            places = await loop.getaddrinfo(
                host.strip("[]"), int(port), type=socket.SOCK_STREAM
            )
            answers = [await _answer_of(*place) for place in places]
    except (OSError, ValueError):  # TimeoutError is one, too
        return False
    return True in answers and False not in answers


async def _answer_of(
    family: int, kind: int, protocol: int, _: str, place: Any
) -> bool | None:
    """Whether an address refuses; None: it cannot be asked from here."""
    try:
        with socket.socket(family, kind, protocol) as tried:
            tried.setblocking(False)
            await asyncio.get_running_loop().sock_connect(tried, place)
    except ConnectionRefusedError:
        return True
    except OSError:
        return None
    return False

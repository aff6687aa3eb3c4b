"""Requests that say in two ways where they end are not believed; what cannot be read
is answered in the shape of all errors.

The problem: a request with `Content-Length` beside `Transfer-Encoding` ends at one byte
for us and at another for a proxy before us, so that the rest of it is a request that
the proxy never saw. h11 goes by the second and takes no notice of the first. The idea:
such a request is no request. (Two lengths that differ are an error of h11's own.)

No endpoint sees what is no request, nor one whose head is longer than h11 gathers: its
answer is written here.

Source: RFC 9112, section 6.3, "Message Body Length"; RFC 6585, section 5, "431 Request
Header Fields Too Large".
"""

import json
from http import HTTPStatus
from typing import Any, Final

import h11

_LENGTH: Final = b"content-length"
_CODING: Final = b"transfer-encoding"
HEAD_BYTES_MAX: Final = 16 << 10
"""So much of a head, or of what announces a chunk, is gathered until it is whole."""
_TOO_LARGE: Final = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
_TOO_LONG: Final = f"A request's head has at most {HEAD_BYTES_MAX} bytes."


class Framed(h11.Connection):
    """Reads requests that say once where they end; ``fault``: what was none."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES_MAX)
        self.fault: h11.RemoteProtocolError | None = None
        self._is_of_head = False

    def start_next_cycle(self) -> None:
        """Begin with the next request, whose method is not known yet."""
        super().start_next_cycle()
        self._is_of_head = False

    def next_event(self) -> Any:
        """h11's next event. Raises RemoteProtocolError as well for a request that says
        its end in two ways."""
        try:
            return self._believed(super().next_event())
        except h11.RemoteProtocolError as fault:
            self.fault = fault
            raise

    def refusal(self) -> bytes:
        """The whole answer to what could not be read, of a HEAD without its body; empty
        where another answer has begun."""
        if self.fault is None or self.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return b""
        head, body, end = _answer(self.fault)
        events = [head, end] if self._is_of_head else [head, body, end]
        return b"".join(self.send(event) or b"" for event in events)

    def _believed(self, event: Any) -> Any:
        if isinstance(event, h11.Request):
            self._is_of_head = event.method == b"HEAD"
            if _bytes_of(event) > HEAD_BYTES_MAX:
                raise h11.RemoteProtocolError(_TOO_LONG, _TOO_LARGE)
            said = {name for name, _ in event.headers}
            if said >= {_LENGTH, _CODING}:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding")
        return event


def _bytes_of(head: h11.Request) -> int:
    """About: h11 keeps no spaces, and bounds a head only as long as it is not whole."""
    return len(head.target) + sum(len(n) + len(v) + 4 for n, v in head.headers)


def _answer(
    fault: h11.RemoteProtocolError,
) -> tuple[h11.Response, h11.Data, h11.EndOfMessage]:
    status = HTTPStatus(fault.error_status_hint)
    is_long = status == _TOO_LARGE
    why = _TOO_LONG if is_long else f"{fault}."
    message = f"HTTP {status.value} {status.phrase}: {why}"
    body = json.dumps({"error_code": status.value, "message": message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    reason = status.phrase.encode()
    head = h11.Response(status_code=status.value, headers=headers, reason=reason)
    return head, h11.Data(data=body), h11.EndOfMessage()

"""Requests that say in two ways where they end are not believed.

The problem: a request with `Content-Length` beside `Transfer-Encoding` ends at one byte
for us and at another for a proxy before us, so that the rest of it is a request that
the proxy never saw. h11 goes by the second and takes no notice of the first. The idea:
such a request is no request. (Two lengths that differ are an error of h11's own.)

Source: RFC 9112, section 6.3, "Message Body Length".
"""

from typing import Any, Final

import h11

_LENGTH: Final = b"content-length"
_CODING: Final = b"transfer-encoding"


class Framed(h11.Connection):
    """Reads requests that say once where they end."""

    def next_event(self) -> Any:
        """h11's next event. Raises RemoteProtocolError as well for a request that says
        its end in two ways."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            said = {name for name, _ in event.headers}
            if said >= {_LENGTH, _CODING}:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding")
        return event

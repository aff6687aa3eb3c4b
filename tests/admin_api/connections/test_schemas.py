"""A connection's names are a client's own words."""

from admin_api.connections.schemas import Connection


def test_whatever_a_client_calls_itself_can_be_shown():
    row = dict.fromkeys(Connection.model_fields, 0)
    words = {"address": "h:1", "client_id": "\ud83d", "software_version": ""}
    found = Connection(**(row | words | {"software_name": "x"}))
    assert found.client_id == "?"

"""The table of APIs agrees with what other implementations know of Kafka."""

from kio.schema.index import api_key_map

from broker.protocol.api_keys import FIRST_FLEXIBLE, VERSIONS, ApiKey


def test_names_and_numbers_are_kafkas():
    for key in ApiKey:
        assert api_key_map[int(key)] == key.name.lower()


def test_every_api_has_versions():
    assert set(VERSIONS) == set(ApiKey)
    assert ApiKey.PRODUCE.versions == range(14)


def test_two_apis_never_became_flexible():
    assert set(ApiKey) - set(FIRST_FLEXIBLE) == {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.OFFSET_DELETE,
    }
    assert not ApiKey.OFFSET_DELETE.flexible(0)
    assert [ApiKey.PRODUCE.flexible(v) for v in (8, 9)] == [False, True]

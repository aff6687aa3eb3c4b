"""Places: URLs and names of resources."""

from admin_api.resources import Body, cluster_place, printable

CLUSTER = cluster_place("http://plane", "c-1")


def test_a_place_is_a_url_and_a_name():
    partition = CLUSTER.at("topics", "orders").at("partitions", 3)
    assert partition.metadata().model_dump() == {
        "self": "http://plane/v3/clusters/c-1/topics/orders/partitions/3",
        "resource_name": "crn:///kafka=c-1/topic=orders/partition=3",
    }
    assert partition.link().related == partition.url
    assert partition.link("replicas").related == f"{partition.url}/replicas"


def test_text_that_no_encoding_takes_is_shown_all_the_same():
    assert printable("a\ud83d") == "a?"
    assert printable("grüezi 💥") == "grüezi 💥"


def test_what_there_is_one_of_has_no_number():
    summary = CLUSTER.at("consumer-groups", "g").one("lag-summary")
    assert summary.url == "http://plane/v3/clusters/c-1/consumer-groups/g/lag-summary"
    assert summary.crn == "crn:///kafka=c-1/consumer-group=g/lag-summary"


def test_names_are_written_so_that_a_url_can_have_them():
    place = CLUSTER.at("consumer-groups", "a b/c?d")
    assert place.url.endswith("/consumer-groups/a%20b%2Fc%3Fd")
    assert place.crn.endswith("/consumer-group=a b/c?d")


def test_a_collection_names_its_next_page():
    assert CLUSTER.listed("topics").model_dump() == {
        "self": "http://plane/v3/clusters/c-1/topics",
        "next": None,
    }
    following = CLUSTER.listed("topics", "page_token=x")
    assert following.next == "http://plane/v3/clusters/c-1/topics?page_token=x"


def test_a_body_takes_no_field_that_nobody_knows():
    assert Body.model_config["extra"] == "forbid"

"""Settings over HTTP."""


def test_what_is_set_and_what_can_be(lonely):
    values = {one["key"]: one for one in lonely.get("/v1/config").json()["data"]}
    assert values["data_dir"]["value"] == str(lonely.data_dir)
    assert not values["data_dir"]["is_default"]
    known = lonely.get("/v1/config/schema").json()["data"]
    assert {one["key"] for one in known} == values.keys()
    assert all(one["description"] and one["type"] for one in known)

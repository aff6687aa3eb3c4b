"""The report of a running plane."""


def test_the_report_names_the_listeners_as_they_are(plane):
    found = plane.get("/v1/security/report").json()
    addresses = {one["name"]: one["address"] for one in found["interfaces"]}
    parts = {"internal", "internal of the compactor"}
    assert addresses.keys() == {"kafka", "admin", *parts}
    assert addresses["internal"].endswith("run/broker.sock")
    assert found["alerts"] == []
    assert found["tokens"] is None


def test_with_tokens_it_counts_them_by_role(plane, guarded):
    header = guarded["viewer"]
    found = plane.ask("GET", "/v1/security/report", headers=header).json()
    assert found["tokens"] == {"viewer": 1, "operator": 1, "admin": 1}
    admin = next(one for one in found["interfaces"] if one["name"] == "admin")
    assert admin["authentication_method"] == "BEARER"

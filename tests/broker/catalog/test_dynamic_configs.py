"""Configurations of resources that are no topics, over a restart."""

from functools import partial
from pathlib import Path

from broker.catalog import dynamic_configs
from broker.catalog.catalog import Catalog

BROKER, GROUP = 4, 32
LONG = "x" * 32_767


def test_they_are_kept_by_kind_and_name_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as catalog:
        for resource, configs in (
            ((BROKER, "1"), {"a": "1"}),
            ((BROKER, ""), {"a": "2"}),
            ((GROUP, "1"), {"b": "3"}),
            ((GROUP, "'; drop table topics; --\x00"), {LONG: LONG}),
            ((BROKER, "1"), {"c": "4"}),
        ):
            catalog.change(
                partial(dynamic_configs.store, resource=resource, configs=configs)
            )
    with Catalog.open(path) as catalog:
        assert catalog.read(dynamic_configs.load) == {
            (BROKER, "1"): {"c": "4"},
            (BROKER, ""): {"a": "2"},
            (GROUP, "1"): {"b": "3"},
            (GROUP, "'; drop table topics; --\x00"): {LONG: LONG},
        }


def test_a_resource_of_which_nothing_is_configured_is_forgotten(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        for configs in ({"a": "1"}, {}, {}):
            catalog.change(
                partial(dynamic_configs.store, resource=(GROUP, "g"), configs=configs)
            )
        assert catalog.read(dynamic_configs.load) == {}

"""What clients configure is durable, then in effect, then answered; and bounded."""

import asyncio
import itertools
from concurrent.futures import Future

import pytest

from broker.catalog.catalog import Catalog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.configs import dynamic_configs
from broker.runtime.configs.dynamic_configs import ALTERED_AT_ONCE, DynamicConfigs
from broker.runtime.configs.layers import Kind
from broker.settings import Settings

GROUP = Kind.GROUP, "g"


@pytest.fixture
def catalog(tmp_path):
    with Catalog.open(tmp_path / "catalog.db") as opened:
        yield opened


def loaded(catalog):
    made = DynamicConfigs(catalog, Settings(node_id=3))
    made.load()
    return made


def to(**configs):
    return lambda _: dict(configs)


def run(story):
    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_change_is_seen_by_watchers_and_after_a_restart(catalog):
    async def story():
        configs, seen = loaded(catalog), []

        async def watch(resource):
            seen.append((resource, dict(configs.of(*resource))))

        configs.watch(watch)
        await configs.alter(GROUP, to(a="1"))
        await configs.alter(GROUP, lambda present: {**present, "b": "2"})
        await configs.alter(GROUP, to(a="1", b="2"))  # nothing changes
        assert seen == [(GROUP, {"a": "1"}), (GROUP, {"a": "1", "b": "2"})]
        again = loaded(catalog)
        assert again.of(*GROUP) == {"a": "1", "b": "2"}
        assert (again.names(Kind.GROUP), again.names(Kind.BROKER)) == (["g"], [])
        await again.alter(GROUP, to())
        assert loaded(catalog).names(Kind.GROUP) == []

    run(story)


def test_changes_of_one_resource_follow_each_other(catalog):
    async def story():
        configs = loaded(catalog)

        def more(present):
            return {"n": str(int(present.get("n", "0")) + 1)}

        await asyncio.gather(*(configs.alter(GROUP, more) for _ in range(20)))
        assert configs.of(*GROUP) == {"n": "20"}

    run(story)


class Holding:
    """A catalog that commits nothing until it is let."""

    def __init__(self, catalog):
        self.catalog, self.asked = catalog, []

    def read(self, query):
        return self.catalog.read(query)

    def submit(self, change):
        self.asked.append((change, Future()))
        return self.asked[-1][1]

    def let(self, error=None):
        asked, self.asked = self.asked, []
        for change, future in asked:
            if error is None:
                self.catalog.submit(change).result()
                future.set_result(None)
            else:
                future.set_exception(error)


def side_by_side(count):
    """Names of groups that do not wait for each other."""
    found = {}
    for name in map(str, itertools.count()):
        found.setdefault(hash((Kind.GROUP, name)) % ALTERED_AT_ONCE, name)
        if len(found) == count:
            return sorted(found.values())
    raise AssertionError("there are names without end")


def test_resources_change_side_by_side_within_the_limits(catalog, monkeypatch):
    monkeypatch.setattr(dynamic_configs, "RESOURCES_MAX", 12)
    monkeypatch.setattr(dynamic_configs, "BYTES_MAX", 1_000)

    async def story():
        held, names = Holding(catalog), side_by_side(20)
        configs = loaded(held)

        async def changing(names, **given):
            each = [
                asyncio.ensure_future(configs.alter((Kind.GROUP, name), to(**given)))
                for name in names
            ]
            while len(held.asked) + sum(one.done() for one in each) < len(each):
                await asyncio.sleep(0)
            return each

        each = await changing(names, a="1")
        assert len(held.asked) == 12
        held.let(OSError("the disk is full"))
        found = await asyncio.gather(*each, return_exceptions=True)
        assert sum(isinstance(one, OSError) for one in found) == 12
        assert configs.names(Kind.GROUP) == []
        each = await changing(names[:3], a="x" * 400)
        assert len(held.asked) == 2
        held.let()
        await asyncio.gather(*each, return_exceptions=True)
        assert configs.names(Kind.GROUP) == names[:2]
        assert loaded(catalog).names(Kind.GROUP) == names[:2]

    run(story)


def test_a_change_goes_on_if_its_caller_is_gone(catalog):
    async def story():
        configs = loaded(catalog)
        changed = asyncio.Event()

        async def watch(_):
            changed.set()

        configs.watch(watch)
        caller = asyncio.ensure_future(configs.alter(GROUP, to(a="1")))
        await asyncio.sleep(0)
        caller.cancel()
        await changed.wait()
        assert configs.of(*GROUP) == {"a": "1"}

    run(story)


def test_layers_are_those_of_this_node_and_of_all(catalog):
    async def story():
        configs = loaded(catalog)
        for name, value in (("3", "own"), ("", "common"), ("4", "another's")):
            await configs.alter((Kind.BROKER, name), to(a=value))
        assert configs.layers.own == {"a": "own"}
        assert configs.layers.common == {"a": "common"}
        assert configs.layers.dynamic == {"a": "own"}

    run(story)


def test_there_is_an_end_to_keys_resources_and_bytes(catalog, monkeypatch):
    monkeypatch.setattr(dynamic_configs, "KEYS_MAX", 3)
    monkeypatch.setattr(dynamic_configs, "RESOURCES_MAX", 2)
    monkeypatch.setattr(dynamic_configs, "BYTES_MAX", 1_000)

    async def story():
        configs = loaded(catalog)
        for resource, given in (
            (GROUP, {str(n): "1" for n in range(4)}),
            (GROUP, {"a": "x" * 1_000}),
            ((Kind.GROUP, "x" * 1_000), {"a": "1"}),
        ):
            with pytest.raises(KafkaError) as refused:
                await configs.alter(resource, to(**given))
            assert refused.value.code is ErrorCode.POLICY_VIOLATION
        await configs.alter(GROUP, to(a="x" * 900))
        await configs.alter((Kind.GROUP, "h"), to(a="1"))
        with pytest.raises(KafkaError):
            await configs.alter((Kind.GROUP, "i"), to(a="1"))
        await configs.alter((Kind.GROUP, "h"), to())  # and room comes back
        await configs.alter(GROUP, to())
        await configs.alter((Kind.GROUP, "i"), to(a="x" * 900))
        with pytest.raises(KafkaError):
            loaded(catalog).check(GROUP, to(a="x" * 900))

    run(story)

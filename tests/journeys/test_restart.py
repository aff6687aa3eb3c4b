"""A broker goes and comes back under clients that stay as they are."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.clients import LIBRARIES
from tests.support.confluent import create, read
from tests.support.process import BrokerPart


def numbers(*span: int) -> list[bytes]:
    return [b"%d" % n for n in range(*span)]


@pytest.mark.shared_out("restarts", 4)
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_groups_of_all_libraries_go_on_where_they_were(tmp_path, how):
    """One restart under all three at once; nothing that was not committed is missed.

    Members are kept over a restart, and whoever joins again for reasons of its own
    reads from what was committed.
    """
    broker = BrokerPart(tmp_path / "data", "groups.initial_rebalance_delay_ms=100")
    broker.start()
    clients = {}
    for name, library in LIBRARIES.items():
        create(broker.bootstrap, name)
        clients[name] = library(broker.bootstrap, name, f"group-{name}")

    def before(client):
        client.produce(numbers(10))
        got = [client.next() for _ in range(10)]
        assert client.commit()
        client.produce(numbers(10, 15))  # acknowledged, and read by nobody
        return got

    def after(client):
        client.produce(numbers(15, 20))
        got = [client.next()]
        while got[-1] != b"19" or not client.commit():
            got.append(client.next())
        return got

    with ThreadPoolExecutor(3) as at_once:
        read_before = list(at_once.map(before, clients.values()))
        assert read_before == [numbers(10)] * 3
        broker.stop() if how == "SIGTERM" else broker.kill()
        broker.start()
        read_after = dict(
            zip(clients, at_once.map(after, clients.values()), strict=True)
        )
        for name, got in read_after.items():
            assert got[0] == b"10", (name, got)
            assert list(dict.fromkeys(got)) == numbers(10, 20), (name, got)
        list(at_once.map(lambda client: client.close(), clients.values()))
    for name, library in LIBRARIES.items():
        another = library(broker.bootstrap, name, f"group-{name}")
        another.produce([b"last"])
        assert another.next() == b"last", name
        another.close()
    broker.stop()


def test_idempotent_producers_write_once_whenever_the_broker_is_killed(tmp_path):
    broker = BrokerPart(tmp_path / "data")
    broker.start()
    clients = {}
    for name, library in LIBRARIES.items():
        create(broker.bootstrap, name)
        clients[name] = library(broker.bootstrap, name, f"group-{name}")
    enough = threading.Event()

    def produce(client) -> int:
        """Batches in flight all the time, until it is enough; how many records."""
        done = 0
        while not enough.is_set():
            client.produce(numbers(done, done + 50))
            done += 50
        return done

    with ThreadPoolExecutor(3) as at_once:
        counting = {n: at_once.submit(produce, c) for n, c in clients.items()}
        for _ in range(3):
            time.sleep(0.7)
            broker.kill()
            broker.start()
        time.sleep(1)
        enough.set()
        counts = {name: count.result() for name, count in counting.items()}
    for name, count in counts.items():
        found = read(broker.bootstrap, name, count)
        assert [m.value() for m in found] == numbers(count), name
        clients[name].close()
    broker.stop()

"""The guide's page on the internal secret, acted out on a broker and a plane."""

import asyncio
import io
import json
import re
import secrets
import shutil
import socket
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from admin_api.guide.rendering import pages
from admin_api.internal import Internal
from admin_api.problems import Problem
from tests.support.confluent import produce_all
from tests.support.patience import wait_until
from tests.support.process import BrokerPart, Part

[PAGE] = [page.markdown for page in pages() if page.name == "internal-secret"]
WORDS = " ".join(PAGE.split())
[REFUSED] = re.findall(r"^> (.*)$", PAGE, re.MULTILINE)
PUT_ANEW, DELETE, _ = re.findall(r"(?ms)^```sh run\n(.*?)^```$", PAGE)
FIGURE = "lakelog_topic_bytes_in_total"


def an_address():
    """Where nobody else listens meanwhile: a loopback address of its own."""
    numbers = [1 + byte % 250 for byte in secrets.token_bytes(3)]
    host = ".".join(map(str, (127, *numbers)))
    with socket.socket() as bound:
        bound.bind((host, 0))
        return f"{host}:{bound.getsockname()[1]}"


class System:
    """A broker that answers at an address, and a plane that asks it there."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.directory, self.data_dir = directory, directory / "lakelog-data"
        self.address = an_address()
        own = (f"internal.broker={self.address}", *settings)
        self.broker = BrokerPart(self.data_dir, *own)
        self.plane = Part("admin", self.data_dir, *own)

    def start(self):
        self.broker.start()
        named = ["--admin", "127.0.0.1:0", "--bootstrap", self.broker.bootstrap]
        self.plane.arguments = named
        self.plane.start()

    def asked(self, path):
        try:
            with urlopen(self.plane.facts["admin"] + path) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def missing(self):
        """What is missing in a debug bundle."""
        with urlopen(self.plane.facts["admin"] + "/v1/debug/bundle") as answer:
            packed = io.BytesIO(answer.read())
        with tarfile.open(fileobj=packed) as tar:
            manifest = tar.extractfile("lakelog-debug/manifest.json").read()
        return json.loads(manifest)["missing"]

    def types(self, code):
        subprocess.run(["bash", "-euc", code], cwd=self.directory, check=True)

    def serves_kafka(self):
        bootstrap = self.broker.bootstrap
        produce_all(bootstrap, "orders", [(None, b"x", None, 0)])
        wait_until(lambda: self.asked("/readyz")[0] == 200)
        assert self.asked("/v1/health")[0] == 200

    def end(self):
        for part in (self.plane, self.broker):
            part.end()


@pytest.fixture
def made():
    """Systems that are ended."""
    found = []
    yield found
    for one in found:
        one.end()


def old_one_is_taken(system, old):
    asking = Internal(system.data_dir, address=system.address, file=old)
    with suppress(Problem):
        asyncio.run(asking.rows("connections"))
        return True
    return False


@pytest.mark.shared_out("pages of the guide", 6)
@pytest.mark.parametrize("is_named", [True, False], ids=["a file", "the one made"])
def test_a_secret_is_rotated_as_the_page_says(tmp_path, made, is_named):
    named = tmp_path / "internal-secret"
    system = System(tmp_path, *([f"internal.secret={named}"] if is_named else []))
    made.append(system)
    file = named if is_named else system.data_dir / "run" / "internal-secret"
    if is_named:
        system.types(PUT_ANEW)
    system.start()
    wait_until(lambda: system.asked("/v1/connections")[0] == 200)
    system.serves_kafka()
    old = tmp_path / "old"
    shutil.copyfile(file, old)

    system.types(PUT_ANEW if is_named else DELETE)
    for path in ("/v1/connections", "/v1/loggers", "/v1/loggers/lakelog.network"):
        status, said = system.asked(path)
        assert status == 503
        assert REFUSED in said if is_named else "No such file or directory" in said
    assert "`No such file or directory`" in WORDS
    assert f"{FIGURE}{{" not in system.asked("/metrics")[1]
    assert f"`{FIGURE}` is missing" in WORDS
    assert "broker/connections.json" in system.missing()
    system.serves_kafka()
    assert "The old secret is good until then" in WORDS
    assert old_one_is_taken(system, old)

    system.broker.stop()
    system.broker.start()
    wait_until(lambda: system.asked("/v1/connections")[0] == 200)
    assert system.asked("/v1/loggers")[0] == 200
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_bytes() != old.read_bytes()
    assert not old_one_is_taken(system, old)
    assert "broker/connections.json" not in system.missing()
    system.serves_kafka()
    wait_until(lambda: f"{FIGURE}{{" in system.asked("/metrics")[1])


@pytest.mark.shared_out("pages of the guide", 6)
def test_a_part_that_finds_none_serves_kafka_without(tmp_path, made):
    [said] = re.findall(r"says `([^`]+)` with the reason in its log", WORDS)
    named = tmp_path / "internal-secret"
    system = System(tmp_path, f"internal.secret={named}")
    made.append(system)
    system.start()
    assert said in system.broker.tail()
    system.serves_kafka()
    system.types(PUT_ANEW)
    assert system.asked("/v1/connections")[0] == 503
    system.broker.stop()
    system.broker.start()
    wait_until(lambda: system.asked("/v1/connections")[0] == 200)

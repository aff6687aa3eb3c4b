"""The load generator: three small C programs, built with the machine's compiler.

Bulk figures of a client in Python would be figures of the client. librdkafka comes
from the confluent-kafka wheel, so nothing but ``cc`` is needed.
"""

import subprocess
from pathlib import Path

HERE = Path(__file__).parent


class NoCompiler(Exception):
    """There is no ``cc`` on this machine."""


def build(folder: Path) -> None:
    """Make the programs in ``folder``, those that are not there yet."""
    import confluent_kafka

    home = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    [library] = home.glob("librdkafka-*")
    link = [str(library), f"-Wl,-rpath,{home}", "-Wl,--allow-shlib-undefined"]
    for name in ("load", "transactions"):
        _compile(name, folder, [*link, "-lpthread"])
    _compile("requests", folder, [])


def _compile(name: str, folder: Path, link: list[str]) -> None:
    source, made = HERE / "load" / f"{name}.c", folder / name
    if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
        return
    try:
        subprocess.run(["cc", "-O2", "-o", str(made), str(source), *link], check=True)
    except FileNotFoundError:
        raise NoCompiler("make bench needs a C compiler (cc)") from None


def run(folder: Path, name: str, *words: object, timeout_s: float = 400) -> dict:
    """One run of a tool; its ``name=value`` pairs as floats."""
    done = subprocess.run(
        [str(folder / name), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    found = {}
    for item in done.stdout.split():
        key, equals, value = item.partition("=")
        if equals:
            found[key] = float(value)
    if not found or done.returncode != 0:
        raise RuntimeError(f"{name} {words}: {done.stdout} {done.stderr}")
    return found

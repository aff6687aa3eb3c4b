"""The secret of the internal endpoints: made once, whole, for its owner's eyes."""

import stat
import threading

import pytest

from broker.status.secret import FILE, SecretUnusable, made, read


def test_it_is_made_once_and_for_its_owner_alone(tmp_path):
    path = made(tmp_path)
    found = read(path)
    assert (path, len(found)) == (tmp_path / FILE, 64)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read(made(tmp_path)) == found
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_whoever_makes_it_at_once_with_others_has_the_same(tmp_path):
    start, found = threading.Barrier(8), []

    def make():
        start.wait()
        found.append(read(made(tmp_path)))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"x" * 31, b"x" * 2000, b"x" * 40 + b"\n" + b"y" * 40, b"\x00" * 40],
)
def test_a_file_without_a_secret_is_refused_and_not_told(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(SecretUnusable) as refused:
        read(tmp_path / "file")
    assert "has no secret" in str(refused.value)
    assert "xxx" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SecretUnusable, match="nowhere: No such file"):
        read(tmp_path / "nowhere")
    with pytest.raises(OSError, match="No such file"):
        made(tmp_path / "nowhere")

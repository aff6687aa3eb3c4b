"""Status files: whole, stale, broken or not there."""

import json
import os
import time

from admin_api.status import STALE_S, StatusFiles


def write(tmp_path, content, age_s=0.0):
    (tmp_path / "run").mkdir(exist_ok=True)
    path = tmp_path / "run" / "broker.json"
    path.write_text(content)
    then = time.time() - age_s
    os.utime(path, (then, then))
    return StatusFiles(tmp_path)


def test_a_fresh_file_is_read(tmp_path):
    assert write(tmp_path, json.dumps({"a": 1})).read("broker") == {"a": 1}


def test_a_stale_file_is_of_a_part_that_is_gone(tmp_path):
    assert write(tmp_path, "{}", age_s=STALE_S + 5).read("broker") is None


def test_no_file_and_no_json_and_no_object(tmp_path):
    assert StatusFiles(tmp_path).read("broker") is None
    for content in ("", "{", "[1]", "\0"):
        assert write(tmp_path, content).read("broker") is None

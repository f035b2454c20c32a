"""Files that are complete or not there, and that others may read as any file of the user's."""

import json
import math
import os

import pytest

from regard.evaluation.files import check_output_file, check_output_folder, json_text, replacing
from regard.train.records import read_json, write_json


def write_half(partial):
    partial.write_text("half")
    raise OSError("the disk is full")


def test_what_was_there_stays_until_all_is_written(tmp_path):
    path = tmp_path / "new" / "notes.txt"
    with replacing(path) as partial:
        partial.write_text("one")
        assert not path.exists()
        assert partial.suffix == ".txt"
    assert path.read_text() == "one"
    with pytest.raises(OSError, match="full"), replacing(path) as partial:
        write_half(partial)
    assert path.read_text() == "one"
    assert [file.name for file in path.parent.iterdir()] == ["notes.txt"]


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    (tmp_path / "link.txt").symlink_to(tmp_path / "notes.txt")
    with replacing(tmp_path / "link.txt") as partial:
        partial.write_text("one")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "notes.txt").read_text() == "one"
    os.mkfifo(tmp_path / "pipe")
    with replacing(tmp_path / "pipe") as partial:
        assert partial == tmp_path / "pipe"
    assert (tmp_path / "pipe").is_fifo()


def test_permissions_are_those_of_a_new_file(tmp_path):
    before = os.umask(0o022)
    try:
        with replacing(tmp_path / "notes.txt") as partial:
            partial.write_text("one")
    finally:
        os.umask(before)
    assert (tmp_path / "notes.txt").stat().st_mode & 0o777 == 0o644


def test_json_is_what_any_program_reads(tmp_path):
    """RFC 8259 has no NaN and no Infinity: what is no number is null, and the rest as it is."""
    content = {"loss": math.nan, "more": [1.5, -math.inf, ("ü", None)], "step": 3, "best": True}
    wanted = {"loss": None, "more": [1.5, None, ["ü", None]], "step": 3, "best": True}
    assert json.loads(json_text(content), parse_constant=pytest.fail) == wanted
    write_json(tmp_path / "a.json", content)
    assert read_json(tmp_path / "a.json") == wanted
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        write_json(tmp_path / "a.json", {"a": object()})
    assert read_json(tmp_path / "a.json") == wanted


def test_a_place_that_takes_no_folder_is_told_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    check_output_folder(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()  # nothing is left behind
    with pytest.raises(ValueError, match="file' is a file, and the results go into a folder"):
        check_output_folder(tmp_path / "file" / "run")

    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(ValueError, match=r"nothing can be written to the folder '.*' \(Read-only file system\)"):
        check_output_folder(tmp_path / "run")
    with pytest.raises(ValueError, match=r"^a.txt cannot be written: nothing can be written to the folder '.*' \(Re"):
        check_output_file(tmp_path / "a.txt", "a.txt")


def test_a_place_that_takes_no_file_is_told_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    for name in ("new/deep/a.txt", "file", "pipe"):
        check_output_file(tmp_path / name, "a.txt")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "pipe"]  # nothing is left behind
    with pytest.raises(ValueError, match=r"^a.txt cannot be written: '.*file' is a file, not a folder\.$"):
        check_output_file(tmp_path / "file" / "a.txt", "a.txt")

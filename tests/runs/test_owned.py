"""Files in a folder of the user: whorl replaces and removes only what it wrote."""

from __future__ import annotations

import json
import os
import socket
from contextlib import nullcontext
from pathlib import Path

import pytest

import checks
from whorl.errors import WhorlError
from whorl.runs import files, owned
from whorl.runs.owned import LIST, Owned


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_own_files_are_replaced_and_stale_ones_removed(tmp_path: Path) -> None:
    folder = Owned(tmp_path / "new" / "out")
    folder.write({"a.md": b"1", "figure-1.png": b"2"})
    folder.write({"a.md": b"3"}, stale=lambda name: name.startswith("figure"))
    assert snapshot(tmp_path / "new" / "out").keys() == {"a.md", LIST}
    assert (tmp_path / "new" / "out" / "a.md").read_bytes() == b"3"
    folder.write({"b.md": b"4"})  # another command in the same folder
    folder.write({"a.md": b"5"})
    assert (tmp_path / "new" / "out" / "b.md").read_bytes() == b"4"


def _foreign(folder: Path) -> None:
    (folder / "b.md").write_bytes(b"of the user")


def _edited(folder: Path) -> None:
    (folder / "a.md").write_bytes(b"edited by the user")


def _stale_and_edited(folder: Path) -> None:
    (folder / "figure-1.png").write_bytes(b"edited by the user")


def _a_folder(folder: Path) -> None:
    (folder / "b.md").mkdir()


def _a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "b.md")


def _a_socket(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, socket.socket(socket.AF_UNIX) as made:
        patch.chdir(folder)  # the path of a socket must be short
        made.bind("b.md")


def _a_link(folder: Path) -> None:
    (folder / "b.md").symlink_to(folder / "a.md")


def _a_link_to_itself(folder: Path) -> None:
    (folder / "b.md").symlink_to(folder / "b.md")


def _damaged_list(folder: Path) -> None:
    (folder / LIST).write_text((folder / LIST).read_text().replace("a.md", "b.md"))


def _no_list(folder: Path) -> None:
    (folder / LIST).unlink()


def _list_is_a_folder(folder: Path) -> None:
    (folder / LIST).unlink()
    (folder / LIST).mkdir()


def _deep_list(folder: Path) -> None:
    (folder / LIST).write_text("[" * 100_000)


def _list_of_other_things(folder: Path) -> None:
    (folder / LIST).write_text('{"files": {"a.md": 3}}')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_foreign, r"b\.md was not written by whorl; move it away, or choose another `out`"),
        (_edited, r"a\.md was changed after whorl wrote it; move it away, or choose another `out`"),
        (_stale_and_edited, r"figure-1\.png was changed after whorl wrote it; move it away"),
        (_a_folder, r"b\.md is a folder, and whorl writes a file of that name; move it away"),
        (_a_pipe, r"b\.md is a pipe, and whorl writes a file of that name; move it away"),
        (_a_socket, r"b\.md is a socket, and whorl writes a file of that name; move it away"),
        (_a_link, r"b\.md is a link, and whorl writes a file of that name; move it away"),
        (_a_link_to_itself, r"b\.md is a link, and whorl writes a file of that name; move it away"),
        (_damaged_list, r"\.whorl-files\.json is damaged \(its checksum does not match\); move it away"),
        (_no_list, r"a\.md was not written by whorl; move it away"),
        (_list_is_a_folder, r"cannot read .*\.whorl-files\.json: it is a folder, not a file; move it away"),
        (_deep_list, r"\.whorl-files\.json is damaged \(it is nested too deeply\); move it away"),
        (_list_of_other_things, r"\.whorl-files\.json is damaged \(files\.a\.md: .*\); move it away"),
    ],
)
def test_files_of_the_user_are_not_touched(change: object, message: str, tmp_path: Path) -> None:
    folder = Owned(tmp_path)
    folder.write({"a.md": b"1", "figure-1.png": b"2"})
    assert callable(change)
    change(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(WhorlError, match=message):
        folder.write({"c.md": b"new", "a.md": b"3", "b.md": b"4"}, stale=lambda name: name.startswith("figure"))
    assert snapshot(tmp_path) == before
    with pytest.raises(WhorlError, match=message) if change is not _stale_and_edited else nullcontext():
        folder.prepare(["c.md", "a.md", "b.md"])
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(("target", "what"), [("file", "a file"), ("pipe", "a pipe"), ("/dev/null", "a device")])
def test_a_file_is_no_folder_to_write_to(target: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WhorlError, match=f"{target} is {what}; set `report` to a folder"):
        Owned(tmp_path / target, "report").prepare()


def test_the_same_content_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"1")
    Owned(tmp_path).write({"a.md": b"1"})
    Owned(tmp_path).write({"a.md": b"2"})
    assert (tmp_path / "a.md").read_bytes() == b"2"


def test_killed_between_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list names a file before it is written, so that a kill leaves no file that looks like the user's."""
    Owned(tmp_path).write({"a.md": b"1", "b.md": b"1"})
    real, calls = files.write_bytes, 0

    def killed(path: Path, payload: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise checks.Killed
        real(path, payload)

    monkeypatch.setattr(owned, "write_bytes", killed)
    with pytest.raises(checks.Killed):
        Owned(tmp_path).write({"a.md": b"2", "b.md": b"2"})
    monkeypatch.setattr(owned, "write_bytes", real)
    assert (tmp_path / "a.md").read_bytes() + (tmp_path / "b.md").read_bytes() == b"21"
    Owned(tmp_path).write({"a.md": b"3", "b.md": b"3"})
    assert {len(known) for known in json.loads((tmp_path / LIST).read_text())["files"].values()} == {1}

import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from conftest import Call
from whorl.data import DataOptions, cifar, fetch_cifar100, load
from whorl.errors import WhorlError

KINDS = tuple(f"kind_{i}" for i in range(100))
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def records(count: int) -> bytes:
    """Row i belongs to class i % 100. Its planes are 1, 2 and 3, and its first two pixels encode i."""
    rows = np.zeros((count, 3074), np.uint8)
    rows[:, 0] = 200  # the coarse label, which must not be read as the fine one
    rows[:, 1] = np.arange(count) % 100
    rows[:, 2:] = np.repeat([1, 2, 3], 1024)
    rows[:, 2], rows[:, 3] = np.arange(count) // 256, np.arange(count) % 256
    return rows.tobytes()


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cifar") / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(records(50_000))
    (folder / "test.bin").write_bytes(records(10_000))
    return folder


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch, binary: Path, archive: Path) -> None:
    """Makes the content of ``archive`` the official one."""
    found = {path.name: path.read_bytes() for path in binary.iterdir()}
    monkeypatch.setattr(cifar, "CONTENT", cifar._content(found, KINDS))


@pytest.fixture(scope="module")
def archive(binary: Path) -> Path:
    path = binary.parent / "cifar-100-binary.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name in ("train.bin", "test.bin"):
            tar.add(binary / name, f"../../{name}")  # a path that must never be written to
        names = "\n".join(KINDS).encode()
        member = tarfile.TarInfo("cifar-100-binary/fine_label_names.txt")
        member.size = len(names)
        tar.addfile(member, io.BytesIO(names))
    return path


@pytest.mark.parametrize("level", ["parent", "itself"])
def test_folder(binary: Path, level: str) -> None:
    data = load("cifar100", binary.parent if level == "parent" else binary)
    assert (len(data.train), len(data.test), data.inputs.size) == (50_000, 10_000, 32)
    assert data.train_labels.tolist() == list(np.arange(50_000) % 100)
    image = data.train.read(np.array([12_345]))[0]
    assert image[0, :2, 0].tolist() == [12_345 // 256, 12_345 % 256]
    assert image[5, 5].tolist() == [1, 2, 3]
    assert data.class_names[:2] + data.class_names[-1:] == ("apple", "aquarium_fish", "worm")


@pytest.mark.usefixtures("official")
def test_archive_is_read_in_place(archive: Path, tmp_path: Path) -> None:
    data = load("cifar100", archive)
    assert data.fingerprint == ""
    assert data.class_names[99] == "kind_99"
    assert data.test.read(np.array([9_999]))[0, 0, :2, 0].tolist() == [9_999 // 256, 9_999 % 256]
    assert sorted(path.name for path in archive.parent.iterdir()) == ["cifar-100-binary", "cifar-100-binary.tar.gz"]
    (tmp_path / archive.name).symlink_to(archive)
    assert len(load("cifar100", tmp_path, DataOptions(per_class=1)).train) == 100


def changed(binary: Path, target: Path, what: str) -> Path:
    """A copy of the two files of which one thing differs."""
    target.mkdir()
    for name, count in cifar.COUNTS.items():
        rows = np.frombuffer((binary / name).read_bytes(), np.uint8).reshape(count, 3074).copy()
        if what == "labels" and name == "train.bin":
            rows[:, 1] = np.random.default_rng(0).permutation(rows[:, 1])
        if what == "test pixel" and name == "test.bin":
            rows[-1, -1] ^= 1
        if what == "order":
            rows = rows[::-1]
        if what == "coarse labels":
            rows[:, 0] = 3
        (target / name).write_bytes(rows.tobytes())
    names = [*KINDS[:-1], "other" if what == "names" else KINDS[-1]]
    (target / "fine_label_names.txt").write_text("\n".join(names))
    return target


@pytest.mark.parametrize(("text", "number"), [("", 0), ("apple\nbaby\n", 2), ("\n".join([*KINDS, "more"]), 101)])
def test_a_list_of_other_than_100_names_is_refused(text: str, number: int, binary: Path, tmp_path: Path) -> None:
    place = changed(binary, tmp_path / "data", "nothing")
    (place / "fine_label_names.txt").write_text(text)
    with pytest.raises(WhorlError, match=f"fine_label_names.txt in .* has {number} class names, not 100; download it"):
        load("cifar100", place)


@pytest.mark.usefixtures("official")
def test_other_content_has_a_fingerprint_and_a_notice(binary: Path, tmp_path: Path) -> None:
    prints, said = [], list[str]()
    for what in ("labels", "test pixel", "names", "nothing", "order", "coarse labels"):
        place = changed(binary, tmp_path / what, what)
        prints.append(load("cifar100", place, notify=said.append).fingerprint)
    assert prints[3:] == ["", "", ""]
    assert len({*prints[:3], ""}) == 4
    assert [line.partition(" is not the official CIFAR-100 ")[0] for line in said] == [
        str(tmp_path / what) for what in ("labels", "test pixel", "names")
    ]


@pytest.mark.usefixtures("official")
def test_an_archive_with_a_flipped_byte_is_refused_by_data_and_by_run(
    binary: Path, archive: Path, tmp_path: Path, call: Call
) -> None:
    """Also if the damage is such that it can be unpacked; an archive that was packed again is as good as the first."""
    place = tmp_path / "place"
    place.mkdir()
    given = place / archive.name
    with tarfile.open(given, "w:gz", compresslevel=2) as tar:
        for path in sorted(changed(binary, tmp_path / "same", "nothing").iterdir()):
            tar.add(path, path.name)
    assert load("cifar100", place).fingerprint == ""
    with tarfile.open(given, "w:gz", compresslevel=1) as tar:
        for path in sorted(changed(binary, tmp_path / "flipped", "test pixel").iterdir()):
            tar.add(path, path.name)
    before = given.read_bytes()
    line = f"whorl: {given} is not the official archive, or damaged; move it away and fetch it again from {cifar.URL}"
    for where in (place, given):
        for words in (("data", "cifar100"), ("run", "--data", "cifar100")):
            assert call(*words, "--data-dir", str(where), code=2)[1].strip() == line
    assert given.read_bytes() == before


@pytest.mark.parametrize("more", [[], ["--per-class", "40", "--resize", "16"]], ids=["whole", "smaller"])
def test_a_plan_is_the_same_before_the_download(
    more: list[str], binary: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whorl.data.download.cache", lambda: tmp_path / "cache")
    monkeypatch.setattr("whorl.cli.gridplan.measure", lambda *_: (1e6, 1e6))
    words = ["reproduce", "he2021", "--data", "cifar100", "--step", "10", "--dry-run", *more]
    before, err = call(*words)
    assert err.startswith("cifar100 is not downloaded yet; ")
    assert before == call(*words, "--data-dir", str(binary))[0]


def test_wrong_counts(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "test.bin").symlink_to(binary / "test.bin")
    with pytest.raises(WhorlError, match=r"has no train\.bin"):
        load("cifar100", tmp_path)
    for size in (3074 * 49_000, 3074 * 50_000 + 1, 0):
        (tmp_path / "train.bin").write_bytes(bytes(size))
        with pytest.raises(WhorlError, match=rf"train\.bin in .* has {size:,} bytes, not 153,700,000"):
            load("cifar100", tmp_path)


def test_wrong_labels(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "test.bin").symlink_to(binary / "test.bin")
    (tmp_path / "train.bin").write_bytes(b"\xc8" * (3074 * 50_000))
    with pytest.raises(WhorlError, match="class 200, but CIFAR-100 ends at 99"):
        load("cifar100", tmp_path)


def test_damaged_archives(archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "given.tar.gz"
    whole = archive.read_bytes()
    for content in (whole[: len(whole) // 2], b"not gzip at all", gzip.compress(b"not a tar" * 99), b""):
        path.write_bytes(content)
        with pytest.raises(WhorlError, match=r"given\.tar\.gz is damaged or incomplete") as caught:
            load("cifar100", path)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == content


def test_archive_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("readme.txt"), io.BytesIO())
    with pytest.raises(WhorlError, match=r"has no train\.bin"):
        load("cifar100", path)


def test_folders_without_data(tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match="nowhere does not exist; check `data_dir`"):
        load("cifar100", tmp_path / "nowhere")
    with pytest.raises(WhorlError, match=r"neither train\.bin and test\.bin nor"):
        load("cifar100", tmp_path)
    (tmp_path / "cifar-100-python").mkdir()
    with pytest.raises(WhorlError, match="Python version"):
        load("cifar100", tmp_path)


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(archive: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, official: None) -> Iterator[None]:
    """A local web server with the archive, and an empty cache."""
    server = HTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(archive.parent)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar, "URL", f"http://127.0.0.1:{server.server_port}/{archive.name}")
    monkeypatch.setattr(cifar, "MD5", hashlib.md5(archive.read_bytes()).hexdigest())
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("served")
def test_download_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert len(load("cifar100", None).train) == 50_000
    monkeypatch.setattr(cifar, "URL", "http://127.0.0.1:9/none")
    assert len(load("cifar100", None).test) == 10_000
    assert fetch_cifar100(None).is_relative_to(tmp_path / "cache")
    assert "cifar-100-binary.tar.gz" in capfd.readouterr().err


@pytest.mark.usefixtures("served")
def test_fetch_to_a_folder(tmp_path: Path, binary: Path) -> None:
    target = tmp_path / "new" / "place"
    assert fetch_cifar100(target) == target / "cifar-100-binary.tar.gz"
    assert len(load("cifar100", target).train) == 50_000
    assert fetch_cifar100(binary.parent) == binary  # unpacked files are accepted as well
    given = target / "cifar-100-binary.tar.gz"
    assert fetch_cifar100(given) == given


@pytest.mark.usefixtures("served")
def test_a_users_file_is_never_replaced(tmp_path: Path) -> None:
    half = tmp_path / "cifar-100-binary.tar.gz"
    half.write_bytes(b"half")
    assert fetch_cifar100(tmp_path) == half
    with pytest.raises(WhorlError, match=r"cifar-100-binary\.tar\.gz is damaged or incomplete"):
        load("cifar100", tmp_path)
    assert half.read_bytes() == b"half"


@pytest.mark.usefixtures("served")
def test_failed_downloads_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    with monkeypatch.context() as patch:
        patch.setattr(cifar, "MD5", "0" * 32)
        with pytest.raises(WhorlError, match="does not have the expected md5 000"):
            fetch_cifar100(target)
    for url in (cifar.URL + ".missing", "http://127.0.0.1:9/refused"):
        monkeypatch.setattr(cifar, "URL", url)
        with pytest.raises(WhorlError, match=r"cannot download http.* check the network") as caught:
            fetch_cifar100(target)
        assert "\n" not in str(caught.value)
    assert list(target.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "unpack").exists(), reason="the real CIFAR-100 is not at ../shared/data")
def test_real_images(tmp_path: Path) -> None:
    subprocess.run([sys.executable, SHARED / "unpack", tmp_path], check=True, capture_output=True)
    data = load("cifar100", tmp_path)
    assert np.bincount(data.train_labels).tolist() == [500] * 100
    assert np.bincount(data.test_labels).tolist() == [100] * 100
    values = data.train.read(np.arange(50_000)).reshape(-1, 3).numpy()
    assert np.abs(values.mean(0) / 255 - data.inputs.mean).max() < 2e-4
    assert np.abs(values.std(0) / 255 - data.inputs.std).max() < 2e-4
    assert data.class_names == tuple(cifar._CLASSES.split())
    assert data.fingerprint == ""

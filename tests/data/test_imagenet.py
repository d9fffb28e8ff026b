from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from whorl.data import DataOptions, FileSource, batches, load
from whorl.data.configured import load_configured
from whorl.data.imagenet import same_subset, subset_wnids, wnids
from whorl.errors import WhorlError
from whorl.sections import DataConfig

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "tinyimagenet100"
real = pytest.mark.skipif(not SHARED.exists(), reason="Tiny ImageNet is not at ../shared/data/tinyimagenet100")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def layout(root: Path, classes: list[str]) -> Path:
    for part in ("train", "val"):
        for i, wnid in enumerate(classes):
            (root / part / wnid).mkdir(parents=True)
            Image.new("RGB", (30, 20), (i, 0, 0)).save(root / part / wnid / f"{wnid}_1.JPEG")
    return root


def test_the_thousand() -> None:
    every = wnids()
    assert len(set(every)) == 1000
    assert every == sorted(every)
    assert (every[0], every[99], every[-1]) == ("n01440764", "n01855672", "n15075141")


def test_s1_and_s2() -> None:
    assert subset_wnids("S1") == wnids()[:100]
    state = np.random.RandomState(1993)  # numpy's legacy generator drew the published choice
    assert subset_wnids("S2") == [wnids()[i] for i in sorted(state.permutation(1000)[:100])]


def test_list_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("# mine\nn15075141\n0  # the tench\n\n")
    assert subset_wnids(str(path)) == ["n01440764", "n15075141"]
    for text, message in (
        ("1000", "'1000' is neither"),
        ("tench", "'tench' is neither"),
        ("0\nn01440764", "lists n01440764 more than once"),
        ("# none", "lists no class"),
    ):
        path.write_text(text)
        with pytest.raises(WhorlError, match=message):
            subset_wnids(str(path))
    with pytest.raises(WhorlError, match="'S3' is neither S1 nor S2 nor a list file"):
        subset_wnids("S3")


def test_the_config_of_a_list_file_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = layout(tmp_path / "data", ["n01440764", "n01443537", "n15075141"])
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("\ufeffn15075141\n0\n", encoding="utf-8")
    wanted = DataConfig(name="imagenet100", resize=8, subset="mine.txt")
    section, data = load_configured(wanted, root, False, 0, print)
    assert section.subset == "n01440764 n15075141"
    assert section.fingerprint == data.fingerprint
    Path("mine.txt").unlink()
    again, same = load_configured(DataConfig.model_validate(section.model_dump()), root, False, 0, print)
    assert again == section
    assert same.class_names == data.class_names == ("n01440764", "n15075141")
    for bad in ("list", "n01440764 n01440764", "n1", "\0", "x" * 5000):
        with pytest.raises(WhorlError, match=r"is neither S1 nor S2|lists n01440764 more than once"):
            subset_wnids(bad)


def test_named_subsets_keep_their_names(tmp_path: Path) -> None:
    for name in ("S1", "S2"):
        assert same_subset(name) == name
        (tmp_path / "list.txt").write_text("\n".join(reversed(subset_wnids(name))))
        assert same_subset(str(tmp_path / "list.txt")) == name


def test_sizes(tmp_path: Path) -> None:
    root = layout(tmp_path, ["n00000002", "n00000001"])
    data = load("imagenet", root)
    assert (data.train.size, data.train.resident) == (256, False)
    assert (data.inputs.kind, data.inputs.size, data.inputs.view) == ("images", 224, "resized_crop")
    assert data.inputs.mirrors
    assert data.class_names == ("n00000001", "n00000002")
    assert data.train.read(np.array([0, 1])).shape == (2, 256, 256, 3)
    smaller = load("imagenet", root, DataOptions(resize=112))
    assert (smaller.train.size, smaller.inputs.size) == (128, 112)


def test_subset_takes_its_classes_only(tmp_path: Path) -> None:
    root = layout(tmp_path, [*subset_wnids("S1"), "n99999999"])
    data = load("imagenet100", root, DataOptions(resize=8))
    assert data.class_names == tuple(subset_wnids("S1"))
    assert len(data.train) == len(data.test) == 100
    with pytest.raises(WhorlError, match=r"train lacks 91 of 100 class folders: n01882714, "):
        load("imagenet100", root, DataOptions(subset="S2"))


def test_unsuitable_layouts(tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match="imagenet needs a folder with images; set `data_dir`"):
        load("imagenet", None)
    with pytest.raises(WhorlError, match="train does not exist; ImageNet is expected in"):
        load("imagenet", tmp_path)
    (tmp_path / "train" / "n01440764").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "train" / "n01440764" / "a.JPEG")
    (tmp_path / "val").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "val" / "ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(WhorlError, match="val must be sorted into class folders"):
        load("imagenet", tmp_path)
    (tmp_path / "val" / "n01443537").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "val" / "n01443537" / "a.JPEG")
    with pytest.raises(WhorlError, match="training samples but no test samples: n01440764"):
        load("imagenet", tmp_path)


@real
def test_real_images_by_workers() -> None:
    data = load("imagenet", SHARED, DataOptions(resize=56))
    assert (len(data.train), len(data.test), len(data.class_names)) == (4000, 1000, 100)
    assert isinstance(data.train, FileSource)
    wanted = [np.arange(0, 4000, 100), np.arange(39, 4000, 133)]
    for batch, indices in zip(batches(data.train, wanted, workers=2), wanted, strict=True):
        assert torch.equal(batch, data.train.read(indices))
    image = Image.open(data.train.path(17)).convert("RGB")
    assert data.train.size == 64 == image.width
    assert np.array_equal(data.train.read(np.array([17]))[0].numpy(), np.asarray(image))


@real
def test_real_images_by_list(tmp_path: Path) -> None:
    chosen = sorted(path.name for path in (SHARED / "train").iterdir())[3:7]
    (tmp_path / "four.txt").write_text("\n".join(reversed(chosen)))
    data = load("imagenet100", SHARED, DataOptions(resize=56, subset=str(tmp_path / "four.txt"), per_class=5))
    assert data.class_names == tuple(chosen)
    assert (len(data.train), len(data.test)) == (20, 40)

"""Vectors from npz files: values, classes, scale, fingerprint and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from whorl.data import DataOptions, Dataset, Subset, VectorSource, load, vectors
from whorl.data.inputs import Inputs
from whorl.data.split import split
from whorl.errors import WhorlError

Arrays = dict[str, Any]


def arrays(seed: int = 0) -> Arrays:
    """Three classes in five dimensions: 12 training and 6 test samples, not sorted by class."""
    rng = np.random.default_rng(seed)
    return {
        "train": rng.normal(size=(12, 5)).astype(np.float32),
        "train_labels": np.arange(12) % 3,
        "test": rng.normal(size=(6, 5)).astype(np.float32),
        "test_labels": np.arange(6)[::-1] % 3,
    }


def loaded(folder: Path, given: Arrays, **options: Any) -> Dataset:
    path = folder / "vectors.npz"
    np.savez(path, **given)
    return load("vectors", path, DataOptions(**options))


def rows(source: Any) -> torch.Tensor:
    found = source.read(np.arange(len(source)))
    assert isinstance(found, torch.Tensor)
    return found


def test_values(tmp_path: Path) -> None:
    given = arrays()
    data = loaded(tmp_path, given)
    assert (data.name, data.class_names, data.skipped) == ("vectors", ("0", "1", "2"), ())
    for source, part in ((data.train, "train"), (data.test, "test")):
        assert isinstance(source, VectorSource)
        assert (source.size, source.resident, len(source)) == (5, True, len(given[part]))
        assert rows(source).dtype == torch.float32
        assert np.array_equal(rows(source).numpy(), given[part])
        assert np.array_equal(source.read(np.array([4, 1, 4])).numpy(), given[part][[4, 1, 4]])
    assert data.train_labels.tolist() == given["train_labels"].tolist()
    assert data.test_labels.tolist() == given["test_labels"].tolist()
    assert data.train_labels.dtype == data.test_labels.dtype == np.int64


def test_inputs_are_scaled_by_the_training_vectors(tmp_path: Path) -> None:
    given = arrays()
    data = loaded(tmp_path, given)
    scale = float(np.sqrt(np.mean(given["train"].astype(np.float64) ** 2)))
    assert data.inputs.std[0] == pytest.approx(scale, rel=1e-12)
    assert data.inputs == Inputs("vectors", 5, (0.0,), data.inputs.std, "none", mirrors=False)
    larger = loaded(tmp_path, {**given, "train": 1000 * given["train"], "test": given["test"]})
    assert larger.inputs.std[0] == pytest.approx(1000 * scale, rel=1e-6)
    assert loaded(tmp_path, {**given, "train": np.zeros((12, 5))}).inputs.std == (1.0,)


def test_the_scale_does_not_depend_on_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = loaded(tmp_path, arrays())
    monkeypatch.setattr(vectors, "_CHUNK", 5)
    chunked = loaded(tmp_path, arrays())
    assert chunked.inputs.std[0] == pytest.approx(whole.inputs.std[0], rel=1e-12)
    assert chunked.fingerprint == whole.fingerprint


@pytest.mark.parametrize("kind", ["float16", "float64", ">f4", "int16", "uint8"])
def test_numbers_of_any_type_become_float32(tmp_path: Path, kind: str) -> None:
    given = arrays()
    given["train"], given["test"] = (np.abs(np.rint(9 * given[part])).astype(kind) for part in ("train", "test"))
    data = loaded(tmp_path, given)
    assert rows(data.train).dtype == torch.float32
    assert np.array_equal(rows(data.train).numpy(), given["train"].astype(np.float64))


def test_class_names_are_the_sorted_label_values(tmp_path: Path) -> None:
    given = arrays()
    words = {
        **given,
        "train_labels": np.array(["owl", "ant", "bee"] * 4),
        "test_labels": np.array(["bee", "owl", "ant"] * 2),
    }
    data = loaded(tmp_path, words)
    assert data.class_names == ("ant", "bee", "owl")
    assert data.train_labels.tolist() == [2, 0, 1] * 4
    assert data.test_labels.tolist() == [1, 2, 0] * 2
    numbers = {**given, "train_labels": np.array([100, -3, 20] * 4), "test_labels": np.array([20, 100, -3] * 2, "i1")}
    data = loaded(tmp_path, numbers)
    assert data.class_names == ("-3", "20", "100")  # sorted as numbers, not as text
    assert data.train_labels.tolist() == [2, 0, 1] * 4
    assert data.test_labels.tolist() == [1, 2, 0] * 2


def test_without_test_arrays_a_fifth_of_each_class_is_split_off(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    given = {"train": rng.normal(size=(30, 4)), "train_labels": np.repeat([0, 1], [20, 10])}
    data = loaded(tmp_path, given)
    train, test = split(given["train_labels"], ("0", "1"))
    assert isinstance(data.train, Subset)
    assert np.array_equal(rows(data.train).numpy(), given["train"][train].astype(np.float32))
    assert np.array_equal(rows(data.test).numpy(), given["train"][test].astype(np.float32))
    assert np.bincount(data.test_labels).tolist() == [4, 2]
    assert data.train_labels.tolist() == given["train_labels"][train].tolist()
    used = given["train"][train].astype(np.float32).astype(np.float64)
    assert data.inputs.std[0] == pytest.approx(float(np.sqrt(np.mean(used**2))), rel=1e-12)


def test_options(tmp_path: Path) -> None:
    given = arrays()
    few = loaded(tmp_path, given, per_class=2, classes=2)
    assert few.class_names == ("0", "1")
    assert np.bincount(few.train_labels).tolist() == [2, 2]
    assert np.bincount(few.test_labels).tolist() == [2, 2]
    kept = {tuple(row) for row in rows(few.train).tolist()}
    assert kept < {tuple(row) for row in given["train"][given["train_labels"] < 2].tolist()}
    with pytest.raises(WhorlError, match=r"^vectors: vectors have no size in pixels; leave `data.resize` out$"):
        loaded(tmp_path, given, resize=5)
    with pytest.raises(WhorlError, match=r"vectors has 3 classes, fewer than `data.classes=4`"):
        loaded(tmp_path, given, classes=4)


def test_fingerprint_changes_with_the_content(tmp_path: Path) -> None:
    base = loaded(tmp_path, arrays()).fingerprint
    changed = []
    for name, array in arrays().items():
        other = array.copy()
        other[0] = other[1]
        changed.append(loaded(tmp_path, {**arrays(), name: other}).fingerprint)
    swapped = arrays()
    swapped["train"], swapped["train_labels"] = swapped["train"][::-1], swapped["train_labels"][::-1]
    changed.append(loaded(tmp_path, swapped).fingerprint)
    changed.append(loaded(tmp_path, {"train": arrays()["train"], "train_labels": arrays()["train_labels"]}).fingerprint)
    renamed = {name: array + 5 if name.endswith("labels") else array for name, array in arrays().items()}
    changed.append(loaded(tmp_path, renamed).fingerprint)
    assert len({base, *changed}) == 8
    assert all(len(print_) == 32 for print_ in changed)


def test_fingerprint_depends_on_the_values_only(tmp_path: Path) -> None:
    base = loaded(tmp_path, arrays()).fingerprint
    wide = {name: array.astype("f8" if array.ndim == 2 else "i2") for name, array in arrays().items()}
    assert loaded(tmp_path, wide).fingerprint == base
    np.savez_compressed(tmp_path / "elsewhere.npz", **arrays(), notes=np.zeros(3))
    assert load("vectors", tmp_path / "elsewhere.npz").fingerprint == base


NAN = np.where(np.arange(60).reshape(12, 5) % 24 == 0, np.nan, 0.0)
WRONG: list[tuple[Arrays, str]] = [
    ({"train": np.zeros(12)}, r"'train' must be numbers in an array \[samples, dimensions\], not float64 \(12,\)"),
    ({"test": np.zeros((6, 5, 1))}, r"'test' must be numbers .* \(6, 5, 1\)"),
    ({"train": np.zeros((12, 0))}, r"'train' must be numbers .* \(12, 0\)"),
    ({"train": np.zeros((12, 5), complex)}, "'train' must be numbers .* complex128"),
    ({"train": np.full((12, 5), "a")}, "'train' must be numbers"),
    ({"train": np.zeros((0, 5)), "train_labels": np.zeros(0, int)}, "'train' has no samples"),
    ({"test": np.zeros((6, 4))}, "the same number of dimensions, but 'train' has 5 and 'test' has 4"),
    ({"train": NAN}, "3 of 12 rows of 'train' are not finite"),
    ({"test": np.full((6, 5), 1e300)}, "6 of 6 rows of 'test' are not finite"),
    ({"train_labels": np.zeros((12, 1), int)}, r"'train_labels' must be integers or strings .*\(12, 1\)"),
    ({"test_labels": np.arange(6) / 2}, "'test_labels' must be integers or strings .* float64"),
    ({"train_labels": np.arange(11) % 3}, "'train' has 12 samples, but 'train_labels' has 11"),
    ({"train_labels": np.arange(12) % 2}, "1 class.* have test samples but no training samples: 2"),
    ({"test_labels": np.arange(6) % 2}, "1 class.* have training samples but no test samples: 2"),
    ({"train": np.zeros((12, 5)).astype(object)}, "'train' is an array of Python objects; store numbers or strings"),
    ({"test_labels": np.array(["a", 1, None] * 2, object)}, "'test_labels' is an array of Python objects"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_unsuitable_arrays(tmp_path: Path, wrong: Arrays, message: str) -> None:
    with pytest.raises(WhorlError, match=message) as caught:
        loaded(tmp_path, {**arrays(), **wrong})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        (["train"], "has no array 'train'; it has train_labels, test, test_labels"),
        (["train", "train_labels"], "has no array 'train', 'train_labels'; it has test, test_labels"),
        (["test"], "has no array 'test'; it has train, train_labels, test_labels"),
        (["test_labels"], "has no array 'test_labels'"),
        (["train", "train_labels", "test", "test_labels"], "has no array 'train', 'train_labels'; it has none"),
    ],
)
def test_missing_arrays(tmp_path: Path, left_out: list[str], message: str) -> None:
    with pytest.raises(WhorlError, match=rf"vectors\.npz {message}"):
        loaded(tmp_path, {name: array for name, array in arrays().items() if name not in left_out})


def test_too_few_samples_to_split(tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match=r"class 'b' has 1 sample\(s\); at least 2 are needed"):
        loaded(tmp_path, {"train": np.zeros((3, 2)), "train_labels": np.array(["a", "a", "b"])})


def test_unsuitable_files(tmp_path: Path) -> None:
    with pytest.raises(WhorlError, match=r"^vectors needs an npz file with the arrays .*; set `data_dir` to its path$"):
        load("vectors", None)
    with pytest.raises(WhorlError, match=r"nowhere\.npz does not exist; set `data_dir`"):
        load("vectors", tmp_path / "nowhere.npz")
    with pytest.raises(WhorlError, match="is not a file; set `data_dir` to an npz file"):
        load("vectors", tmp_path)
    path = tmp_path / "bad.npz"
    for content in (b"", b"some text", b"PK\x03\x04 not a zip", b"\x80\x04\x95pickle"):
        path.write_bytes(content)
        with pytest.raises(WhorlError, match=r"bad\.npz is not an npz file; write it with numpy\.savez") as caught:
            load("vectors", path)
        assert "\n" not in str(caught.value)
    np.save(tmp_path / "one.npy", np.zeros((3, 2)))
    with pytest.raises(WhorlError, match=r"one\.npy has a single array; write an npz file"):
        load("vectors", tmp_path / "one.npy")


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    np.savez(path, **arrays())
    content = bytearray(path.read_bytes())
    start = content.index(arrays()["test"].tobytes())
    content[start] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(WhorlError, match=r"'test' cannot be read \(Bad CRC-32.*\); write the file again"):
        load("vectors", path)

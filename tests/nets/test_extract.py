"""Feature extraction against a plain forward pass, and how often it happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from small import deliveries, learn, small_learner
from whorl.data.inputs import Inputs
from whorl.data.source import ArraySource, Dataset, Subset
from whorl.nets import extract as module
from whorl.nets.backbone import build
from whorl.nets.extract import BATCH, Features, extract
from whorl.nets.heads import HEADS
from whorl.nets.model import Model, weights
from whorl.runtime import Runtime
from whorl.types import FloatArray, ImageSource

INPUTS = Inputs.images(8)


def images(n: int, seed: int = 0) -> ArraySource:
    draws = torch.Generator().manual_seed(seed)
    return ArraySource(torch.randint(0, 256, (n, 8, 8, 3), dtype=torch.uint8, generator=draws))


def tiny() -> Model:
    model = Model(build("tiny", INPUTS, True, 0), HEADS["linear"](32), 0)
    model.grow(2)
    model.train()(INPUTS.fixed(images(20).images))  # running statistics that are not those of the start
    return model


@pytest.fixture
def extracted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Every extraction: how many samples, and whether they were mirrored."""
    seen: list[tuple[int, bool]] = []

    def counted(*args: object, **more: object) -> FloatArray:
        source, mirror = args[2], args[5] if len(args) > 5 else False
        assert isinstance(source, ImageSource)
        seen.append((len(source), bool(mirror)))
        return extract(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "extract", counted)
    return seen


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 3])
@pytest.mark.parametrize("mirror", [False, True])
def test_extract_is_a_forward_pass_in_eval_mode(count: int, mirror: bool) -> None:
    model, source = tiny(), images(count, seed=1)
    found = extract(model.frozen().backbone, 32, source, INPUTS, Runtime(), mirror)
    assert found.shape == (count, 32)
    assert found.dtype == np.float32
    if count:
        pixels = source.images.flip(2) if mirror else source.images
        with torch.no_grad():
            expected = model.eval().backbone(INPUTS.fixed(pixels)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_features_are_extracted_once_per_state_of_the_backbone(extracted: list[tuple[int, bool]]) -> None:
    model, one, two = tiny(), images(5), images(7)
    features = Features(model, INPUTS, Runtime())
    first = features(one)
    assert features(one) is first
    features(two)
    features(one, mirror=True)
    assert extracted == [(5, False), (7, False), (5, True)]
    model.grow(3)
    with torch.no_grad():
        model.head.weight.zero_()
    assert features(one) is first  # the head does not matter
    before = extracted.copy()
    with torch.no_grad():
        next(model.backbone.parameters()).add_(0.5)
    changed = features(one)
    assert extracted == [*before, (5, False)]
    assert not np.allclose(changed, first)
    np.testing.assert_array_equal(changed, extract(model.frozen().backbone, 32, one, INPUTS, Runtime()))


def test_features_of_a_part_are_taken_from_those_of_the_whole(extracted: list[tuple[int, bool]]) -> None:
    model, source = tiny(), images(9)
    delivered = Subset(source, np.array([8, 1, 4, 6]))
    features = Features(model, INPUTS, Runtime(), delivered)
    part = features(Subset(source, np.array([6, 8])))
    assert extracted == [(4, False)]
    np.testing.assert_array_equal(part, features(delivered)[[3, 0]])
    features(Subset(source, np.array([6, 7])))
    features(Subset(source, np.array([6, 8])), mirror=True)
    assert extracted == [(4, False), (2, False), (4, True)]


def test_any_change_of_the_backbone_is_noticed(extracted: list[tuple[int, bool]]) -> None:
    """A training pass changes the running statistics; an optimiser, loading and ``.data`` change the weights."""
    model, source = tiny(), images(5)
    features = Features(model, INPUTS, Runtime())
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    loss = model.train()(INPUTS.fixed(source.images)).features.sum()
    features(source)
    loss.backward()
    features(source)
    assert len(extracted) == 1
    optimiser.step()
    features(source)
    assert len(extracted) == 2
    model.train()(INPUTS.fixed(source.images))
    features(source)
    assert len(extracted) == 3
    other = {name: value + 1 if name.startswith("backbone.stem") else value for name, value in weights(model).items()}
    model.load(other)
    features(source)
    assert len(extracted) == 4
    next(model.backbone.parameters()).data.mul_(2)
    changed = features(source)
    assert len(extracted) == 5
    np.testing.assert_array_equal(changed, extract(model.frozen().backbone, 32, source, INPUTS, Runtime()))
    next(iter(model.backbone.buffers())).data[0] += 1
    features(source)
    assert len(extracted) == 6
    model.load(weights(model))
    assert features(source) is features(source)
    assert len(extracted) == 6  # the same values


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # Before training: the delivery for its labels (LUCIR imprints with them). After training: the exemplars, and
        # the delivery for Algorithm 2. The class means need nothing more, except for mirrored exemplars.
        ("ours", [(40, False), (16, False), (40, False)]),
        ("lucir", [(40, False), (16, False), (40, False), (24, True)]),
        ("bic", [(40, False), (16, False), (40, False)]),
        ("finetune", [(40, False), (16, False), (40, False)]),
        # EEIL also herds the balanced set with the model after its first phase.
        ("eeil", [(40, False), (40, False), (16, False), (40, False)]),
    ],
)
def test_features_of_a_step_are_extracted_once(
    method: str, expected: list[tuple[int, bool]], small_data: Dataset, extracted: list[tuple[int, bool]]
) -> None:
    own: dict[str, dict[str, Any]] = {
        "bic": {"method__every": 2, "method__correction_epochs": 1},
        "eeil": {"method__balanced_epochs": 1},
    }
    learner = small_learner(small_data, method__name=method, memory__quota=4, **own.get(method, {}))
    stream = deliveries(small_data)
    learn(learner, stream[:2])
    extracted.clear()
    learn(learner, stream[2:])
    assert extracted == expected

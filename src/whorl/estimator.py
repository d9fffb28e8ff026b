"""The estimator: a learner in scikit-learn's conventions, for data that come in any form."""

from __future__ import annotations

import copy
import itertools
import json
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import nn

from whorl.check import check_learner
from whorl.classifier import Classifier, Name
from whorl.config import LearnerConfig, checked
from whorl.data.adapt import LARGEST, Adapted, LabelsLike, SamplesLike, adapt, label_array
from whorl.data.inputs import PHOTO_SIZE, Inputs
from whorl.data.trouble import file_errors
from whorl.engine import Learner
from whorl.errors import WhorlError
from whorl.known import KNOWN, OWN_NET
from whorl.memory.memory import Memory
from whorl.methods import method_of
from whorl.metrics.match import matched_accuracy
from whorl.nets.backbone import Backbone, own_inputs
from whorl.nets.backbone import checked as checked_backbone
from whorl.nets.pretrained import Origin, named, origin_of, rebuilt
from whorl.progress import reporter
from whorl.recipes import resolve_learner
from whorl.regroup import Regrouping, regrouped
from whorl.runs.checkpoint import belonging
from whorl.runs.features import feature_folder
from whorl.runs.model import ADVICE, Learned, ModelHeader, is_model, load_state, save_state
from whorl.runtime import Runtime, find_device, threads_for
from whorl.speed import faster
from whorl.training import Halt
from whorl.tree import Tree, merge, override
from whorl.types import HIDDEN, Delivery, FloatArray, Found, ImageSource, IntArray, Labelling

E = TypeVar("E")
W = TypeVar("W", bound="Whorl")

if TYPE_CHECKING:

    class BaseEstimator:
        """The part of scikit-learn's base class that whorl uses, with types."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters by name."""
            ...

        def set_params(self: E, **params: Any) -> E:
            """Set parameters by name; returns the estimator."""
            ...

    class NotFittedError(ValueError, AttributeError):
        """An estimator was used before it was fitted."""

else:
    from sklearn import base
    from sklearn.exceptions import NotFittedError

    class BaseEstimator(base.ClassifierMixin, base.BaseEstimator):
        """A classifier in scikit-learn's sense, so that its tools split data by class."""


FILE = "model.safetensors"
_BY_PARAMETER = {"method.name": "method", "recipe": "recipe", "seed": "random_state", "net.arch": "net"}


class NotLearned(WhorlError, NotFittedError):
    """The model was used before its initial delivery."""


@dataclass(frozen=True, eq=False)
class _Standing:
    """All that learning changes. Replaced as a whole when a delivery is learned, so that it is never half changed."""

    learner: Learner
    deliveries: tuple[Learned, ...]
    labels: IntArray
    """The class ids of the samples of the last delivery."""
    files: tuple[str, ...]
    """Their paths, if they came from files."""
    params: _Params
    found: Found | None
    """What was found in the last delivery, if it was mixed."""


class Whorl(BaseEstimator):
    """Learns image classes one delivery after another: the initial one with labels, later ones without.

    A delivery without labels is split with the model's own features: samples of known classes join them, the others are
    clustered, and each cluster becomes a new class. A class-incremental method learns the new classes without
    forgetting the old ones.

    Parameters
    ----------
    method : str
        The class-incremental method: ``ours`` (the paper's baseline), ``lwf``, ``icarl``, ``eeil``, ``lucir``, ``wa``,
        ``bic``, ``ilio``, ``finetune``, ``joint``, or one that another package registers.
    net : str or torch.nn.Module
        The backbone: the name of a registered one, such as ``resnet32``, or a module with an integer attribute ``dim``,
        the number of its features. A module is copied and used with the weights it has. ``auto`` selects ``identity``
        for vectors, ``resnet18`` for images of at least 128 pixels, and ``resnet32`` for smaller ones. ``timm:NAME``,
        ``hf:NAME`` and ``hf:FOLDER`` are pretrained networks. They are not trained, unless the option ``net.tune`` is
        ``last`` or ``all``; :func:`whorl.pretrained` takes a file of weights as well.
    recipe : {"fast", "paper", "demo"}
        The set of constants for training.
    inputs : Inputs, optional
        How samples are prepared: size, mean, standard deviation and random views. By default, images keep their size
        (files are resized to 32 pixels) and are normalised with the mean of ImageNet, and vectors are divided by their
        root mean square. All later samples are prepared like those of the initial delivery.
    options : dict, optional
        Further config values by key, such as ``{"memory.quota": 50, "train.epochs": 5}``.
    device : str
        ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.
    verbose : int
        0 for no output, 1 for a progress bar on stderr.
    random_state : int
        The seed of everything random. The same seed and the same deliveries give the same model, bit for bit, on the
        same machine with the same number of threads.

    Attributes
    ----------
    classes_ : ndarray
        The names of all classes, in the order in which they were learned.
    deliveries_ : tuple of Learned
        What was learned so far: for each delivery its number of samples, whether it had labels, and its new classes.
    labels_ : ndarray
        The class that each sample of the last delivery was learned as.
    files_ : tuple of str
        The path of each sample of the last delivery, if it came from files. Broken images of a folder are left out.
    found_ : Found or None
        What was found in the last delivery, if it was mixed: the number of new classes with its range and reasons, the
        numbers of samples, the confidence of each sample, and pairs of classes that may be one.
    junk_ : ndarray
        The positions of the samples of the last delivery that were not learned, because they fit no class.
    classifier_ : Classifier
        The model as it is now, immutable.
    origin_ : Origin or None
        Where a pretrained backbone comes from, how it sees images, and its licence; None for others.
    memory_ : Memory
        The exemplars, immutable: ``images``, and ``labels`` that are positions in ``classes_``.
    config_ : LearnerConfig
        All settings, including those that the recipe and the method chose.

    Examples
    --------
    >>> import numpy as np
    >>> from whorl import Whorl
    >>> rng = np.random.default_rng(0)
    >>> centres = rng.normal(size=(6, 16))
    >>> def draw(classes):
    ...     y = np.repeat(classes, 30)
    ...     return (centres[y] + 0.1 * rng.normal(size=(len(y), 16))).astype(np.float32), y
    >>> model = Whorl(method="icarl", random_state=0, verbose=0)
    >>> x, y = draw([0, 1, 2, 3])
    >>> model.learn(x, y).classes_
    array([0, 1, 2, 3])
    >>> x, _ = draw([4, 5])
    >>> model.learn(x, new=2).classes_
    array([0, 1, 2, 3, 4, 5])
    >>> x, y = draw([0, 1, 2, 3, 4, 5])
    >>> model.score(x, y)
    1.0
    """

    def __init__(
        self,
        method: str = "ours",
        *,
        net: str | nn.Module = "auto",
        recipe: str = "fast",
        inputs: Inputs | None = None,
        options: Mapping[str, Any] | None = None,
        device: str = "auto",
        verbose: int = 1,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.net = net
        self.recipe = recipe
        self.inputs = inputs
        self.options = options
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def learn(
        self: W,
        images: SamplesLike,
        labels: LabelsLike | None = None,
        new: int | None = None,
        mixed: bool | None = None,
    ) -> W:
        """Learn a delivery. If it fails or is interrupted, the model stays as it was.

        Parameters
        ----------
        images : array, tensor, list of paths, folder, data set of Hugging Face, or ImageSource
            The samples: uint8 images [n, height, width, 3], or vectors [n, d]. Images are cropped to their centre
            square and resized; those of an ImageSource are only cropped.
        labels : array, optional
            An integer or string per sample. Labels that the model knows add samples to known classes, other labels are
            new classes. For a folder, ``"folders"`` uses the names of its subfolders; for a data set of Hugging Face,
            the name of its label column. The initial delivery of either kind is labelled in this way by default.
        new : int, optional
            The number of new classes in a delivery without labels; by default it is estimated. Their names are the next
            integers, or ``"cluster 1"``, ``"cluster 2"``, … if the labels are strings.
        mixed : bool, optional
            Whether samples without labels may also belong to known classes, or to none. By default they may if ``new``
            is left out; with ``new``, all of them belong to new classes.

        Returns
        -------
        Whorl
            The model itself.
        """
        for _ in self.learning(images, labels, new, mixed):
            pass
        return self

    def learning(
        self,
        images: SamplesLike,
        labels: LabelsLike | None = None,
        new: int | None = None,
        mixed: bool | None = None,
        *,
        regroup: Regrouping | None = None,
        resume: Halt | None = None,
    ) -> Iterator[Halt]:
        """Learn a delivery like :meth:`learn`, and yield the position after each epoch. Nothing changes until the end.

        Parameters
        ----------
        images, labels, new, mixed
            As for :meth:`learn`.
        regroup : Regrouping, optional
            What becomes of the classes and exemplars before the delivery is learned.
        resume : Halt, optional
            A position that learning the same delivery has yielded, to continue from it.

        Yields
        ------
        Halt
            The position.
        """
        before: _Standing | None = getattr(self, "_standing", None)
        params = _Params.of(self)
        deliveries = before.deliveries if before else ()
        if before is None:
            found, learner = self._begin(images, labels, params)
        else:
            params.check_unchanged(before.params)
            learner = self._copied(before.learner, regroup)
            gone = set(before.learner.names).difference(learner.names)
            deliveries = tuple(each.without(gone) for each in deliveries)
            found = _adapted(images, labels, learner.inputs.size, labelled=False)
        delivery, names = _numbered(found, new, mixed, learner)
        number = len(learner.sizes) + 1
        with reporter(not self.verbose, "delivery") as progress, threads_for(learner.config.net.arch):
            progress.begin(0, learner.passes(delivery), 0)
            progress.task(number, delivery.new or 0)
            for position in learner.learn(delivery, progress, resume, names):
                assert position.record is not None
                progress.epoch(position.record)
                yield position
        assert learner.labels is not None
        fresh = learner.names[len(learner.names) - learner.labels.new :]
        added = Learned(samples=len(delivery.images), labelled=delivery.labels is not HIDDEN, classes=fresh)
        self._standing = _Standing(
            learner,
            (*deliveries, added),
            learner.labels.ids,
            found.files,
            params,
            _named(learner.labels, learner.names),
        )

    def fit(self: W, images: SamplesLike, labels: LabelsLike | None = None) -> W:
        """Start from scratch and learn an initial delivery, as scikit-learn's tools expect it of an estimator.

        Parameters
        ----------
        images, labels
            As for :meth:`learn`.

        Returns
        -------
        Whorl
            The model itself.
        """
        fresh = type(self)(**self.get_params(deep=False))
        self._standing = fresh.learn(images, labels)._standing
        return self

    def predict(self, images: SamplesLike) -> npt.NDArray[Any]:
        """The most likely class of each sample.

        Parameters
        ----------
        images : array, tensor, list of paths, folder, data set of Hugging Face, or ImageSource
            The samples, in any form that :meth:`learn` takes. The images of a folder are taken in sorted order.

        Returns
        -------
        ndarray
            The names of the classes [n].
        """
        return self.classes_[self.classifier_.predict(self._source(images))]

    def predict_proba(self, images: SamplesLike) -> FloatArray:
        """The probability of each class, not calibrated.

        Parameters
        ----------
        images : array, tensor, list of paths, folder, data set of Hugging Face, or ImageSource
            The samples, in any form that :meth:`learn` takes. The images of a folder are taken in sorted order.

        Returns
        -------
        ndarray
            The probabilities [n, classes], in the order of ``classes_``.
        """
        return self.classifier_.probabilities(self._source(images))

    def transform(self, images: SamplesLike) -> FloatArray:
        """The features of the samples by the backbone.

        Parameters
        ----------
        images : array, tensor, list of paths, folder, data set of Hugging Face, or ImageSource
            The samples, in any form that :meth:`learn` takes. The images of a folder are taken in sorted order.

        Returns
        -------
        ndarray
            The features [n, dim].
        """
        return self.classifier_.features(self._source(images))

    def score(self, images: SamplesLike, labels: LabelsLike) -> float:
        """The accuracy on samples with true labels.

        If every class was learned with labels, this is the share of correct predictions. Otherwise the names of the
        unlabelled classes mean nothing, and this is the paper's ACC: the share of correct predictions under the best
        one-to-one assignment of predicted classes to true ones.

        Parameters
        ----------
        images : array, tensor, list of paths, folder, data set of Hugging Face, or ImageSource
            The samples, in any form that :meth:`learn` takes.
        labels : array
            The true class of each sample.

        Returns
        -------
        float
            The accuracy, between 0 and 1.
        """
        predicted = self.predict(images)
        truth = label_array(labels, len(predicted))
        if all(delivery.labelled for delivery in self.deliveries_):
            _require_same_kind(self._learner.names, truth.tolist())
            return float(np.mean(predicted == truth))
        found, true = (np.unique(values, return_inverse=True) for values in (predicted, truth))
        ids: tuple[IntArray, IntArray] = (found[1].astype(np.int64), true[1].astype(np.int64))
        return matched_accuracy(*ids, len(found[0]), len(true[0]))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The names of all classes, in the order in which they were learned."""
        names = self._learner.names
        return np.array(names, dtype=np.str_ if isinstance(names[0], str) else np.int64)

    @property
    def deliveries_(self) -> tuple[Learned, ...]:
        """What was learned so far."""
        return self._now.deliveries

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """The class that each sample of the last delivery was learned as."""
        return self.classes_[self._now.labels]

    @property
    def files_(self) -> tuple[str, ...]:
        """The path of each sample of the last delivery, if it came from files."""
        return self._now.files

    @property
    def found_(self) -> Found | None:
        """What was found in the last delivery, if it was mixed."""
        return self._now.found

    @property
    def junk_(self) -> IntArray:
        """The positions of the samples of the last delivery that were not learned, because they fit no class."""
        found = self._now.found
        return np.array(found.junk if found else (), dtype=np.int64)

    @property
    def classifier_(self) -> Classifier:
        """The model as it is now, immutable."""
        return self._learner.classifier

    @property
    def origin_(self) -> Origin | None:
        """Where a pretrained backbone comes from, how it sees images, and its licence; None for others."""
        return self._learner.origin

    @property
    def memory_(self) -> Memory:
        """The exemplars, immutable."""
        return self._learner.memory

    @property
    def config_(self) -> LearnerConfig:
        """All settings, including those that the recipe and the method chose."""
        return self._learner.config

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the model to a folder as one file, ``model.safetensors``.

        The file holds everything that is needed to predict and to learn further. A backbone that was passed as a module
        is stored by its weights only.

        Parameters
        ----------
        folder : path
            The folder, which is made if it does not exist. A model that is stored there is replaced.

        Returns
        -------
        Path
            The path of the file.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from whorl import Whorl
        >>> x = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
        >>> model = Whorl("icarl", verbose=0).learn(x, np.repeat(["ant", "bee", "cat"], 10))
        >>> with tempfile.TemporaryDirectory() as zoo:
        ...     path = model.save(zoo)
        ...     print(path.name, Whorl.load(zoo).predict(x[:1]))
        model.safetensors ['ant']
        """
        path, now = Path(folder) / FILE, self._now
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WhorlError(f"cannot make the folder {folder}: {error.strerror}; choose another one") from None
        if path.exists() and not is_model(path):
            raise WhorlError(f"{path} was not written by Whorl.save; choose another folder")
        about = {
            "estimator": now.params.model_dump(mode="json"),
            "config": now.learner.config.tree(),
            "deliveries": [each.model_dump(mode="json") for each in now.deliveries],
            "labels": now.labels.tolist(),
            "files": now.files,
        }
        if now.found:
            about["found"] = asdict(now.found)
        save_state(path, now.learner.state(), about)
        return path

    @classmethod
    def load(
        cls: type[W],
        folder: str | PathLike[str],
        *,
        net: nn.Module | None = None,
        device: str = "auto",
        verbose: int = 1,
    ) -> W:
        """The model that :meth:`save` wrote.

        Parameters
        ----------
        folder : path
            The folder.
        net : torch.nn.Module, optional
            The backbone of a model that was made with a module. A copy of it gets the stored weights.
        device, verbose
            As for the class.

        Returns
        -------
        Whorl
            The model as it was when it was stored.
        """
        path = Path(folder) if os.path.isfile(folder) else Path(folder) / FILE
        if not os.path.isfile(path):
            raise WhorlError(f"{folder} has no {FILE}; pass a folder that Whorl.save wrote")
        state, saved = load_state(path, _Saved)
        params = saved.estimator
        if params.net is None and net is None:
            raise WhorlError(f"{path} was learned with its own backbone; pass it as `net`")
        if params.net is not None and net is not None:
            raise WhorlError(f"{path} was learned with the network {params.net!r}; leave `net` out")
        given = {**dict(params), "net": net or params.net}
        model = cls(**given, device=device, verbose=verbose)
        config = saved.checked_config(path)
        labels = np.array(saved.labels, dtype=np.int64)
        backbone = rebuilt(state.origin) if state.origin else checked_backbone(net) if net else None
        try:
            learner = Learner(config, state.inputs, model._runtime(config), backbone, feature_folder())
            learner.restore(state)
        except (WhorlError, ValueError) as error:
            if net is None:
                raise WhorlError(f"{path} is damaged ({error}); {ADVICE}") from None
            raise WhorlError(f"{path} does not fit this backbone; pass the one that it was learned with") from None
        model._standing = _Standing(learner, saved.deliveries, labels, saved.files, _Params.of(model), saved.found)
        return model

    @property
    def _now(self) -> _Standing:
        standing: _Standing | None = getattr(self, "_standing", None)
        if standing is None:
            raise NotLearned("this Whorl has not learned anything yet; call learn with labelled samples first")
        return standing

    @property
    def _learner(self) -> Learner:
        return self._now.learner

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a delivery has been learned, for scikit-learn's ``check_is_fitted``."""
        return hasattr(self, "_standing")

    def _begin(self, images: SamplesLike, labels: LabelsLike | None, params: _Params) -> tuple[Adapted, Learner]:
        """The samples of the initial delivery, and a learner that suits them."""
        backbone = self._backbone(params)
        wanted = own_inputs(backbone) or params.inputs
        found = _adapted(images, labels, wanted.size if wanted else None, labelled=True)
        inputs = wanted or found.inputs()
        learner = self._new_learner(params, inputs, backbone)
        if learner.inputs.viewed(inputs.view) != inputs:  # a backbone by name brought its own preparation
            learner = self._new_learner(params, learner.inputs, backbone)
            found = _adapted(images, labels, learner.inputs.size, labelled=True)
        learner.inputs.check(found.images)
        return found, learner

    def _new_learner(self, params: _Params, inputs: Inputs, backbone: Backbone | None) -> Learner:
        config = resolve_learner(params.asked(), inputs)
        check_learner(config)
        runtime = self._runtime(config)
        if config.precision == "auto":
            frozen = config.net.tune == "none"
            precision = "fp32" if frozen else faster(config.net.arch, inputs, runtime, backbone)[0]
            config = config.model_copy(update={"precision": precision})
        return Learner(config, inputs, runtime, backbone, feature_folder())

    def _copied(self, known: Learner, regroup: Regrouping | None) -> Learner:
        """A learner that may learn without changing ``known``, on the device that the model has now."""
        runtime = self._runtime(known.config)
        if runtime == known.runtime and regroup is None:
            return copy.copy(known)  # a learner replaces its parts and never changes them
        learner = Learner(known.config, known.inputs, runtime, known.given, feature_folder())
        learner.restore(known.state() if regroup is None else regrouped(known.state(), regroup))
        return learner

    def _source(self, images: SamplesLike) -> ImageSource:
        with file_errors("the samples"):
            return adapt(images, size=self._learner.inputs.size, strict=True).images

    def _backbone(self, params: _Params) -> Backbone | None:
        """The backbone that was passed as a module, or the pretrained one of that name."""
        if isinstance(self.net, nn.Module):
            return checked_backbone(self.net)
        asked = resolve_learner(params.asked(), params.inputs or Inputs.images(PHOTO_SIZE)).net
        return named(asked.arch, None, asked.size)

    def _runtime(self, config: LearnerConfig) -> Runtime:
        return Runtime(find_device(self.device), config.precision)


class _Params(BaseModel):
    """The parameters that are stored with a model and cannot change after the initial delivery."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    method: str
    net: str | None
    """None for a backbone that was passed as a module."""
    recipe: str
    inputs: Inputs | None
    options: dict[str, Any] | None
    random_state: int

    @classmethod
    def of(cls, model: Whorl) -> _Params:
        """The parameters of a model, as they can be stored; raises a ``WhorlError`` about the first wrong one."""
        values = {name: value for name, value in model.get_params(deep=False).items() if name in cls.model_fields}
        if isinstance(model.net, nn.Module):
            origin = origin_of(model.net)
            values["net"] = origin.name if origin else None
        for key, name in _BY_PARAMETER.items():
            if isinstance(model.options, Mapping) and key in model.options:
                raise WhorlError(f"set `{key}` by the parameter `{name}`, not by `options`")
        try:
            values["random_state"] = _whole("random_state", model.random_state)
            values["options"] = json.loads(json.dumps(model.options, default=_plain))
            return cls(**values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise WhorlError(f"`{first['loc'][0]}`: {first['msg'].lower()}, not {first['input']!r}") from None
        except (TypeError, ValueError) as error:
            raise WhorlError(f"`options` must be config values by key ({error})") from None

    def check_unchanged(self, before: _Params) -> None:
        """Raise a ``WhorlError`` if a parameter differs from what it was."""
        for name in type(self).model_fields:
            if getattr(self, name) != getattr(before, name):
                raise WhorlError(f"`{name}` cannot change after the initial delivery; make a new Whorl instead")

    def asked(self) -> Tree:
        """The config values that the parameters set."""
        arch = OWN_NET if self.net is None else None if self.net == "auto" else self.net
        own = {"method.name": self.method, "recipe": self.recipe, "seed": self.random_state, "net.arch": arch}
        return override(*own.items(), *(self.options or {}).items())


class _Saved(ModelHeader):
    """The header of a stored model."""

    estimator: _Params
    config: dict[str, Any]

    def checked_config(self, path: Path) -> LearnerConfig:
        """The config. Raises a ``WhorlError`` if a name is unknown or the parameters disagree with it."""
        with belonging(path, ADVICE):
            config = checked(LearnerConfig, self.config)
        try:
            KNOWN["recipe"].require(config.recipe)
            check_learner(config)
        except WhorlError as error:
            why = f"{path} cannot be used ({error})"
            raise WhorlError(f"{why}; install the package that is missing, or {ADVICE}") from None
        with belonging(path, ADVICE):
            asked = checked(LearnerConfig, merge(config.tree(), self.estimator.asked()))
            same = asked.model_copy(update={"method": config.method}) == config
            same = same and method_of(asked) == method_of(config)  # with values converted to the types of the options
            if not same or (self.estimator.net is None) != (config.net.arch == OWN_NET):
                raise ValueError("estimator and config disagree")
        return config


def _whole(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise WhorlError(f"`{name}` must be an integer, not {value!r}") from None


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON holds them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} cannot be stored")


def _adapted(images: SamplesLike, labels: LabelsLike | None, size: int | None, labelled: bool) -> Adapted:
    with file_errors("the samples"):
        return adapt(images, labels, size, labelled)


def _numbered(
    found: Adapted, new: int | None, mixed: bool | None, learner: Learner
) -> tuple[Delivery, tuple[Name, ...] | Callable[[int], tuple[Name, ...]]]:
    """The samples as a delivery with class ids, and the names of the new classes, or how they are made."""
    images, known = found.images, {name: number for number, name in enumerate(learner.names)}
    if found.labels is None:
        if not known:
            raise WhorlError("the initial delivery needs labels; later ones can come without")
        count = None if new is None else _whole("new", new)
        if mixed or (mixed is None and count is None):
            return Delivery(images, HIDDEN, count, mixed=True), partial(_made_up, list(known))
        if count is None or not 1 <= count <= len(images):
            raise WhorlError(
                f"a delivery of new classes alone needs `new`, their number, between 1 and {len(images)}; for known "
                "classes as well pass `mixed=True`"
            )
        return Delivery(images, HIDDEN, count), _made_up(list(known), count)
    if mixed:
        raise WhorlError("`mixed` is about samples without labels; leave it out")
    unique, inverse = np.unique(found.labels, return_inverse=True)
    names: list[Name] = unique.tolist()
    _require_same_kind(learner.names, names)
    fresh = tuple(name for name in names if name not in known)
    if new is not None and new != len(fresh):
        raise WhorlError(f"the labels hold {len(fresh)} new class(es), but `new={new}`; leave `new` out")
    ids = known | {name: len(known) + number for number, name in enumerate(fresh)}
    labels = np.array([ids[name] for name in names], dtype=np.int64)[inverse]
    return Delivery(images, labels, len(fresh)), fresh


def _named(labels: Labelling, names: Sequence[Name]) -> Found | None:
    """What was found in a mixed delivery, with names in place of ids."""
    if labels.found is None:
        return None
    merges = tuple((names[int(a)], names[int(b)], share) for a, b, share in labels.found.merges)
    return replace(labels.found, merges=merges)


def _require_same_kind(known: Sequence[Name], names: Sequence[Name]) -> None:
    """Raise a ``WhorlError`` if some names are integers and others are strings."""
    if known and names and isinstance(known[0], str) != isinstance(names[0], str):
        before, now = ("strings", "integers") if isinstance(known[0], str) else ("integers", "strings")
        raise WhorlError(f"the classes so far have {before} as names; `labels` must be {before} too, not {now}")


def _made_up(known: list[Name], new: int) -> tuple[Name, ...]:
    """Names for classes that nobody has named: the next integers, or numbered clusters where names are strings."""
    numbers = [name for name in known if isinstance(name, int)]
    if numbers:
        start = max(numbers) + 1
        if start + new - 1 > LARGEST:
            raise WhorlError(f"there are no integers left to name new classes after {max(numbers)}; use smaller labels")
        return tuple(range(start, start + new))
    free = (f"cluster {number}" for number in itertools.count(1))
    return tuple(itertools.islice((name for name in free if name not in known), new))

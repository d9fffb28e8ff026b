"""The estimator of a model folder: a new one, or the one that is stored."""

from __future__ import annotations

from pathlib import Path

from whorl.data.folder import SIZE
from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.estimator import Whorl
from whorl.known import NETWORKS, is_pretrained
from whorl.nets.backbone import build, own_inputs
from whorl.nets.pretrained import Pretrained, named
from whorl.photos import files
from whorl.photos.asked import Settings
from whorl.photos.store import Store

AUTO = "auto"


def begun(settings: Settings, verbose: int) -> tuple[Whorl, int]:
    """A model that has learned nothing, and the side of the photos that it takes."""
    found = _pretrained(settings, None)
    params = settings.given() | ({"net": found} if found else {})
    model = Whorl(**params, verbose=verbose)
    inputs = found.inputs if found else _own(settings.net)
    if inputs and settings.resize not in (None, inputs.size):
        how = "leave it out, or set `net.size`" if found else "leave it out"
        raise WhorlError(f"`resize` cannot be chosen for {settings.net}, which takes {inputs.size} pixels; {how}")
    return model, inputs.size if inputs else settings.resize or SIZE


def again(folder: Path, store: Store, settings: Settings, verbose: int) -> tuple[Whorl, int]:
    """The stored model, and the side of the photos that it takes. Settings that it does not have are refused."""
    model = loaded(folder, store, verbose)
    origin, given = model.origin_, settings.given()
    found = _pretrained(settings, origin.size if origin else None)
    same = {"net": found.origin == origin if found else settings.net in (None, model.net)}
    same |= {name: getattr(model, name) == value for name, value in given.items() if name not in ("net", "options")}
    same |= {name: (model.options or {}).get(name) == value for name, value in settings.options.items()}
    same["net.tune"] = settings.tune in (None, model.config_.net.tune)
    same["resize"] = settings.resize in (None, model.classifier_.inputs.size)
    for name, agrees in same.items():
        if not agrees:
            raise WhorlError(f"`{name}` cannot change after the first delivery; make a new model folder instead")
    return model, model.classifier_.inputs.size


def loaded(folder: Path, store: Store, verbose: int = 0) -> Whorl:
    """The stored model. Raises ``Missing`` if its file is not there."""
    ((name,),) = store.rows("SELECT name FROM file WHERE kind = 'model'")
    return Whorl.load(files.checked(folder, name), verbose=verbose)


def _pretrained(settings: Settings, size: int | None) -> Pretrained | None:
    """The pretrained network that was asked for, at the side ``size`` if none was chosen."""
    arch = settings.net or AUTO
    return named(arch, settings.weights, settings.options.get("net.size", size if is_pretrained(arch) else None))


def _own(net: str | None) -> Inputs | None:
    """The preparation that a network of another package brings along, if any."""
    if net in (None, AUTO, *NETWORKS):
        return None
    return own_inputs(build(str(net), Inputs.images(SIZE), True, None))

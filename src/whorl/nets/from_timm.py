"""Networks of timm, PyTorch Image Models."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

from torch import nn

from whorl.data.trouble import reason
from whorl.errors import WhorlError, nearest
from whorl.nets.found import Found
from whorl.nets.weights import fit_weights, read_weights


def load(name: str, weights: Path | None) -> Found:
    """The network ``name`` with the weights of a file, or else with those that timm downloads."""
    timm = _timm()
    net = _create(timm, name, pretrained=weights is None)
    if weights is not None:
        fit_weights(net, read_weights(weights), weights, f"timm:{name}")
    config = timm.data.resolve_model_data_config(net)
    return Found(
        net=net,
        size=int(config["input_size"][-1]),
        mean=_three(config["mean"]),
        std=_three(config["std"]),
        interpolation=str(config["interpolation"]),
        licence=str(getattr(net, "pretrained_cfg", {}).get("license") or ""),
        library=f"timm {timm.__version__}",
    )


def rebuilt(name: str) -> nn.Module:
    """The network ``name`` with random weights."""
    return _create(_timm(), name, pretrained=False)


def _timm() -> Any:
    """timm, or an error that says what to install."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        if error.name == "timm":
            raise WhorlError("`net.arch=timm:…` needs timm; type: pip install 'whorl[timm]'") from None
        why = reason(error)
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        why = reason(error)
    raise WhorlError(
        f"timm cannot be imported, because torchvision does not load ({why}); install the torchvision that belongs to "
        "your torch (https://pytorch.org), or use `net.arch=hf:…`, which does not need it"
    )


def _create(timm: Any, name: str, pretrained: bool) -> nn.Module:
    if not timm.is_model(name):
        near = nearest(name.partition(".")[0], timm.list_models())
        hint = f"did you mean timm:{near}?" if near else "timm.list_models() lists its names"
        raise WhorlError(f"timm has no network {name!r}; {hint}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except (OSError, RuntimeError, ValueError) as error:
        if not pretrained:
            raise WhorlError(f"timm cannot build {name} ({reason(error)}); set `net.arch` to another one") from None
        raise WhorlError(
            f"the weights of timm:{name} cannot be had ({reason(error)}); check the network, "
            "or download them elsewhere and set `weights` to the file"
        ) from None
    return made


def _three(values: Any) -> tuple[float, float, float]:
    first, second, third = (float(value) for value in values)
    return first, second, third

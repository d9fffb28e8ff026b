"""Files of weights: reading those of other programs, fitting them to a network, and telling weights apart."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from whorl.errors import WhorlError, count
from whorl.explain import reason

SAFETENSORS = ".safetensors"
_WITHIN = ("state_dict_ema", "state_dict", "model_ema", "model", "teacher")
"""Keys below which programs that train networks store the weights."""
_AROUND = ("module.", "backbone.", "_orig_mod.")
"""What wrappers put before the names of all weights."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a file: safetensors, or a file of torch, of which nothing but tensors is read."""
    if not path.is_file():
        raise WhorlError(f"there is no file {path}; set `weights` to a file of weights (.safetensors, .pth)")
    try:
        if path.suffix == SAFETENSORS:
            return safetensors.torch.load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about how older versions of torch stored tensors
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise WhorlError(
            f"{path} is damaged, or holds more than tensors, which could run code; "
            "set `weights` to a file of weights alone, best as .safetensors"
        ) from None
    except (OSError, RuntimeError, ValueError, LookupError, EOFError, safetensors.SafetensorError) as error:
        why = str(reason(error)).splitlines()
        raise WhorlError(
            f"cannot read the weights in {path} ({why[0] if why else type(error).__name__}); "
            "the file may be damaged: get it again"
        ) from None
    return _tensors(found, path)


def _tensors(found: Any, path: Path) -> dict[str, Tensor]:
    """The weights by name, from what torch has read."""
    for key in _WITHIN:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not found or not all(isinstance(each, Tensor) for each in found.values()):
        raise WhorlError(f"{path} does not hold weights by name; set `weights` to a file that does")
    names = {str(name): value for name, value in found.items()}
    for around in _AROUND:
        if all(name.startswith(around) for name in names):
            names = {name.removeprefix(around): value for name, value in names.items()}
    return names


def fit_weights(net: nn.Module, weights: Mapping[str, Tensor], path: Path, called: str) -> None:
    """Give ``net`` the weights of a file, which may also hold a classifier that the network does not have."""
    own = net.state_dict()
    wanted = {name for name in own if not name.endswith("num_batches_tracked")}
    missing, extra = sorted(wanted - weights.keys()), sorted(weights.keys() - own.keys())
    where = f"the weights in {path} do not fit {called}"
    if missing:
        other = f", but it has {extra[0]}" if extra else ""
        raise WhorlError(
            f"{where}: {missing[0]} is missing, one of {count(len(missing), 'such tensor')}{other}; "
            "set `net.arch` to the network that they were trained with"
        )
    for name in sorted(wanted):
        if weights[name].shape != own[name].shape:
            shapes = f"{tuple(weights[name].shape)}, not {tuple(own[name].shape)}"
            raise WhorlError(f"{where}: {name} is {shapes}; set `net.arch` to the network that they were trained with")
    net.load_state_dict({name: value for name, value in weights.items() if name in own}, strict=False)


def fingerprint(net: nn.Module) -> str:
    """Sixteen hexadecimal digits that identify the weights of a network."""
    found = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        plain = value.detach().cpu().contiguous()
        found.update(f"{name} {plain.dtype} {tuple(plain.shape)}\n".encode())
        found.update(memoryview(plain.reshape(-1).view(torch.uint8).numpy()))
    return found.hexdigest()[:16]

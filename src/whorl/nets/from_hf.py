"""Networks of Hugging Face's transformers: DINOv2 and others that turn pixels into one vector per image."""

from __future__ import annotations

import importlib
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from whorl.data.trouble import reason
from whorl.errors import WhorlError
from whorl.nets.found import Channels, Found
from whorl.nets.weights import read_weights

_FILTERS = {2: "bilinear", 3: "bicubic"}
"""Pillow's numbers, in which image processors state their interpolation."""


class Pooled(nn.Module):
    """A network of transformers that returns one vector per image: its pooled output, or its first token."""

    def __init__(self, net: nn.Module, pooler: bool) -> None:
        super().__init__()
        self.net: nn.Module = net
        self.pooler: bool = pooler

    def forward(self, pixels: Tensor) -> Tensor:
        """The features [n, dim]."""
        out = self.net(pixel_values=pixels)
        pooled: Tensor | None = getattr(out, "pooler_output", None) if self.pooler else None
        if pooled is not None:
            return pooled.flatten(1)
        states: Tensor = out.last_hidden_state
        return states[:, 0] if states.ndim == 3 else states.mean((2, 3))


def load(name: str, weights: Path | None) -> Found:
    """The network in a folder, or of that name on the Hub, with its own weights or those of a file."""
    hf = _transformers()
    if not Path(name).is_dir() and (name.startswith(("/", ".", "~")) or name.count("/") > 1 or os.sep * 2 in name):
        raise WhorlError(f"there is no folder {name}; set `net.arch` to hf:FOLDER or hf:NAME")
    processor = _processor(hf, name)
    net = _with_weights(hf, name, weights)
    normal = processor.get("do_normalize", True)
    return Found(
        net=net,
        size=_side(processor, name),
        mean=_three(processor.get("image_mean"), name) if normal else (0.0, 0.0, 0.0),
        std=_three(processor.get("image_std"), name) if normal else (1.0, 1.0, 1.0),
        interpolation=_FILTERS.get(processor.get("resample", 3), "bicubic"),
        licence=_licence(hf, name),
        library=f"transformers {hf.__version__}",
        config=json.dumps({**net.net.config.to_diff_dict(), "whorl_pooler": net.pooler}),  # type: ignore[union-attr, operator]
    )


def rebuilt(config: str) -> Pooled:
    """The network of this config with random weights."""
    hf, values = _transformers(), json.loads(config)
    pooler = values.pop("whorl_pooler", True)
    try:
        made = hf.AutoConfig.for_model(**values)
        return _pooled(hf.AutoModel.from_config(made, trust_remote_code=False, dtype=torch.float32), pooler)
    except (ValueError, KeyError, TypeError, OSError, ImportError) as error:
        raise WhorlError(f"transformers cannot build this network ({reason(error)}); install a newer one") from None


def _transformers() -> Any:
    """transformers, or an error that says what to install."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Any = importlib.import_module("transformers")
            found.AutoModel  # noqa: B018 - is imported when it is first used
    except ModuleNotFoundError as error:
        if error.name == "transformers":
            raise WhorlError("`net.arch=hf:…` needs transformers; type: pip install 'whorl[hf]'") from None
        raise WhorlError(f"transformers cannot be imported ({reason(error)}); install it again") from None
    except (ImportError, RuntimeError, OSError) as error:
        raise WhorlError(f"transformers cannot be imported ({reason(error)}); install it again") from None
    found.logging.set_verbosity_error()
    found.logging.disable_progress_bar()
    return found


def _with_weights(hf: Any, name: str, file: Path | None) -> Pooled:
    """The network with the weights beside its config or in a file. A pooling layer without weights is not used."""
    settings: dict[str, Any] = {"output_loading_info": True, "dtype": torch.float32}
    stored = None if file is None else read_weights(file)
    bare: Any = None if file is None else rebuilt(json.dumps(_get(hf, name, "config.json"))).net
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if bare is None:
                settings |= {"trust_remote_code": False, "use_safetensors": True}
                net, info = hf.AutoModel.from_pretrained(name, **settings)
            else:
                net, info = type(bare).from_pretrained(None, config=bare.config, state_dict=stored, **settings)
    except Exception as error:  # a damaged file may raise anything, and the library has many errors of its own
        if file is not None:
            raise _unfit(name, file, reason(error)) from None
        raise _unavailable(name, error) from None
    missing = sorted(map(str, [*info["missing_keys"], *info["mismatched_keys"]]))
    lost = [key for key in missing if not key.startswith("pooler.")]
    if lost:
        raise _unfit(name, file, f"{lost[0]} is missing")
    return _pooled(net, pooler=not missing)


def _unfit(name: str, file: Path | None, why: str) -> WhorlError:
    """The error about weights of another network."""
    if file is None:
        return WhorlError(f"the weights of hf:{name} do not fit its config ({why}); get the files again")
    return WhorlError(
        f"the weights in {file} do not fit hf:{name} ({why}); set `net.arch` to the network that they were trained with"
    )


def _pooled(net: Any, pooler: bool) -> Pooled:
    if net.main_input_name != "pixel_values" or hasattr(net, "text_model"):
        raise WhorlError(f"{type(net).__name__} does not take images alone; set `net.arch` to a network that does")
    return Pooled(net.eval(), pooler)


def _unavailable(name: str, error: Exception) -> WhorlError:
    """The error about a network that cannot be loaded."""
    why = reason(error).rstrip(".")
    if Path(name).is_dir():
        return WhorlError(
            f"the network in {name} cannot be loaded ({why}); the folder needs config.json and undamaged weights in "
            "model.safetensors"
        )
    return WhorlError(
        f"hf:{name} cannot be had ({why}); check the name and the network, or download its folder elsewhere and "
        "set `net.arch` to hf:FOLDER"
    )


def _file(hf: Any, name: str, file: str) -> Path | None:
    """A file of the network; None if it has none of that name."""
    try:
        found = hf.utils.cached_file(name, file, _raise_exceptions_for_missing_entries=False)
    except Exception as error:  # as for the weights
        raise _unavailable(name, error) from None
    return Path(found) if found else None


def _get(hf: Any, name: str, file: str) -> dict[str, Any]:
    """The values in a JSON file of the network."""
    path = _file(hf, name, file)
    if path is None:
        raise WhorlError(f"hf:{name} has no {file}; put it beside the weights")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise WhorlError(f"{file} of hf:{name} is damaged ({reason(error)}); get it again") from None
    return found


def _processor(hf: Any, name: str) -> dict[str, Any]:
    """How the network wants images prepared."""
    return _get(hf, name, "preprocessor_config.json")


def _side(processor: dict[str, Any], name: str) -> int:
    """The side of the images: of the crop, if images are cropped, else of the whole."""
    cropped = processor.get("do_center_crop", True) and processor.get("crop_size")
    size = cropped or processor.get("size")
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    if not isinstance(size, int) or size < 1:
        raise _incomplete(name, "the size of images")
    return size


def _three(values: Any, name: str) -> Channels:
    try:
        first, second, third = (float(value) for value in values)
    except (TypeError, ValueError):
        raise _incomplete(name, "mean and deviation of the three channels") from None
    return first, second, third


def _incomplete(name: str, what: str) -> WhorlError:
    return WhorlError(f"preprocessor_config.json of hf:{name} does not state {what}; complete it")


def _licence(hf: Any, name: str) -> str:
    """The licence in the head of the network's README.md; empty if there is none."""
    card = _file(hf, name, "README.md")
    head = card.read_text(encoding="utf-8", errors="replace").split("---")[1:2] if card else []
    found = re.search(r"^license:[ \t]*(\S+)", head[0], re.MULTILINE) if head else None
    return found.group(1) if found else ""

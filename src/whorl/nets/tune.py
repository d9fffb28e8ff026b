"""Training the last part of a backbone alone."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.nets.backbone import Backbone, inputs_of, module
from whorl.nets.pretrained import Origin, origin_of


class Partly(nn.Module):
    """A backbone whose last part is trained. The rest has no gradient and stays in eval mode."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.dim: int = backbone.dim
        self.origin: Origin | None = origin_of(backbone)
        self.net: nn.Module = module(backbone).requires_grad_(False)
        trained = list(last_part(self.net))
        if not trained:
            raise WhorlError(f"{type(backbone).__name__} has no part to train; set `net.tune` to none")
        for part in trained:
            part.requires_grad_(True)

    def forward(self, x: Tensor) -> Tensor:
        """The features of prepared inputs."""
        out: Tensor = self.net(x)
        return out

    def suited(self, data: Inputs) -> Inputs:
        """The preparation of the backbone."""
        return inputs_of(self.net, data)

    def train(self, mode: bool = True) -> Partly:
        """Training mode for the last part alone."""
        super().train(False)
        self.training = mode
        for part in last_part(self.net):
            part.train(mode)
        return self


def last_part(net: nn.Module) -> Iterator[nn.Module]:
    """The last block of a network that has weights, and the normalisation after it.

    Of a sequence of stages or blocks, it is the last one. A module whose weights are all in one other module counts as
    that one.
    """
    parts = _with_weights(net)
    if not parts and any(True for _ in net.parameters()):
        yield net
    for part in reversed(parts):
        if _is_sequence(part) or len(parts) == 1:
            yield from last_part(part)
            return
        yield part
        if any(parameter.ndim > 1 for parameter in part.parameters()):
            return


def _is_sequence(part: nn.Module) -> bool:
    """Whether the part consists of several blocks, or of one module with all its weights."""
    inner = _with_weights(part)
    whole = {id(each) for each in part.parameters()} == {id(own) for each in inner for own in each.parameters()}
    return bool(inner) and whole and (isinstance(part, nn.Sequential | nn.ModuleList) or len(inner) == 1)


def _with_weights(net: nn.Module) -> list[nn.Module]:
    return [child for child in net.children() if any(True for _ in child.parameters())]

"""The model: a backbone and a head that grows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from whorl.errors import WhorlError
from whorl.nets.backbone import Backbone, module
from whorl.nets.heads import Head
from whorl.nets.resnet import fold
from whorl.seeds import generator


@dataclass
class Output:
    """The result of a forward pass: logits of the classes learned so far, and the features below them."""

    logits: Tensor
    features: Tensor


class Model(nn.Module):
    """A backbone and a head. New rows of the head are drawn from ``seed``; the backbone is used as it is."""

    backbone: nn.Module

    def __init__(self, backbone: Backbone, head: Head, seed: int) -> None:
        super().__init__()
        self.backbone = module(backbone)
        self.dim: int = backbone.dim
        self.head: Head = head
        self.asides: nn.ModuleDict = nn.ModuleDict()
        """The layers of further tasks by name, while a step trains them (:mod:`whorl.nets.asides`)."""
        self.seed = seed

    @property
    def classes(self) -> int:
        """The number of classes of the head."""
        return len(self.head.weight)

    def forward(self, x: Tensor) -> Output:
        """Logits and features of prepared inputs."""
        features = self.backbone(x)
        return Output(self.head(features), features)

    def grow(self, n: int) -> None:
        """Add ``n`` classes. The logits of existing classes do not change, except that BiC's correction is reset."""
        self.head.grow(n, generator(self.seed, "init", "head", self.classes))

    def reset_head(self, start: int = 0, draw: int = 0) -> None:
        """Draw the rows of the head again, from row ``start`` on; another ``draw`` gives other rows."""
        self.head.reset(start, generator(self.seed, "init", "head anew", self.classes, draw))

    def frozen(self) -> Model:
        """A copy for inference: eval mode, no gradient, batch norm folded into the convolutions."""
        return fold(self)

    def restore(self, state: dict[str, Tensor]) -> None:
        """Load stored weights, after growing the head to their number of classes."""
        if "head.weight" not in state:
            raise _does_not_fit("head.weight is missing")
        self.grow(len(state["head.weight"]) - self.classes)
        self.load(state)

    def load(self, state: dict[str, Tensor]) -> None:
        """Load stored weights of a model with the same number of classes."""
        for name, value in self.state_dict().items():
            if name in state and state[name].dtype != value.dtype:
                raise _does_not_fit(f"{name} is {state[name].dtype}, not {value.dtype}")
        try:
            self.load_state_dict(state)
        except RuntimeError as error:
            raise _does_not_fit(str(error).splitlines()[-1].strip()) from None


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the model's tensors on the CPU, which further training does not change."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}


def _does_not_fit(reason: str) -> WhorlError:
    return WhorlError(f"the stored weights do not fit this network ({reason}); start over with `fresh`")

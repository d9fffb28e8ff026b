"""The model: a backbone, a head, and the normalisation that turns stored bytes into inputs."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from whorl.errors import WhorlError
from whorl.nets.heads import HEADS, Head
from whorl.nets.resnet import BACKBONES, fold, initialise
from whorl.seeds import generator


@dataclass
class Output:
    """What one forward pass gives: logits over the classes seen, and the pooled features below them."""

    logits: Tensor
    features: Tensor


class Model(nn.Module):
    """Backbone and growing head; made anew from the seed, it always starts with the same weights."""

    def __init__(self, arch: str, head: str, final_relu: bool, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.backbone = BACKBONES[arch](final_relu)
        initialise(self.backbone, generator(seed, "init", "backbone"))
        self.head: Head = HEADS[head](self.backbone.dim)

    @property
    def classes(self) -> int:
        """How many classes the head knows."""
        return len(self.head.weight)

    def forward(self, x: Tensor) -> Output:
        """Logits and features of normalised images."""
        features = self.backbone(x)
        return Output(self.head(features), features)

    def grow(self, n: int) -> None:
        """Add ``n`` classes; the logits of the old ones do not change, but for a correction, which ends here."""
        self.head.grow(n, generator(self.seed, "init", "head", self.classes))

    def reset_head(self, first: int = 0, draw: int = 0) -> None:
        """Draw the rows of the head anew, from row ``first`` on; another ``draw`` gives other rows."""
        self.head.reset(first, generator(self.seed, "init", "head anew", self.classes, draw))

    def frozen(self) -> Model:
        """A copy for looking only (teacher, extraction, evaluation): eval mode, no gradient, batch norm folded in."""
        return fold(self)

    def restore(self, state: dict[str, Tensor]) -> None:
        """Load weights saved earlier, growing the head to their width first."""
        self.grow(len(state["head.weight"]) - self.classes)
        self.load(state)

    def load(self, state: dict[str, Tensor]) -> None:
        """Load weights saved earlier by a model of this width."""
        try:
            self.load_state_dict(state)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise WhorlError(
                f"the stored model does not fit this config ({reason}); start over with --fresh, or remove the folder"
            ) from None


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the model's tensors, which further training does not change."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}

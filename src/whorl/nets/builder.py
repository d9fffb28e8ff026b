"""The builder: makes the models of a learner from its config, or from stored weights."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

from torch import Tensor, nn

from whorl.data.inputs import Inputs
from whorl.errors import WhorlError
from whorl.nets.backbone import Backbone, build, draw, module
from whorl.nets.heads import HEADS
from whorl.nets.model import Model
from whorl.nets.resnet import fold
from whorl.nets.tune import Partly
from whorl.runtime import Runtime
from whorl.sections import NetConfig
from whorl.seeds import derive

AUTO = "auto"
WIDER = {"resnet32": "resnet14-wide"}
"""The architecture of networks for pseudo labels, where another one gives better labels than that of the model
(docs/results.md, "Better labels")."""


def arch_beside(model: str, asked: str) -> str:
    """The architecture of networks for pseudo labels beside a model of the architecture ``model``."""
    return asked if asked != AUTO else WIDER.get(model, model)


@dataclass(frozen=True)
class Builder:
    """Makes models with the same backbone and head, on the same device."""

    net: NetConfig
    seed: int
    inputs: Inputs
    """The samples that a backbone by name is built for."""
    runtime: Runtime
    given: Backbone | None = None
    """The backbone that the user passed in, used instead of ``net.arch``."""
    key: str = "net.arch"
    """The config key that chooses the backbone, named in errors."""

    def model(self, state: dict[str, Tensor] | None = None) -> Model:
        """The model before the initial delivery, or the one with the weights of ``state``."""
        backbone = self.backbone(self.seed if state is None else None)
        if self.net.tune == "last":
            backbone = Partly(backbone)
        model = Model(backbone, HEADS[self.net.head](backbone.dim), self.seed)
        if state is not None:
            model.restore(state)
        return self.runtime.place(model)

    def beside(self, arch: str, seed: int) -> Builder:
        """A builder of networks with linear heads, of another architecture or (``auto``) one that suits this one."""
        asked = arch_beside(self.net.arch, arch)
        given = self.given if asked == self.net.arch else None
        net = NetConfig(arch=asked, head="linear", final_relu=True)
        return replace(self, net=net, seed=seed, given=given, key="pseudo.arch")

    def random_backbone(self) -> nn.Module:
        """A frozen backbone with random weights, always the same for a seed."""
        made = module(self.backbone(None))
        if not draw(made, derive(self.seed, "scratch")) and any(True for _ in made.parameters()):
            raise WhorlError(
                "`pseudo.features=scratch` needs a backbone with random weights, "
                f"and {type(made).__name__} has no method `draw` to make them"
            )
        return fold(self.runtime.place(made))

    def backbone(self, seed: int | None) -> Backbone:
        """A copy of the backbone that was passed in, else one by name with weights drawn from ``seed``."""
        if self.given is not None:
            return copy.deepcopy(self.given)
        return build(self.net.arch, self.inputs, self.net.final_relu, seed, self.key)

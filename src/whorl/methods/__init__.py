"""The methods. A name is the same in the registry, in the file name and on the command line."""

from __future__ import annotations

from whorl import registry
from whorl.config import LearnerConfig, checked
from whorl.errors import WhorlError
from whorl.methods.base import Method
from whorl.methods.bic import Bic
from whorl.methods.eeil import Eeil
from whorl.methods.finetune import Finetune
from whorl.methods.icarl import Icarl
from whorl.methods.ilio import Ilio
from whorl.methods.joint import Joint
from whorl.methods.lucir import Lucir
from whorl.methods.lwf import Lwf
from whorl.methods.ours import Ours
from whorl.methods.wa import Wa

METHODS: dict[str, type[Method]] = {
    cls.name: cls for cls in (Finetune, Joint, Ours, Lwf, Icarl, Eeil, Lucir, Wa, Bic, Ilio)
}
GROUP = "whorl.methods"


def method_class(name: str) -> type[Method]:
    """The class of the method called ``name``, built in or from a plug-in."""
    found = registry.find("method", name, METHODS, GROUP)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise WhorlError(f"the plug-in for method {name!r} is not a subclass of whorl.methods.base.Method")
    if found.__abstractmethods__ or getattr(found, "name", None) != name:
        raise WhorlError(f"the plug-in for method {name!r} must have that name and define `plan`")
    return found


def method_of(config: LearnerConfig) -> Method:
    """The method of a config, with its options."""
    return checked(method_class(config.method.name), config.method.options, "method")


def method_names() -> list[str]:
    """The names of all methods, including plug-ins."""
    return registry.names(METHODS, GROUP)

"""The methods. A name here is the file's name, the command line's word and the table's row."""

from __future__ import annotations

from whorl import registry
from whorl.methods.base import Method
from whorl.methods.finetune import Finetune
from whorl.methods.joint import Joint
from whorl.methods.ours import Ours

METHODS: dict[str, type[Method]] = {cls.name: cls for cls in (Finetune, Joint, Ours)}
GROUP = "whorl.methods"


def method_class(name: str) -> type[Method]:
    """The method of that name, built in or a third party's."""
    return registry.find("method", name, METHODS, GROUP)


def method_names() -> list[str]:
    """Every method there is, third parties' included."""
    return registry.names(METHODS, GROUP)

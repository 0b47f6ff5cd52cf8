"""Ways to train a model in less memory, as small classes with one interface.

A method says at which settings it runs a model, and prepares the model for one of them; what
:meth:`Method.prepare` returns makes it the plain model again.

Rockmate is missing: it requires an old PuLP, asks CUDA for its random state on every device, and does not
capture Hugging Face's models, so that it runs none of the networks compared here.
"""

from __future__ import annotations

from experiments.methods.checkpointing import Blocks, HuggingFace, Selective, Sequential
from experiments.methods.compiled import AotEager, Budget, InductorBudget
from experiments.methods.method import Method, Plain
from experiments.methods.planned import Planned, planned

PLAIN = Plain()

BASELINES: dict[str, Method] = {
    method.name: method
    for method in (
        AotEager(),
        Blocks(every=1),
        Blocks(every=2),
        Sequential(),
        HuggingFace(),
        Selective(),
        Budget(),
        InductorBudget(),
    )
}
"""What PyTorch and transformers offer, by name."""

__all__ = ["BASELINES", "PLAIN", "Method", "Planned", "planned"]

"""Hidden states, gradients and prompt tuning through a whorl swarm.

A gateway does the work that needs files of the model: this package needs numpy and websockets, and
torch for what is below ``DistributedModel``.

    import whorl
    model = whorl.DistributedModel.from_pretrained("http://localhost:8300")
    print(model.tokenizer.decode(model.generate(model.tokenizer("A cat sat on"), max_new_tokens=8)))

Without torch: ``Layers`` has the same in numpy arrays.
"""

from .errors import ConnectionFailed, InvalidRequest, SessionLost, SwarmUnavailable, WhorlError
from .layers import Layers, Session
from .tokenizer import Tokenizer

__all__ = [
    "ConnectionFailed", "DistributedModel", "DistributedModelForSequenceClassification", "InvalidRequest", "Layers", "RemoteSequential", "Session", "SessionLost",
    "SwarmUnavailable", "Tokenizer", "WhorlError",
]

_TORCH = {"DistributedModel", "DistributedModelForSequenceClassification", "RemoteSequential"}


def __getattr__(name):
    # torch takes seconds to import: only who asks for it waits.
    if name in _TORCH:
        try:
            from . import model
        except ModuleNotFoundError as e:
            raise ImportError(f"whorl.{name} needs torch: pip install 'whorl-client[torch]'") from e
        return getattr(model, name)
    raise AttributeError(f"module 'whorl' has no attribute {name!r}")

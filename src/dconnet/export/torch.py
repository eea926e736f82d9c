"""PyTorch modules."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from dconnet.export.chain import Chain, dtype_name

if TYPE_CHECKING:
    from torch.nn import Sequential


def to_torch(chain: Chain, dtype: object = "float64") -> Sequential:
    """Return a ``torch.nn.Sequential`` of ``Linear`` and ``ReLU``, and ``Softmax`` for probabilities."""
    torch = _torch()
    name = dtype_name(dtype)
    modules: list[Any] = []
    for W, b in chain.weights(name):
        # Without skip_init, the layer would draw random weights and advance the caller's generator.
        linear = torch.nn.utils.skip_init(torch.nn.Linear, W.shape[1], W.shape[0], dtype=getattr(torch, name))
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(W))
            linear.bias.copy_(torch.tensor(b))
        modules += [linear, torch.nn.ReLU()]
    modules[-1:] = [torch.nn.Softmax(dim=1)] if chain.softmax else []
    module: Sequential = torch.nn.Sequential(*modules)
    return module


def torch_file(chain: Chain, dtype: object = "float64") -> bytes:
    """Return the content of a file for ``torch.export.load``; the number of rows is free."""
    torch = _torch()
    module = to_torch(chain, dtype)
    # Two rows: a size of one would be taken for a constant.
    example = torch.zeros(2, chain.n_features, dtype=module[0].weight.dtype)
    programme = torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim("n_samples")},))
    buffer = BytesIO()
    torch.export.save(programme, buffer)
    return buffer.getvalue()


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ImportError("This export needs PyTorch: pip install 'dconnet[torch]'") from error
    return torch

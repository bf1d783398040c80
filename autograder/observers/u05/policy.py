"""A policy of PyTorch's checkpoint: bytes that a layer keeps under it, and products that run."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from autograder.checking.fact import Case, Fact, Plain
from course_utils.configs import Kernels, ModelConfig
from course_utils.instruments import count_saved_bytes
from course_utils.instruments.operands import tensors_in
from course_utils.reference import Block

PRODUCT_NAMES = ("mm", "addmm", "bmm", "_scaled_dot_product_flash_attention_for_cpu")


class Products(TorchDispatchMode):
    """Counts matrix products and calls of fused attention that run, and the bytes they make."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count, self.num_bytes = 0, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, and count it if it is a product."""
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in PRODUCT_NAMES:
            self.count += 1
            made = (each.untyped_storage() for each in tensors_in(result))
            self.num_bytes += sum(each.nbytes() for each in made)
        return result


def layer_and_input(
    kind: str, attention: str, num_sequences: int, seq_len: int, **sizes: Any
) -> tuple[Block, Tensor]:
    """A real layer of these sizes, and an input that requires a gradient."""
    is_gpt, width = kind == "GPT", sizes["num_heads"] * sizes["head_dim"]
    model = ModelConfig(
        num_layers=1,
        hidden_size=width,
        vocab_size=1,
        is_gated=not is_gpt,
        has_biases=is_gpt,
        num_positions=seq_len if is_gpt else 0,
        **sizes,
    )
    layer = Block(model, 0, kernels=Kernels(is_attention_fused=attention == "fused"))
    return layer, torch.ones(num_sequences, seq_len, width, requires_grad=True)


def observe(answer: Any, case: Case) -> dict[str, int]:
    """Bytes that a layer keeps between the passes, and products of the backward pass."""
    layer, x = layer_and_input(**case)
    results: list[Tensor] = []

    def forward() -> Tensor:
        contexts = partial(create_selective_checkpoint_contexts, answer)
        options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
        results.append(checkpoint(layer, x, context_fn=contexts, **options))
        return results[0]

    saved = count_saved_bytes(forward, layer, x)
    with Products() as products:
        results[0].backward(torch.ones_like(results[0]))
    return {
        "kept_bytes": saved.total_bytes + saved.unseen_bytes,
        "products_in_backward": products.count,
    }


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Bytes that a layer keeps between the passes, and products of the backward pass."""
    return [
        Fact(
            "kept_bytes",
            observed["kept_bytes"],
            "kept bytes",
            "Print each operation that your policy is asked about. Which results does it keep, and "
            "which of them are products?",
        ),
        Fact(
            "products_in_backward",
            observed["products_in_backward"],
            "products in the backward pass",
            "A product runs twice. Under which name does the operation come, and what does your "
            "policy answer to that name?",
        ),
    ]

"""Which tensors of the drawing does autograd keep? The instrument counts them on a real block."""

from collections import Counter

import torch

from course_utils.instruments import count_saved_bytes, fake_tensors
from course_utils.reference.transformer import Block
from course_utils.show.layer_diagram.layer import LayerPass

DTYPES = {2: torch.bfloat16, 4: torch.float32}


def saved_by_name(run: LayerPass) -> dict[str, int]:
    """Bytes that a block of fake tensors keeps for backward, by the drawing's names."""
    dtype = DTYPES[run.element_bytes]
    with fake_tensors():
        block = Block(run.model, 0, dtype=dtype, kernels=run.kernels)
        shape = (run.num_sequences, run.seq_len, run.model.hidden_size)
        x = torch.empty(shape, dtype=dtype, requires_grad=True)
        saved = count_saved_bytes(lambda: block(x), block).tensors
    kept: Counter[str] = Counter()
    for name, each in zip(names_in_order_of_saving(run), saved, strict=True):
        kept[name] += each.storage_bytes
    return dict(kept)


def names_in_order_of_saving(run: LayerPass) -> list[str]:
    """Names of the tensors that a block hands to autograd; LayerNorm's statistics are two."""
    names = []
    for number, inside in ((1, [*_core(run), "o"]), (2, _inner(run))):
        statistics = [f"statistics_{number}"] * (2 if run.model.has_biases else 1)
        names += [f"x_{number}", *statistics, f"normed_{number}", *inside]
    return names


def _core(run: LayerPass) -> list[str]:
    q, k = ("q", "k") if run.model.num_positions else ("q′", "k′")
    if run.kernels.is_attention_recomputed:
        return [q, k, "v"]
    if run.kernels.is_attention_fused:
        return [k, q, "v", "log_sum_exp"]
    k, v = ("k″", "v″") if run.has_repeated_heads else (k, "v")
    return [k, q, "P", v]


def _inner(run: LayerPass) -> list[str]:
    if not run.model.is_gated:
        return ["u", "z"]
    return ["g", "u", "z"] if run.kernels.is_gate_fused else ["g", "u", "SiLU(g)", "z"]

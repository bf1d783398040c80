"""What fraction of a device's peak does a training run use, and by whose convention?

MFU, model FLOPs utilisation, is the FLOPs that the model needs per token, times tokens per second,
divided by the device's peak FLOP/s. HFU, hardware FLOPs utilisation, also counts recomputation. How
many FLOPs a token needs is a convention, and the same run has a different MFU in each: name yours,
and compare only within one.

Letters: N parameters, L layers, h hidden size, a query heads, d head dimension, s tokens.

    >>> model_flops_per_token(preset("Llama-3.2-1B"), 4096, "exact")
    9025093632

Sources: Chowdhery et al. 2022, PaLM, section 4.1 and appendix B (MFU; 6N + 12 L h s); Kaplan et
al. 2020, Scaling Laws for Neural Language Models, section 2.1 (6N without embedding).
"""

from collections.abc import Callable

from course_utils.configs import Device, ModelConfig
from course_utils.configs.validation import find_named, require_positive
from course_utils.formulas.flops import attention_core_flops
from course_utils.formulas.parameters import active_parameters
from course_utils.formulas.training_flops import training_flops_per_token


def _six_n(model: ModelConfig, seq_len: int) -> int:
    """Two operations per parameter forward, four backward; leaves out the attention core.

    Counts the embedding, though it is a lookup: right if it is tied, as it then is the head too.
    """
    return 6 * sum(active_parameters(model).values())


def _six_n_without_embedding(model: ModelConfig, seq_len: int) -> int:
    """Parameters of the layers only: without embedding, head and attention core."""
    parts = active_parameters(model)
    return 6 * (sum(parts.values()) - parts["embedding"] - parts["head"])


def _palm(model: ModelConfig, seq_len: int) -> int:
    """6N plus full attention, ``12 L a d s``; counts an untied embedding too."""
    return _six_n(model, seq_len) + 3 * _attention_per_token(model, seq_len)


def _causal(model: ModelConfig, seq_len: int) -> int:
    """As exact, but with the half of attention that a causal mask leaves."""
    return training_flops_per_token(model, seq_len) - 3 * _attention_per_token(model, seq_len) // 2


def _attention_per_token(model: ModelConfig, seq_len: int) -> int:
    return model.num_layers * attention_core_flops(model, 1, seq_len) // seq_len


# Training FLOPs of one token, forward and backward, from model and sequence length.
CONVENTIONS: dict[str, Callable[[ModelConfig, int], int]] = {
    "6N": _six_n,
    "6N without embedding": _six_n_without_embedding,
    "PaLM": _palm,
    "exact": training_flops_per_token,
    "causal": _causal,
}


def model_flops_per_token(model: ModelConfig, seq_len: int, convention: str) -> int:
    """FLOPs that training needs for one token, forward and backward, without recomputation.

    Args:
        model: Any of the course's models; only the experts that a token uses count.
        seq_len: Tokens s of a sequence.
        convention: One of `CONVENTIONS`: ``"6N"``; ``"6N without embedding"``, also without head;
            ``"PaLM"``, which is ``6N + 12 L h s``; ``"exact"``, every matrix product with full
            attention; ``"causal"``, the same with half of the attention.

    Returns:
        A whole number of FLOPs.

    Raises:
        ValueError: If there is no such convention, or if ``seq_len`` is not above zero.
    """
    require_positive("model_flops_per_token", seq_len=seq_len)
    return find_named("convention", convention, CONVENTIONS)(model, seq_len)


def model_flops_utilisation(
    model: ModelConfig,
    seq_len: int,
    tokens_per_second: float,
    peak_flops_per_second: int,
    convention: str,
) -> float:
    """MFU: the FLOP/s that the model needs, as a fraction of the peak.

    Args:
        model: Any of the course's models.
        seq_len: Tokens s of a sequence.
        tokens_per_second: Of one device.
        peak_flops_per_second: Of one device, dense, in the precision of the products.
        convention: One of `CONVENTIONS`.

    Returns:
        A fraction, below one unless a number is wrong.

    Raises:
        ValueError: If there is no such convention, or if a number is not above zero.
    """
    flops = model_flops_per_token(model, seq_len, convention)
    return _utilisation(flops, tokens_per_second, peak_flops_per_second)


def utilisation_by_convention(
    model: ModelConfig, num_params: int, seq_len: int, tokens_per_second: int, hardware: Device
) -> dict[str, float]:
    """MFU of one run in bf16, over the dense peak, by the four conventions that papers use.

    Args:
        model: Sizes of the model.
        num_params: All its parameters N.
        seq_len: Tokens of one sequence.
        tokens_per_second: Of one device.
        hardware: The device.

    Returns:
        ``counted`` (every matrix product, full attention), ``causal`` (half of the attention),
        ``six_n`` and ``six_n_and_attention`` (6N, without and with the full attention).

    Raises:
        ValueError: If a number is not above zero.
    """
    require_positive("utilisation_by_convention", num_params=num_params)
    six_n, core = 6 * num_params, 3 * _attention_per_token(model, seq_len)
    flops_per_token = {
        "counted": training_flops_per_token(model, seq_len),
        "causal": _causal(model, seq_len),
        "six_n": six_n,
        "six_n_and_attention": six_n + core,
    }
    peak = hardware.dense_flops_per_second("bf16")
    return {
        name: _utilisation(flops, tokens_per_second, peak)
        for name, flops in flops_per_token.items()
    }


def causal_percent(
    model: ModelConfig, num_params: int, seq_len: int, percent: float, convention: str
) -> float:
    """A printed utilisation of a Llama, with every matrix product and half of attention instead.

    Args:
        model: Sizes, gated and without its own head dimension.
        num_params: All its parameters N.
        seq_len: Tokens s of a sequence.
        percent: As printed.
        convention: What the printed one counts: ``"6N"``; ``"6N + attention"``, in full; ``"with
            recomputation"``, 4/3 of that; ``"lecture"``, the lecture's formula as printed, with
            the vocabulary once in each layer.
    """
    counted = training_flops_per_token(model, seq_len)
    core = 3 * _attention_per_token(model, seq_len)
    head = 6 * model.vocab_size * model.hidden_size
    theirs = {
        "6N": 6 * num_params,
        "6N + attention": 6 * num_params + core,
        "with recomputation": (6 * num_params + core) * 4 / 3,
        "lecture": counted + (model.num_layers - 1) * head,
    }
    return percent * (counted - core / 2) / find_named("convention", convention, theirs)


def _utilisation(flops_per_token: int, tokens_per_second: float, peak: int) -> float:
    require_positive("utilisation", peak_flops_per_second=peak)
    if tokens_per_second <= 0:
        raise ValueError(f"tokens_per_second must be above zero, got {tokens_per_second!r}")
    return flops_per_token * tokens_per_second / peak

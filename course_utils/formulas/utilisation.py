"""Which part of a device's peak does a training run use, and who says so?

MFU, model FLOPs utilisation, is the FLOPs that the model needs for a token times the tokens of a
second, by the peak FLOP/s of the device. HFU, hardware FLOPs utilisation, also counts what is
computed again. How many FLOPs a token needs is a convention, and the same run has as many MFUs as
there are conventions: name yours, and compare within one only.

Letters: N parameters, L layers, h hidden size, a query heads, d head dimension, s tokens.

    >>> model_flops_per_token(preset("Llama-3.2-1B"), 4096, "exact")
    9025093632
    >>> peak = device("A100-80").dense_flops_per_second("bf16")
    >>> tokens_per_second = tokens_per_second_at(preset("Llama-3.2-1B"), 4096, 0.5, peak, "exact")
    >>> round(tokens_per_second)
    17285

Sources: Chowdhery et al. 2022, PaLM, section 4.1 and appendix B (MFU; 6N + 12 L h s); Kaplan et
al. 2020, Scaling Laws for Neural Language Models, section 2.1 (6N without embedding).
"""

from collections.abc import Callable

from course_utils.configs import ModelConfig
from course_utils.configs.validation import find_named, require_not_negative, require_positive
from course_utils.formulas.flops import attention_core_flops, forward_flops
from course_utils.formulas.parameters import active_parameters


def _six_n(model: ModelConfig, seq_len: int) -> int:
    """Two operations for each parameter forward, four backward; attention's core is left out.

    The embedding counts, which is a lookup: right for a tied one, which is the head too.
    """
    return 6 * sum(active_parameters(model).values())


def _six_n_without_embedding(model: ModelConfig, seq_len: int) -> int:
    """The layers alone: neither embedding nor head, nor attention's core."""
    parts = active_parameters(model)
    return 6 * (sum(parts.values()) - parts["embedding"] - parts["head"])


def _palm(model: ModelConfig, seq_len: int) -> int:
    """6N and attention in full, ``12 L a d s``; an embedding that is not tied counts as well."""
    return _six_n(model, seq_len) + 3 * _attention_per_token(model, seq_len)


def _exact(model: ModelConfig, seq_len: int) -> int:
    """All matrix products, three times a forward pass, with attention in full."""
    return 3 * sum(forward_flops(model, 1, seq_len).values()) // seq_len


def _causal(model: ModelConfig, seq_len: int) -> int:
    """As exact, but of attention the half that a causal mask leaves."""
    return _exact(model, seq_len) - 3 * _attention_per_token(model, seq_len) // 2


def _attention_per_token(model: ModelConfig, seq_len: int) -> int:
    return model.num_layers * attention_core_flops(model, 1, seq_len) // seq_len


# FLOPs of one token in training, forward and backward, from a model and the length of a sequence.
CONVENTIONS: dict[str, Callable[[ModelConfig, int], int]] = {
    "6N": _six_n,
    "6N without embedding": _six_n_without_embedding,
    "PaLM": _palm,
    "exact": _exact,
    "causal": _causal,
}


def model_flops_per_token(model: ModelConfig, seq_len: int, convention: str) -> int:
    """FLOPs that training needs for one token, forward and backward, without recomputation.

    Args:
        model: Any of the course's models; of experts those count that a token meets.
        seq_len: Tokens s of a sequence.
        convention: One of `CONVENTIONS`: ``"6N"``; ``"6N without embedding"``, and without head;
            ``"PaLM"``, which is ``6N + 12 L h s``; ``"exact"``, every matrix product with
            attention in full; ``"causal"``, the same with half of the attention.

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


def hardware_flops_utilisation(
    flops_per_token: int,
    recomputed_flops_per_token: int,
    tokens_per_second: float,
    peak_flops_per_second: int,
) -> float:
    """HFU: the FLOP/s that are executed, as a fraction of the peak; the MFU if none are repeated.

    What flash attention's own backward pass computes again is not counted.

    Args:
        flops_per_token: As from `model_flops_per_token`, which names the convention.
        recomputed_flops_per_token: As from `formulas.recomputation.recomputed_flops`, by token.
        tokens_per_second: Of one device.
        peak_flops_per_second: Of one device, dense, in the precision of the products.

    Returns:
        A fraction, below one unless a number is wrong.

    Raises:
        ValueError: If a number is not above zero, or if less than nothing is recomputed.
    """
    require_positive("hardware_flops_utilisation", flops_per_token=flops_per_token)
    require_not_negative(
        "hardware_flops_utilisation", recomputed_flops_per_token=recomputed_flops_per_token
    )
    executed = flops_per_token + recomputed_flops_per_token
    return _utilisation(executed, tokens_per_second, peak_flops_per_second)


def _utilisation(flops_per_token: int, tokens_per_second: float, peak: int) -> float:
    require_positive("utilisation", peak_flops_per_second=peak)
    if tokens_per_second <= 0:
        raise ValueError(f"tokens_per_second must be above zero, got {tokens_per_second!r}")
    return flops_per_token * tokens_per_second / peak


def tokens_per_second_at(
    model: ModelConfig,
    seq_len: int,
    utilisation: float,
    peak_flops_per_second: int,
    convention: str,
) -> float:
    """Tokens per second of one device at an MFU: ``MFU * peak / (FLOPs per token)``.

    Raises:
        ValueError: If there is no such convention, or if the MFU is not between zero and one.
    """
    if not 0 < utilisation <= 1:
        raise ValueError(f"an MFU lies between 0 and 1, got {utilisation!r}")
    require_positive("tokens_per_second_at", peak_flops_per_second=peak_flops_per_second)
    flops = model_flops_per_token(model, seq_len, convention)
    return utilisation * peak_flops_per_second / flops

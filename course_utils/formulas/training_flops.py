"""How many FLOPs does training take for one token, and how does that grow with the length?

>>> training_flops_per_token(preset("Llama-3.2-1B"), 4096)
9025093632
>>> budget_ratio(preset("Llama-3.2-1B"), 4096, 8192)["whole_budget"]
1.1784593935169048
"""

from course_utils.configs import ModelConfig
from course_utils.configs.validation import require_positive
from course_utils.formulas.flops import model_flops


def training_flops_per_token(model: ModelConfig, seq_len: int) -> int:
    """FLOPs of all matrix products for one token: forward, and twice as many backward.

    Args:
        model: Any of the course's models; only the experts that a token uses count.
        seq_len: Tokens s of a sequence; the attention core is linear in it.

    Raises:
        ValueError: If ``seq_len`` is not above zero.
    """
    require_positive("training_flops_per_token", seq_len=seq_len)
    return 3 * model_flops(model, 1, seq_len) // seq_len


def budget_ratio(model: ModelConfig, old_seq_len: int, new_seq_len: int) -> dict[str, float]:
    """Training FLOPs after a change of the sequence length, over those before.

    Args:
        model: Any of the course's models.
        old_seq_len: Tokens of one sequence before.
        new_seq_len: Tokens of one sequence after.

    Returns:
        ``per_sequence``, and ``whole_budget`` for a fixed number of tokens.

    Raises:
        ValueError: If a length is not above zero.
    """
    old = training_flops_per_token(model, old_seq_len)
    new = training_flops_per_token(model, new_seq_len)
    return {
        "per_sequence": (new * new_seq_len) / (old * old_seq_len),
        "whole_budget": new / old,
    }

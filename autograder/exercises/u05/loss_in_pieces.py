"""Check of a loss whose logits are never all alive at once."""

import random
from typing import Any

from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of
from autograder.observing.u05 import loss_in_pieces
from autograder.observing.u05.loss_in_pieces import UPSTREAM, Trial

# Tensors as large as a piece's logits that may be alive at once: torch's cross-entropy and its
# gradient need three, one written with a log-sum-exp five.
LOGITS_AT_ONCE = 5.5
FLOAT64_BYTES = 8


def piece_cases(seed: int) -> list[Case]:
    """Pieces of one length and of two, one piece alone, small and larger vocabularies.

    No other tensor is as large as the logits of a piece.
    """
    rng = random.Random(seed)
    pairs = [(11, 3), (12, 3), (16, 1), (30, 2), (31, 4), (29, 3)]
    while len(pairs) < 20:
        num_pieces, length = rng.randint(2, 3), rng.randint(6, 9)
        # equal chunks with a shorter last one give the same number of pieces
        pairs.append((num_pieces * length - rng.randint(0, 1), num_pieces))
    return [_case(tokens, 2, rng.randrange(41, 61, 2), pieces) for tokens, pieces in pairs]


def _case(*values: int) -> Case:
    return dict(zip(("num_tokens", "hidden_size", "vocab_size", "num_pieces"), values, strict=True))


def measured(**case: int) -> dict[str, Any]:
    """The loss of all tokens at once, nothing kept beside the inputs, one run for each piece.

    Room is for some tensors as large as one piece's logits, for gradients of the inputs, and for
    one number of each piece.
    """
    trial = Trial(**case)
    inputs = [each.detach().clone() for each in trial.inputs]
    loss = F.cross_entropy(trial.hidden @ trial.weight.T, trial.targets)
    (loss * UPSTREAM).backward()
    tokens, width, words, num_pieces = case.values()
    longest = -(-tokens // num_pieces)
    numbers_at_once = LOGITS_AT_ONCE * longest * words + (2 * tokens + 3 * words) * width
    return {
        "pieces": num_pieces,
        "kept_bytes_beside_inputs": 0,
        "unseen_bytes": 0,
        "rounded_loss": 0,
        "loss": loss.item(),
        "wrong_gradients": 0,
        "tokens_in_longest_piece": longest,
        "peak_too_high": 0,
        "changed_inputs": 0,
        "gradients": trial.gradients,
        "inputs": inputs,
        "limits": {
            "kept": FLOAT64_BYTES * num_pieces,
            "peak": FLOAT64_BYTES * int(numbers_at_once),
        },
    }


CHECK = Check(
    cases=piece_cases,
    observe=loss_in_pieces.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u05-loss-in-pieces", observe=loss_in_pieces.observe),
        summarise=loss_in_pieces.summarise,
        relative_tolerance=PROMISED,
        labels=loss_in_pieces.LABELS,
    ),
    fallback="course_utils.reference.recomputation.loss_in_pieces",
    answers=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)

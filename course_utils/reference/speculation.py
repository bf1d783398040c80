"""How can a small model propose tokens, and the text still be that of the large one?

The draft model q proposes tokens one after the other; the large model p looks at all of them in one
pass. A proposed token x is accepted with chance min(1, p(x) / q(x)); at the first that is not, the
next token is drawn from what the draft proposes too rarely, max(0, p - q) made to sum to one.

    >>> speculative_rule([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 2), Fraction(1, 2)])
    ([1, Fraction(1, 2)], [Fraction(1, 1), Fraction(0, 1)])

Source: Leviathan, Kalman, Matias 2023, Fast Inference from Transformers via Speculative Decoding.
"""

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from course_utils.reference.transformer import Transformer

Number = Fraction | float
Rule = Callable[[Sequence[Number], Sequence[Number]], tuple[Sequence[Number], Sequence[Number]]]
"""Such as `speculative_rule`."""


def speculative_rule(p: Sequence[Number], q: Sequence[Number]) -> tuple[list[Number], list[Number]]:
    """With which chance each proposed token is accepted, and from what to draw after a rejection.

    Args:
        p: Chances of the large model, one for each token.
        q: Chances of the draft model.
    """
    accept = [min(1, here / there) if there else 1 for here, there in zip(p, q, strict=True)]
    too_rare = [max(0, here - there) for here, there in zip(p, q, strict=True)]
    total = sum(too_rare)
    return accept, [each / total for each in too_rare] if total else list(p)


class Speculated(NamedTuple):
    """Prompt and new tokens, and how many passes of the large model they took."""

    tokens: list[int]
    num_passes: int


@torch.no_grad()
def speculate(  # noqa: PLR0913  two models, what they continue, how far, and by which rule
    model: Transformer,
    draft: Transformer,
    prompt: Sequence[int],
    num_new: int,
    draft_length: int,
    *,
    rule: Rule = speculative_rule,
    temperature: float = 0.0,
    seed: int = 0,
) -> Speculated:
    """Continue a prompt with drafts of ``draft_length`` tokens.

    Without a cache, so that a pass can be read: a server keeps one, and sets its length back to the
    last accepted token.

    Args:
        model: The large model, whose text this is.
        draft: The small one, with the same vocabulary.
        prompt: Token ids.
        num_new: Tokens to add.
        draft_length: Tokens that are proposed before each pass.
        rule: Accepts and rejects.
        temperature: Zero for the most likely tokens.
        seed: Of the dice.
    """
    dice, tokens, num_passes = random.Random(seed), list(prompt), 0
    end = len(tokens) + num_new
    while len(tokens) < end:
        proposed, qs = _drafted(draft, tokens, draft_length, temperature, dice)
        logits = model(torch.tensor([tokens + proposed]))[0, len(tokens) - 1 :]
        ps = [_chances(each, temperature) for each in logits]
        num_passes += 1
        tokens += _accepted(proposed, ps, qs, rule, dice)
    return Speculated(tokens[:end], num_passes)


def _drafted(
    draft: Transformer, tokens: list[int], num_tokens: int, temperature: float, dice: random.Random
) -> tuple[list[int], list[list[float]]]:
    """Tokens that the draft model proposes, and its chances at each."""
    proposed: list[int] = []
    chances: list[list[float]] = []
    for _ in range(num_tokens):
        logits = draft(torch.tensor([tokens + proposed]))[0, -1]
        chances.append(_chances(logits, temperature))
        proposed.append(_drawn(chances[-1], dice))
    return proposed, chances


def _accepted(
    proposed: list[int],
    ps: list[list[float]],
    qs: list[list[float]],
    rule: Rule,
    dice: random.Random,
) -> list[int]:
    """The proposed tokens up to the first rejected one, and one of the large model's own."""
    for number, (token, p, q) in enumerate(zip(proposed, ps, qs, strict=False)):
        accept, after = rule(p, q)
        if dice.random() >= accept[token]:
            return [*proposed[:number], _drawn(after, dice)]
    return [*proposed, _drawn(ps[-1], dice)]


def _chances(logits: Tensor, temperature: float) -> list[float]:
    """A softmax, or all on the most likely token."""
    if temperature:
        return [float(each) for each in (logits / temperature).softmax(-1)]
    best = int(logits.argmax())
    return [float(token == best) for token in range(len(logits))]


def _drawn(chances: Sequence[Number], dice: random.Random) -> int:
    return dice.choices(range(len(chances)), [float(each) for each in chances])[0]

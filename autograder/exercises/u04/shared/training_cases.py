"""How the loop with three leaks is called: each leak by itself, in varied surroundings."""

import random

from autograder.checking.exercise_check import Case

PLAIN = {
    "is_training": True,
    "is_first_batch_small": False,
    "has_gradients": False,
    "is_head_frozen": False,
    "is_recording": True,
    "precision": "float64",
}


def training_cases(seed: int) -> list[Case]:
    """Each leak by itself, with one sequence in a batch and with several.

    Evaluations come with and without training before them, and with more bytes of logits than of
    one batch's graph; what is around them varies: before one training there are gradients already.
    States come in both precisions.
    """
    rng = random.Random(seed)
    cases = [_evaluation(rng, number) for number in range(12)]
    for number in range(5):
        sizes = _sizes(rng, number, num_batches=rng.randint(4, 5), seq_len=8)
        average = {"scenario": "confidence", "width": rng.randint(2, 3)}
        average["num_words"] = rng.randint(60, 68)
        precision = "float32" if number == 3 else "float64"
        samples = {"scenario": "states", "width": rng.choice((40, 44)), "num_words": 3}
        around = PLAIN | {"is_training": number != 1, "is_head_frozen": number == 2}
        cases.append(average | sizes | {"num_layers": 1, "num_held_out": 1} | around)
        around |= {"precision": precision}
        sizes |= {"num_batches": 4, "seq_len": rng.randint(10, 12)}
        cases.append(samples | sizes | {"num_layers": 1, "num_held_out": 1} | around)
    return cases


def _evaluation(rng: random.Random, number: int) -> Case:
    num_batches = 2 if number in (3, 7) else 0
    sizes = _sizes(rng, number, num_batches=num_batches, seq_len=rng.choice((5, 6)))
    return {
        "scenario": "loss",
        "width": rng.choice((20, 28)),
        "num_words": 5,
        **sizes,
        "num_layers": 2,
        "num_held_out": 20 if number > 9 else rng.choice((5, 6)),
        "is_training": number % 2 == 0,
        "is_first_batch_small": number in (1, 5, 7),
        "has_gradients": number % 3 == 1,
        "is_head_frozen": number % 4 == 2,
        "is_recording": number not in (5, 8),
        "precision": "float64",
    }


def _sizes(rng: random.Random, number: int, *, num_batches: int, seq_len: int) -> Case:
    num_sequences = rng.randint(2, 3) if number % 2 else 1
    return {"num_batches": num_batches, "num_sequences": num_sequences, "seq_len": seq_len}

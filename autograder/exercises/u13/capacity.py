"""Check of what a capacity of experts loses, against queues of first, second, … choices."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of, questions_of

NAMES = ("choices", "num_experts", "capacity")


def routing_cases(seed: int) -> list[Case]:
    """Even and crowded choices, one choice and several, one place for each expert up to enough."""
    rng = random.Random(seed)
    cases = [
        ([[0, 1], [0, 1], [0, 2]], 3, 1),
        ([[2], [2], *([rng.randrange(3)] for _ in range(4))], 3, 2),
    ]
    for number in range(20):
        experts, chosen = rng.randint(4, 8), 1 + (number + 2) % 3
        crowd = [1 + 4 * (each < 2) * (number % 2) for each in range(experts)]
        choices = [_choice(rng, crowd, chosen) for _ in range(rng.randint(6, 14))]
        even = -(-len(choices) * chosen // experts)
        capacity = (1, even, 2 * even, len(choices))[number // 5]
        cases.append((choices, experts, capacity))
    return [dict(zip(NAMES, each, strict=True)) for each in cases]


def _choice(rng: random.Random, weights: list[int], num_chosen: int) -> list[int]:
    """Different experts, the crowded ones more often."""
    left = list(range(len(weights)))
    chosen = []
    for _ in range(num_chosen):
        chosen.append(rng.choices(left, [weights[each] for each in left])[0])
        left.remove(chosen[-1])
    return chosen


def queued(choices: list[list[int]], num_experts: int, capacity: int) -> dict[str, int]:
    """One queue for each expert, all choices in order; what is behind its places is lost."""
    in_order = sorted(
        (rank, token, expert)
        for token, experts in enumerate(choices)
        for rank, expert in enumerate(experts)
    )
    queues = [[token for _, token, each in in_order if each == n] for n in range(num_experts)]
    served = {token for queue in queues for token in queue[:capacity]}
    return {
        "dropped": sum(len(queue[capacity:]) for queue in queues),
        "lost_tokens": len(choices) - len(served),
        "empty_places": sum(capacity - len(queue[:capacity]) for queue in queues),
    }


CHECK = Check(
    cases=routing_cases,
    judge=EqualTo(
        queued,
        *mistakes_of("u13-capacity"),
        questions=questions_of("u13-capacity"),
    ),
    fallback="course_utils.formulas.serving.capacity_losses",
)

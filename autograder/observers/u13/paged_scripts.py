"""Scripts of requests to a paged cache, in words: ``a`` appends, ``-a`` ends, ``a>b`` forks."""

import random

from autograder.checking.exercise_check import Case

NAMES = ("a", "b", "c", "d", "e", "f")
# Chances to fork and to free; all other requests append.
CHANCES = {"append": (0.0, 0.0), "free": (0.0, 0.15), "share": (0.2, 0.1), "copy": (0.2, 0.1)}


def script_of(case: Case) -> list[list[str]]:
    """All requests of a case, which names a few and the number of them."""
    words = case["begins"].split()
    if len(words) < case["num_requests"]:
        words = random_script(
            case["scenario"], case["block_size"], case["num_requests"], case["seed"]
        )
    return [_request(word) for word in words]


def random_script(scenario: str, block_size: int, num_requests: int, seed: int) -> list[str]:
    """Random requests; a sequence that ended may begin again."""
    rng = random.Random(seed)
    forking, freeing = CHANCES[scenario]
    lengths: dict[str, int] = {}
    script = []
    for _ in range(num_requests):
        dice, unused = rng.random(), [each for each in NAMES if each not in lengths]
        # Elsewhere a sequence forks only after a full block, so that no block has to be copied.
        forks = [name for name, n in lengths.items() if scenario == "copy" or n % block_size == 0]
        if dice < forking and forks and unused:
            name, child = rng.choice(forks), rng.choice(unused)
            lengths[child] = lengths[name]
            script.append(f"{name}>{child}")
        elif forking <= dice < forking + freeing and lengths:
            name = rng.choice(list(lengths))
            del lengths[name]
            script.append(f"-{name}")
        else:
            name = rng.choice(NAMES[: 3 + 3 * (scenario != "append")])
            lengths[name] = lengths.get(name, 0) + 1
            script.append(name)
    return script


def _request(word: str) -> list[str]:
    if ">" in word:
        return ["fork", *word.split(">")]
    return ["free", word[1:]] if word.startswith("-") else ["append", word]

"""Check of a plan: which layers recompute what, so that the bytes fit and the FLOPs are few?"""

import random
from collections.abc import Iterable
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of
from autograder.observing.u05 import plan

Option = dict[str, Any]
FIELDS = ("name", "kept_bytes", "recomputed_flops")
OPTION_NAMES = ("none", "products", "attention", "selective", "full")

# Too many layers to try every sequence of options.
MANY_LAYERS = 16


def plan_cases(seed: int) -> list[Case]:
    """Caps below every plan, exactly on one, above all, in between; many layers; equal options."""
    rng = random.Random(seed)
    worked = _options([("none", 10, 0), ("selective", 6, 1), ("full", 1, 4)])
    cases: list[Case] = [{"num_layers": 4, "options": worked, "cap_bytes": 19}]
    for num_options in (2, 3, 3, 4, 4, 4):
        for place in ("none fits", "to the byte", "between", "between"):
            num_layers, options = rng.randint(5, 9), _random_options(rng, num_options)
            cap = _cap(rng, num_layers, options, place)
            cases.append({"num_layers": num_layers, "options": options, "cap_bytes": cap})
    options = _random_options(rng, 3)
    largest = max(option["kept_bytes"] for option in options)
    cases.append({"num_layers": 6, "options": options, "cap_bytes": 7 * largest})
    options = _random_options(rng, 5)
    cap = _cap(rng, MANY_LAYERS, options, "between")
    cases.append({"num_layers": MANY_LAYERS, "options": options, "cap_bytes": cap})
    return [*cases, _with_twins(rng)]


def _with_twins(rng: random.Random) -> Case:
    """Two options of other names keep and recompute the same, and no good plan lacks them both."""
    kept, flops = rng.randint(100, 150), rng.randint(20, 60)
    rows = [("products", kept, flops), ("attention", kept, flops)]
    rows += [
        ("none", rng.randint(400, 499), 0),
        ("full", rng.randint(5, 25), rng.randint(600, 900)),
    ]
    rng.shuffle(rows)
    return {"num_layers": 5, "options": _options(rows), "cap_bytes": 5 * kept}


def _options(rows: Iterable[tuple[str, int, int]]) -> list[Option]:
    return [dict(zip(FIELDS, row, strict=True)) for row in rows]


def _random_options(rng: random.Random, count: int) -> list[Option]:
    """Options in any order: the more one keeps, the less it recomputes."""
    kept = sorted(rng.sample(range(60, 500), count - 1), reverse=True)
    flops = sorted(rng.sample(range(40, 900), count - 1))
    names = [*OPTION_NAMES[: count - 1], OPTION_NAMES[-1]]
    rows = list(zip(names, [*kept, rng.randint(5, 25)], [0, *flops], strict=True))
    rng.shuffle(rows)
    return _options(rows)


def _cap(rng: random.Random, num_layers: int, options: list[Option], place: str) -> int:
    sizes: list[int] = [option["kept_bytes"] for option in options]
    lowest, highest = num_layers * min(sizes), num_layers * max(sizes)
    if place == "none fits":
        return lowest - rng.randint(1, 9)
    if place == "to the byte":
        return sum(rng.choice(sizes) for _ in range(num_layers))
    return rng.randint(lowest + (highest - lowest) // 5, highest - (highest - lowest) // 5)


def best(num_layers: int, options: list[Option], cap_bytes: int) -> dict[str, int]:
    """The fewest FLOPs under the cap, layer by layer for every sum of bytes that can occur."""
    fewest = {0: 0}
    for _ in range(num_layers):
        longer: dict[int, int] = {}
        for kept, flops in fewest.items():
            for option in options:
                total, cost = kept + option["kept_bytes"], flops + option["recomputed_flops"]
                if total <= cap_bytes:
                    longer[total] = min(cost, longer.get(total, cost))
        fewest = longer
    return {
        "unknown_names": 0,
        "odd_counts": 0,
        "planned_layers": num_layers if fewest else 0,
        "bytes_above_cap": 0,
        "recomputed_flops": min(fewest.values(), default=0),
    }


CHECK = Check(
    cases=plan_cases,
    observe=plan.observe,
    judge=Behaviour(
        best,
        *mistakes_of("u05-plan", observe=plan.observe),
        summarise=plan.summarise,
        labels=plan.LABELS,
    ),
    fallback="course_utils.formulas.recomputation.cheapest_plan",
)

"""Check of a plan: which layers recompute what, so that the bytes fit and the FLOPs are few?"""

import random
from collections.abc import Iterable
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer, and its choice.
PLANS = "itertools.combinations_with_replacement(options, num_layers)\n"
FITS, FLOPS = 'total(each, "kept_bytes") <= cap_bytes', 'total(each, "recomputed_flops")'
CHEAPEST = f"min(fitting, key=lambda each: {FLOPS}, default=())"
RESULT = "{name: names.count(name) for name in names}"
BY_FLOPS = 'sorted(options, key=lambda each: each["recomputed_flops"])'
SMALLEST = 'min(options, key=lambda each: each["kept_bytes"])'


def _from(plans: str) -> dict[str, str]:
    """The best of other plans."""
    return {PLANS: f"{plans}\n"}


FIRST_CHOICES = (
    "Your first layers take what is cheapest for them, and the others have to live with what is "
    "left. Is the sum of good first choices the best plan?"
)
GREEDY = f"""()
    for others in reversed(range(num_layers)):
        left = cap_bytes - total(best, "kept_bytes") - others * {SMALLEST}["kept_bytes"]
        best += tuple([each for each in {BY_FLOPS} if each["kept_bytes"] <= left][:1])
    best = best if len(best) == num_layers else ()"""
UNTIL_NONE_FITS = f"""()
    for _ in range(num_layers):
        left = cap_bytes - total(best, "kept_bytes")
        best += tuple([each for each in {BY_FLOPS} if each["kept_bytes"] <= left][:1])"""
# From the cheapest everywhere, one layer after the other to the option that frees most for a FLOP.
BY_RATIO = f"""[{BY_FLOPS}[0]] * num_layers
    kept, flops = "kept_bytes", "recomputed_flops"
    while total(best, "kept_bytes") > cap_bytes:
        swaps = [
            ((other[flops] - each[flops]) / (each[kept] - other[kept]), n, other)
            for n, each in enumerate(best)
            for other in options
            if other[kept] < each[kept]
        ]
        if not swaps:
            return {{}}
        _, n, option = min(swaps, key=lambda swap: swap[:2])
        best[n] = option"""
IS_USEFUL = """not any(
        other is not each and all(other[field] <= each[field] for field in list(each)[1:])
        for other in options
    )"""
EDITS = (
    Edit(
        "Right wherever a plan fits. What does the exercise ask for where none does?",
        {"default=()": f"default=num_layers * ({SMALLEST},)"},
    ),
    Edit(
        "Right wherever a plan fits. What does the exercise ask for where none does?",
        {"default=()": f"default=num_layers * ({BY_FLOPS}[0],)"},
    ),
    Edit(
        "Your plans have a layer too few. To how many must the numbers add up?",
        _from("itertools.combinations_with_replacement(options, num_layers - 1)"),
    ),
    Edit(
        "The values of your dictionary are bytes. What does the exercise want counted?",
        {
            RESULT: '{one["name"]: total([o for o in best if o is one], "kept_bytes") '
            "for one in best}"
        },
    ),
    Edit(
        "Wrong only where a plan meets the cap to the byte. Is that too much?",
        {"<= cap_bytes": "< cap_bytes"},
    ),
    Edit(
        "The cap changes nothing in your plans. How many bytes do all layers keep together?",
        {f" if {FITS}": ""},
    ),
    Edit(
        "Your plan fits if the cap is that of one layer. How many bytes do all layers keep "
        "together?",
        {FITS: 'all(option["kept_bytes"] <= cap_bytes for option in each)'},
    ),
    Edit(
        "Two options are equal in both numbers, and you drop both: each makes the other "
        "useless. Which one do you keep?",
        {
            "plans = ": f"useful = [each for each in options if {IS_USEFUL}]\n    plans = ",
            PLANS: PLANS.replace("options", "useful"),
        },
    ),
    Edit(
        "You find no plan where one fits. May several layers take the same option?",
        {PLANS: "()\n"},
    ),
    Edit(
        "All your layers do the same. Could one layer keep more than another?",
        _from("[num_layers * [option] for option in options]"),
    ),
    Edit(
        "You keep as little as you can. Is there a prize for bytes that stay free?",
        {FLOPS: 'total(each, "kept_bytes")'},
    ),
    Edit(
        "You keep as much as fits. Is a byte that stays free worth a FLOP that runs again?",
        {FLOPS: '-total(each, "kept_bytes")'},
    ),
    Edit(
        "Your plan fits, and you take the first or the last that does. Which of all that fit "
        "recomputes the least?",
        {CHEAPEST: "(*fitting, ())[0]"},
    ),
    Edit(
        "Your plan fits, and you take the first or the last that does. Which of all that fit "
        "recomputes the least?",
        {CHEAPEST: "((), *fitting)[-1]"},
    ),
    Edit(
        "You mix the two ends of the list only. When does an option between them come cheaper?",
        _from(f"itertools.combinations_with_replacement(({BY_FLOPS}[0], {SMALLEST}), num_layers)"),
    ),
    Edit(
        "Your plans mix two options at most. When does a third come cheaper for some layers?",
        _from(
            "[p for one in options for other in options for p in "
            "itertools.combinations_with_replacement((one, other), num_layers)]"
        ),
    ),
    Edit(FIRST_CHOICES, {CHEAPEST: GREEDY}),
    Edit(
        "One layer after the other takes what frees most bytes for a FLOP, until all fit. Would "
        "less than the last of these steps have been enough?",
        {CHEAPEST: BY_RATIO},
    ),
    Edit(
        "You hand out bytes until none are left, and layers remain. Which layers has your plan "
        "forgotten?",
        {CHEAPEST: UNTIL_NONE_FITS},
    ),
    Edit(
        "The keys of your dictionary are not names of options. Which field of an option holds "
        "its name?",
        {RESULT: "{f'layer {n}': option['name'] for n, option in enumerate(best)}"},
    ),
    Edit(
        "Your values are shares of the layers. What should the values of your dictionary add up "
        "to?",
        {"names.count(name)": "names.count(name) / num_layers"},
    ),
)

CHECK = Check(
    cases=plan_cases,
    observe=plan.observe,
    judge=Behaviour(
        best,
        *edited("u05-plan", EDITS, observe=plan.observe),
        summarise=plan.summarise,
        labels=plan.LABELS,
    ),
    fallback="course_utils.formulas.recomputation.cheapest_plan",
)

"""Check of a plan: which layers recompute what, so that the bytes fit and the FLOPs are few?"""

import random
from collections.abc import Callable, Iterable
from itertools import combinations, combinations_with_replacement
from typing import Any

from autograder.checking import plain_data
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake

Option = dict[str, Any]
Plan = dict[str, int]
Planner = Callable[[int, list[Option], int], Plan]
FIELDS = ("name", "kept_bytes", "recomputed_flops")
OPTION_NAMES = ("none", "products", "attention", "selective", "full")

# Too many layers to try every sequence of options.
MANY_LAYERS = 16


def plan_cases(seed: int) -> list[Case]:
    """Caps below every plan, exactly on one, above all and in between; one model of many layers."""
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
    return [*cases, {"num_layers": MANY_LAYERS, "options": options, "cap_bytes": cap}]


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


def simulated(plan: Any, num_layers: int, options: list[Option], cap_bytes: int) -> dict[str, int]:
    """What a plan comes to: layers that it covers, bytes above the cap, and recomputed FLOPs.

    Raises:
        TypeError: If the plan is not a dictionary.
        ValueError: If it names an unknown option, or a count of layers is not a whole number.
    """
    if type(plan) is not dict:
        raise TypeError(
            f"wanted a dictionary from names to numbers of layers, got {plain_data.describe(plan)}"
        )
    by_name = {option["name"]: option for option in options}
    for name, count in plan.items():
        if name not in by_name:
            raise ValueError(f"no option is called {name!r}; there are {', '.join(by_name)}")
        if type(count) is not int or count < 0:
            raise ValueError(f"{count!r} layers of {name!r}: wanted a whole number from 0 on")
    return _totals(plan, by_name, cap_bytes)


def _totals(plan: Plan, by_name: dict[str, Option], cap_bytes: int) -> dict[str, int]:
    kept, flops = (
        sum(count * by_name[name][field] for name, count in plan.items()) for field in FIELDS[1:]
    )
    return {
        "planned_layers": sum(plan.values()),
        "bytes_above_cap": max(0, kept - cap_bytes) if plan else 0,
        "recomputed_flops": flops,
    }


def observe(answer: Any, case: Case) -> object:
    """The student's plan, simulated."""
    given = {key: plain_data.unpack(plain_data.pack(value)) for key, value in case.items()}
    made = plain_data.unpack(plain_data.pack(answer(*given.values())))
    return None if made is None else simulated(made, **case)


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
    layers = num_layers if fewest else 0
    flops = min(fewest.values(), default=0)
    return {"planned_layers": layers, "bytes_above_cap": 0, "recomputed_flops": flops}


def plan(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    """The course's own answer: try every plan."""
    return _cheapest(_plans(num_layers, options), options, cap_bytes)


def _plans(num_layers: int, options: list[Option]) -> list[Plan]:
    names = [option["name"] for option in options]
    chosen = combinations_with_replacement(names, num_layers)
    return [{name: each.count(name) for name in names} for each in chosen]


def _cheapest(plans: list[Plan], options: list[Option], cap_bytes: int) -> Plan:
    """The plan with the fewest FLOPs among those that fit; empty if none does."""
    by_name = {option["name"]: option for option in options}
    totals = [(_totals(each, by_name, cap_bytes), each) for each in plans]
    fitting = [pair for pair in totals if not pair[0]["bytes_above_cap"]]
    return min(fitting, key=lambda pair: pair[0]["recomputed_flops"], default=({}, {}))[1]


def _wrong(planner: Planner) -> Callable[..., dict[str, int]]:
    """What the plan of a wrong planner comes to."""
    return lambda *case: simulated(planner(*case), *case)


def _smallest(options: list[Option]) -> Option:
    return min(options, key=lambda option: option["kept_bytes"])


def _by_flops(options: list[Option]) -> list[Option]:
    return sorted(options, key=lambda option: option["recomputed_flops"])


def _one_for_all(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    """The same option for all layers."""
    plans = [{option["name"]: num_layers} for option in options]
    return _cheapest(plans, options, cap_bytes)


def _never_empty(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    """The smallest option for all layers where no plan fits."""
    right = plan(num_layers, options, cap_bytes)
    return right or {_smallest(options)["name"]: num_layers}


def _fewest_bytes(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    smallest = _smallest(options)
    fits = num_layers * smallest["kept_bytes"] <= cap_bytes
    return {smallest["name"]: num_layers} if fits else {}


def _two_options(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    """Mix only the option that keeps least and the one that recomputes least."""
    ends = [_by_flops(options)[0], _smallest(options)]
    return _cheapest(_plans(num_layers, ends), options, cap_bytes)


def _any_two_options(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    """The best mix of two options."""
    pairs = combinations(options, 2)
    plans = [each for pair in pairs for each in _plans(num_layers, list(pair))]
    return _cheapest(plans, options, cap_bytes)


def _cap_for_each(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    """The cheapest option that fits if every layer has the whole cap."""
    fitting = [option for option in _by_flops(options) if option["kept_bytes"] <= cap_bytes]
    return {fitting[0]["name"]: num_layers} if fitting else {}


def _layer_by_layer(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    """For each layer the cheapest option that leaves enough for the others."""
    made = dict.fromkeys((option["name"] for option in options), 0)
    least, left = _smallest(options)["kept_bytes"], cap_bytes
    for others in range(num_layers - 1, -1, -1):
        fitting = [o for o in _by_flops(options) if o["kept_bytes"] + others * least <= left]
        if not fitting:
            return {}
        made[fitting[0]["name"]] += 1
        left -= fitting[0]["kept_bytes"]
    return made


def _first_come(num_layers: int, options: list[Option], cap_bytes: int) -> Plan:
    """For each layer the cheapest option that still fits, until none does."""
    made = dict.fromkeys((option["name"] for option in options), 0)
    left = cap_bytes
    for _ in range(num_layers):
        fitting = [option for option in _by_flops(options) if option["kept_bytes"] <= left]
        if not fitting:
            break
        made[fitting[0]["name"]] += 1
        left -= fitting[0]["kept_bytes"]
    return made


CHECK = Check(
    cases=plan_cases,
    reference=plan,
    observe=observe,
    judge=EqualTo(
        best,
        Mistake(
            "Right wherever a plan fits. What does the exercise ask for where none does?",
            _wrong(_never_empty),
        ),
        Mistake(
            "Right but where a plan meets the cap to the byte. Is that too much?",
            _wrong(lambda layers, options, cap: plan(layers, options, cap - 1)),
        ),
        Mistake(
            "The cap changes nothing in your plans. How many bytes do all layers keep together?",
            _wrong(lambda layers, options, cap: {_by_flops(options)[0]["name"]: layers}),
        ),
        Mistake(
            "Your plan fits if the cap is that of one layer. How many bytes do all layers keep "
            "together?",
            _wrong(_cap_for_each),
        ),
        Mistake(
            "You find no plan where one fits. May several layers take the same option?",
            _wrong(lambda *case: {}),  # fewer options than layers: no plan
        ),
        Mistake(
            "All your layers do the same. Could one layer keep more than another?",
            _wrong(_one_for_all),
        ),
        Mistake(
            "You keep as little as you can. Is there a prize for bytes that stay free?",
            _wrong(_fewest_bytes),
        ),
        Mistake(
            "You mix the two ends of the list only. When does an option between them come cheaper?",
            _wrong(_two_options),
        ),
        Mistake(
            "Your plans mix two options at most. When does a third come cheaper for some layers?",
            _wrong(_any_two_options),
        ),
        Mistake(
            "Your first layers take what is cheapest for them, and the others have to live with "
            "what is left. Is the sum of good first choices the best plan?",
            _wrong(_layer_by_layer),
        ),
        Mistake(
            "You give out the bytes until none are left, and layers remain. Which layers has your "
            "plan forgotten?",
            _wrong(_first_come),
        ),
        together=True,
    ),
)

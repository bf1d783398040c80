"""Kinds of cases that the exercises of unit 13 have for every seed."""

from itertools import pairwise

from autograder.exercises.u13 import walked
from autograder.observers.u13.paged_scripts import script_of


def is_latent(case):
    return "latent_attention" in case["model"]


def most_of(case):
    return walked(**case)["most"]


def last_row(case):
    return case["attention"][-1][0]


FEATURES = {
    "u13-cache-bytes": {
        "latents": is_latent,
        "own keys": lambda case: case["model"]["num_heads"] == case["model"]["num_kv_heads"],
        "one key head": lambda case: case["model"]["num_kv_heads"] == 1,
        "a window": lambda case: 0 < case["window"] < case["context"],
        "a long window": lambda case: case["window"] > case["context"],
        "latents in a window": lambda case: is_latent(case) and case["window"],
        "one byte": lambda case: case["element_bytes"] == 1,
        "beyond a float": lambda case: case["context"] > 2**50,
    },
    "u13-cached-step": {
        "own keys": lambda case: case["num_heads"] == case["num_kv_heads"],
        "shared keys": lambda case: case["num_heads"] > case["num_kv_heads"] > 1,
        "one key head": lambda case: case["num_kv_heads"] == 1,
        "an empty cache": lambda case: case["length"] == 0,
        "full afterwards": lambda case: case["room"] == case["length"] + 1,
        "noise behind": lambda case: case["room"] > case["length"] + 1,
        "bytes of shared keys": lambda case: (
            case["scenario"] == "bytes" and case["num_heads"] > case["num_kv_heads"]
        ),
    },
    "u13-served": {
        "the speed ends it": lambda case: 0 < most_of(case) < min(case["room"], last_row(case)),
        "memory ends it": lambda case: most_of(case) == case["room"],
        "the rows end it": lambda case: most_of(case) == last_row(case) < case["room"],
        "one is too slow": lambda case: most_of(case) == 0,
        "any speed will do": lambda case: case["slowest"] == 0,
        "exactly as fast as asked": lambda case: walked(**case)["each"] == case["slowest"] > 0,
        "one is too slow, more are not": lambda case: (
            most_of(case) > 0 == most_of(case | {"room": 1})
        ),
        "rows that fall": lambda case: any(
            high[1] < low[1] for low, high in pairwise(case["attention"])
        ),
        "an answer between two rows": lambda case: (
            most_of(case) not in [0, case["room"], *(row[0] for row in case["attention"])]
        ),
    },
    "u13-latent-step": {
        "one cached token": lambda case: case["context"] == 1,
        "values wider than keys": lambda case: case["width"] > case["nope"],
        "values narrower than keys": lambda case: case["width"] < case["nope"],
        "many cached tokens": lambda case: case["context"] > 20,
    },
    "u13-paged": {
        "tight": lambda case: case["num_blocks"] < 10 and case["scenario"] == "copy",
        "ample": lambda case: case["num_blocks"] > 10 and case["scenario"] == "copy",
        "blocks of one cell": lambda case: case["block_size"] == 1,
        "a fork": lambda case: any(each[0] == "fork" for each in script_of(case)),
        "a name again": lambda case: any(
            each[0] == "free" and ["append", each[1]] in script_of(case)[number:]
            for number, each in enumerate(script_of(case))
        ),
    },
    "u13-touched": {
        "one token": lambda case: case["num_tokens"] == 1,
        "one expert each": lambda case: case["experts_per_token"] == 1 < case["num_tokens"],
        "all experts": lambda case: case["experts_per_token"] == case["num_experts"],
        "hundreds": lambda case: case["num_experts"] > 200,
    },
    "u13-accept": {
        "q without a token": lambda case: "0" in case["q"],
        "p without a token": lambda case: "0" in case["p"],
        "equal": lambda case: case["p"] == case["q"],
        "nothing in common": lambda case: all(
            "0" in pair for pair in zip(case["p"], case["q"], strict=True)
        ),
        "two tokens": lambda case: len(case["p"]) == 2,
    },
    "u13-speculate": {
        "always accepted": lambda case: case["acceptance"] == 1,
        "never accepted": lambda case: case["acceptance"] == 0,
        "no drafts": lambda case: case["draft_length"] == 0,
        "free drafts": lambda case: case["draft_cost"] == 0,
    },
    "u13-capacity": {
        "one choice": lambda case: len(case["choices"][0]) == 1,
        "three choices": lambda case: len(case["choices"][0]) == 3,
        "one place": lambda case: case["capacity"] == 1,
        "places for all": lambda case: case["capacity"] == len(case["choices"]),
    },
}

"""Check of a loop that generates tokens without waste: the same tokens, for less."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u02.shared.sizes import small_model
from autograder.observing.u02 import repair_generate
from autograder.observing.u02.repair_generate import SCENARIOS, setup_of


def generation_cases(seed: int) -> list[Case]:
    """Each scenario with one sequence and several, a short prompt and a long one, one new token."""
    rng = random.Random(seed)
    cases = []
    for number in range(20):
        batch, prompt, new = (
            (2, 6, 5),
            (1, rng.randint(2, 9), rng.randint(3, 6)),
            (rng.randint(2, 4), rng.randint(9, 14), rng.randint(3, 5)),
            (rng.randint(2, 3), 1, rng.randint(2, 5)),
        )[number // 5]
        model = small_model(rng, number // 5) | {"num_layers": 2}
        cases.append(
            {
                **{"scenario": SCENARIOS[number % 5], "model": model, "num_sequences": batch},
                **{"seq_len": prompt, "num_new": new, "is_training": number // 5 % 2 == 0},
            }
        )
    return cases


def measured(**case: Any) -> dict[str, Any]:
    """The most likely tokens by the whole model, which sees all of them every time."""
    model, tokens, num_new = setup_of(case)
    with torch.no_grad():
        for _ in range(num_new):
            likely = model(tokens)[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, likely], dim=1)
    b, s = case["num_sequences"], case["seq_len"]
    wanted = {
        "layers": {"positions": b * (s + num_new - 1), "times_cached": 1},
        "head": {"head_positions": b * num_new},
        "logits": {"logits_moved": 1},
        "graph": {"saved_tensors": 0},
        "waits": {"reads": 0},
    }
    return dict.fromkeys(QUESTIONS, 0) | wanted[case["scenario"]] | {"tokens": tokens}


QUESTIONS = {
    "flat": "`argmax` has taken a dimension away. Which shape do new tokens have for "
    "`hidden_states`, and which argument of `argmax` keeps it?",
    "restarted": "A new token goes to the first position and sees itself alone. What does "
    "`cache.length` say when it comes, and who has set it?",
    "raised_twice": "The cache's length grows faster than tokens come, so new ones look at cells "
    "that nobody has filled. Who raises `cache.length` already?",
    "shifted": "New tokens lie beside their place in the cache. How many tokens does it hold after "
    "the prompt, and how many after each new one?",
    "overwritten": "New tokens are written over earlier ones. What should `cache.length` be when "
    "the next one comes?",
    "uncut": "New tokens look at the whole buffer. Which of its cells have been filled by then, "
    "and which number says so?",
    "wrong_shape": "The tokens are not all there. What does the function return besides the new "
    "ones?",
    "wrong_tokens": "Some tokens are wrong. Is the whole prompt in the cache when the first new "
    "token looks back, and which position's logits belong to the next one?",
}
COPIED = (
    "The cache is copied for each new token. How long will it be in the end, and how many bytes "
    "have to move for one token more?"
)
LABELS = {
    "flat": "The new tokens have the shape (b,).",
    "restarted": "New tokens do not see those before them.",
    "raised_twice": "New tokens see cells of the cache that are not filled.",
    "shifted": "New tokens are in the wrong place of the cache.",
    "overwritten": "New tokens are written over earlier ones.",
    "uncut": "New tokens see cells of the cache that are not filled.",
    "wrong_shape": "The shape of the tokens is not (b, s + num_new).",
    "wrong_tokens": "Some tokens are wrong.",
    "positions": "the positions that go through the layers",
    "times_cached": "how often each position is written to a cache",
    "head_positions": "the positions that go through the head",
    "logits_moved": "how often each token's logits are read or written outside of the head",
    "saved_tensors": "the tensors that autograd saves",
    "reads": "how often Python reads a number of a tensor",
}

# Places of the model answer.
STATES, LAST = "hidden_states(model, new, cache)", "[:, -1]"
SCORES_MADE = "scores = model.head(last)"
BEST, GRAD = "scores.argmax(-1, keepdim=True)", "with torch.no_grad():"
FRESH = "cache = Cache(model, len(prompt), prompt.shape[1] + num_new)"
POINTS = 2.5
LESS = round(POINTS * 4 / 5, 6)
ADDED = "tokens.append(new)"
EMPTY = "for each in cache.tensors:\n        each.zero_()"  # else a mistake shows what lay there


def _after(line: str, then: str) -> dict[str, str]:
    """A line of the loop, and another one after it; what the cache does not hold is zero."""
    return {line: f"{line}\n            {then}", FRESH: f"{FRESH}\n    {EMPTY}"}


EDITS = (
    Edit(
        "Every new token sends the whole sequence through the layers again. What of the earlier "
        "tokens will ever be asked for, and who has it?",
        {STATES: "hidden_states(model, torch.cat(tokens, dim=1), Cache(model, len(prompt), 999))"},
        LESS,
        shows=("positions",),
    ),
    Edit(
        "All positions of the prompt go through the head. Whose logits do you read?",
        {
            f"last = {STATES}{LAST}": f"last = {STATES}",
            BEST: "scores[:, -1].argmax(-1, keepdim=True)",
        },
        LESS,
        shows=("head_positions",),
    ),
    Edit(
        "Logits are copied and turned into probabilities. Which token is the most likely one after "
        "that?",
        {BEST: "torch.softmax(scores.double(), dim=-1).argmax(-1, keepdim=True)"},
        LESS,
        shows=("logits_moved",),
    ),
    Edit(
        "Logits are copied and turned into probabilities. Which token is the most likely one after "
        "that?",
        {BEST: "torch.softmax(scores, dim=-1).argmax(-1, keepdim=True)"},
        LESS,
        shows=("logits_moved",),
    ),
    *(
        Edit(
            "The logits are copied before you search them. Does that change which is the largest?",
            {BEST: f"scores{copies}.argmax(-1, keepdim=True)"},
            LESS,
            shows=("logits_moved",),
        )
        for copies in (".double()", ".clone().double()")
    ),
    Edit(
        "Autograd saves tensors. Who will go back through this?",
        {GRAD: "if True:"},
        LESS,
        shows=("saved_tensors",),
    ),
    Edit(
        "Autograd saves tensors before you detach. Who told it to save none in the first place?",
        {
            GRAD: "if True:",
            "tokens.append(new)": "tokens.append(new.detach())",
            f"{STATES}{LAST}": f"{STATES}.detach(){LAST}",
        },
        LESS,
        shows=("saved_tensors",),
    ),
    Edit(
        "Python reads numbers for every token. Which of your lines needs a number, and which would "
        "take a tensor?",
        {"tokens.append(new)": "tokens.append(torch.tensor([[int(each)] for each in new]))"},
        LESS,
        shows=("reads",),
    ),
    Edit(
        "Python reads numbers for every token. Which of your lines needs a number, and which would "
        "take a tensor?",
        {"tokens.append(new)": "tokens.append(torch.tensor(new.tolist()))"},
        LESS,
        shows=("reads",),
    ),
    Edit(
        COPIED,
        {
            FRESH: "cache = Cache(model, len(prompt), prompt.shape[1])",
            ADDED: f"{ADDED}\n"
            "            for each in (cache.keys, cache.values):\n"
            "                each[:] = [torch.cat([a, a[:, :1]], dim=1) for a in each]",
        },
        LESS,
        shows=("times_cached",),
    ),
    *(
        Edit(QUESTIONS[name], pieces, shows=(name,))
        for name, pieces in (
            ("flat", {", keepdim=True": ""}),
            ("restarted", _after(ADDED, "cache.length = 0")),
            ("raised_twice", _after(ADDED, "cache.length += 1")),
            ("raised_twice", _after(SCORES_MADE, "cache.length += new.shape[1]")),
            ("shifted", _after(ADDED, "cache.length = prompt.shape[1] + len(tokens) - 3")),
            ("shifted", _after(ADDED, "cache.length = prompt.shape[1] + len(tokens) - 1")),
            ("overwritten", _after(ADDED, "cache.length = prompt.shape[1]")),
            ("uncut", _after(ADDED, "cache.length = prompt.shape[1] + num_new - 1")),
        )
    ),
    Edit(
        QUESTIONS["wrong_tokens"],
        {LAST: "[:, 0]"},
        shows=("wrong_tokens",),
    ),
    Edit(
        QUESTIONS["wrong_tokens"],
        {STATES: "hidden_states(model, new[:, -1:], cache)"},
        shows=("wrong_tokens",),
    ),
    Edit(
        QUESTIONS["wrong_shape"],
        {"tokens = [prompt]": "tokens = [prompt[:, :0]]"},
        shows=("wrong_shape",),
    ),
)

CHECK = Check(
    cases=generation_cases,
    observe=repair_generate.observe,
    judge=Behaviour(
        measured,
        *edited("u02-repair-generate", EDITS, observe=repair_generate.observe),
        scenarios=SCENARIOS,
        summarise=repair_generate.summarise,
        questions=QUESTIONS | {"times_cached": COPIED},
        labels=LABELS,
    ),
    fallback="course_utils.reference.generation.generate",
    answers=("course_utils.reference.generation.generate",),
    allowed_names=(
        "course_utils.reference.generation.Cache",
        "course_utils.reference.generation.hidden_states",
        "course_utils.reference.transformer.Transformer",
    ),
)

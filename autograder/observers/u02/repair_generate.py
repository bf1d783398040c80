"""What is observed of a loop that generates tokens: the tokens, and what each waste costs."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checking.case_objects import model_of
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import (
    errors_as_data,
    require_tensor,
    undisturbed,
)
from autograder.observers.u02.cache_use import CacheWrites, Looks, cache_mistake, refused
from course_utils.instruments.operands import tensors_in
from course_utils.reference import Transformer

PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "linear", "matmul"}
RENAME = {"_unsafe_view", "_reshape_alias", "detach", "alias", "reshape", "flatten", "contiguous"}
SCENARIOS = ("layers", "head", "logits", "graph", "waits")
GAINS = {"query": 3, "key": 3, "output": 10}
READS = {
    *(Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.__bool__, Tensor.__int__, Tensor.__float__),
    *(Tensor.__index__, Tensor.__contains__, torch.equal, torch.allclose, torch.nonzero),
    Tensor.nonzero,
}


def setup_of(case: Case) -> tuple[Transformer, Tensor, int]:
    """The same small model and prompt for the same sizes.

    Its weights are large enough that a token depends on all that attention may look at.
    """
    sizes = model_of(case["model"])
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(sizes.vocab_size + case["seq_len"])
        model = _attentive(Transformer(sizes))
        prompt = torch.randint(sizes.vocab_size, (case["num_sequences"], case["seq_len"]))
    model.train(case["is_training"])
    return model, prompt, case["num_new"]


@torch.no_grad()
def _attentive(model: Transformer) -> Transformer:
    for block in model.blocks:
        for name, gain in GAINS.items():
            block.get_submodule(f"attention.{name}").weight.mul_(gain)  # type: ignore[operator]
    return model


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Tokens; positions that went through layers, head and cache; logits, saved tensors, reads.

    Where `hidden_states` refuses what comes, what went before tells why.
    """
    model, prompt, num_new = setup_of(case)
    looks, writes = Looks(model), CacheWrites(model)
    work, functions = _Work(model, writes), _Functions(looks)
    num_saved, is_flat, tokens = [0], False, prompt[:, :0]

    def save(tensor: Tensor) -> Tensor:
        num_saved[0] += 1
        return tensor

    hooks = saved_tensors_hooks(save, lambda tensor: tensor)
    try:
        with undisturbed(), hooks, functions, work:
            tokens = require_tensor(answer(model, prompt, num_new))
    except ValueError as error:
        is_flat, at_last = refused(error)
        looks.calls += at_last
        if not (is_flat or cache_mistake(looks.calls)):
            raise
    return {
        "tokens": tokens.detach().clone(),
        "is_flat": is_flat,
        "calls": looks.calls,
        "positions": work.positions,
        "cached_positions": writes.num_positions,
        "head_positions": work.head_positions,
        "logits_bytes": work.logits_bytes,
        "saved_tensors": num_saved[0],
        "reads": functions.num_reads,
    }


class _Work(TorchDispatchMode):
    """Positions through the first projection and the head; bytes of logits in other operations.

    And what is written to caches.
    """

    def __init__(self, model: Transformer, writes: CacheWrites) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._writes = writes
        first = model.blocks[0].get_submodule("attention.query")
        self._first: Tensor = first.weight.detach()  # type: ignore[operator]
        self._head = model.head.weight.detach()
        self.positions = self.head_positions = self.logits_bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        name, results = func.overloadpacket.__name__, tensors_in(result)
        self._writes.note(name, results)
        if name in PRODUCTS:
            factors = tensors_in((args, kwargs))
            self.positions += _rows(result, self._first, factors)
            self.head_positions += _rows(result, self._head, factors)
        elif name not in RENAME:
            used = tensors_in((args, kwargs)) + results
            self.logits_bytes += sum(each.nbytes for each in used if self._is_wide(each))
        return result

    def _is_wide(self, tensor: Tensor) -> bool:
        """Whether it has a number for each entry of the vocabulary in its last dimension."""
        return tensor.dim() > 0 and tensor.shape[-1] == len(self._head)


def _rows(result: Tensor, weight: Tensor, factors: list[Tensor]) -> int:
    """Rows of a product with a weight; none if the weight is not one of its factors."""
    return result.numel() // len(weight) if any(_is_of(weight, each) for each in factors) else 0


def _is_of(weight: Tensor, factor: Tensor) -> bool:
    """Whether a factor shows a weight, or is a copy of it."""
    if factor.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr():
        return True
    with torch._C.DisableTorchFunction():  # these comparisons are no reads of the answer's
        ways = (factor, factor.mT) if factor.dim() == 2 else ()
        return any(each.shape == weight.shape and torch.equal(each, weight) for each in ways)


class _Functions(TorchFunctionMode):
    """How often Python reads a number out of a tensor, and what attention looks at."""

    def __init__(self, looks: Looks) -> None:
        super().__init__()
        self._looks, self.num_reads = looks, 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.num_reads += func in READS
        self._looks.note(func, args, kwargs)
        return func(*args, **(kwargs or {}))


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Whether the tokens are right; where they are, what the case's scenario is about."""
    flaw = _flaw_of(observed, right["tokens"])
    costs = COSTS[case["scenario"]](case, observed, right)
    fewest = case["num_sequences"] * (case["seq_len"] + case["num_new"] - 1)
    is_made_elsewhere = not flaw and observed["positions"] < fewest
    if flaw or is_made_elsewhere:
        costs = [each._replace(value=right.get(each.name, 0)) for each in costs]
    elsewhere = Fact(
        "made_elsewhere",
        int(is_made_elsewhere),
        "The model that is given ran on fewer positions than these tokens need.",
        "The tokens are right, and the model that is given has seen too few of them. What else "
        "makes your tokens?",
    )
    return [*_flaws(flaw), elsewhere, *costs]


def _flaw_of(observed: Plain, wanted: Tensor) -> str:
    """What is wrong with the tokens, by its name; nothing where they are right."""
    tokens = observed["tokens"]
    if tokens.is_floating_point():
        raise WrongForm(describe(wanted), describe(tokens))
    if tokens.shape == wanted.shape and torch.equal(tokens.long(), wanted):
        return ""
    if observed["is_flat"]:
        return "flat"
    other = "wrong_shape" if tokens.shape != wanted.shape else "wrong_tokens"
    return cache_mistake(observed["calls"]) or other


def _flaws(flaw: str) -> list[Fact]:
    """All that may be wrong with the tokens; only the one that is given counts."""
    return [
        Fact(
            "flat",
            int(flaw == "flat"),
            "The new tokens have the shape (b,).",
            "`argmax` has taken a dimension away. Which shape do new tokens have for "
            "`hidden_states`, and which argument of `argmax` keeps it?",
        ),
        Fact(
            "restarted",
            int(flaw == "restarted"),
            "New tokens do not see those before them.",
            "A new token goes to the first position and sees itself alone. What is `cache.length` "
            "when it comes, and which line has set it?",
        ),
        Fact(
            "raised_twice",
            int(flaw == "raised_twice"),
            "New tokens see cells of the cache that are not filled.",
            "The cache's length grows faster than tokens come, so new ones look at cells that "
            "nothing has filled. What raises `cache.length` already?",
        ),
        Fact(
            "shifted",
            int(flaw == "shifted"),
            "New tokens are in the wrong place of the cache.",
            "New tokens lie beside their place in the cache. How many tokens does it hold after "
            "the prompt, and how many after each new one?",
        ),
        Fact(
            "overwritten",
            int(flaw == "overwritten"),
            "New tokens are written over earlier ones.",
            "New tokens are written over earlier ones. What should `cache.length` be when the next "
            "one comes?",
        ),
        Fact(
            "uncut",
            int(flaw == "uncut"),
            "New tokens see cells of the cache that are not filled.",
            "New tokens look at the whole buffer. Which of its cells have been filled by then, and "
            "which number says so?",
        ),
        Fact(
            "wrong_shape",
            int(flaw == "wrong_shape"),
            "The shape of the tokens is not (b, s + num_new).",
            "The result has the wrong shape. Which tokens should be in it, and which are?",
        ),
        Fact(
            "wrong_tokens",
            int(flaw == "wrong_tokens"),
            "Some tokens are wrong.",
            "Some tokens are wrong. Is the whole prompt in the cache when the first new token "
            "looks back, and which position's logits belong to the next one?",
        ),
    ]


def _of_layers(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Positions that went through the layers; one that nobody needed any more is no fault.

    And how often each of them was written to a cache.
    """
    positions, cached = observed["positions"], observed["cached_positions"]
    is_few = positions <= right["positions"] + case["num_sequences"]
    return [
        Fact(
            "positions",
            right["positions"] if is_few else positions,
            "the positions that go through the layers",
            "Which tokens do you pass to `hidden_states` in each iteration, and for which of them "
            "could the cache already hold keys and values?",
        ),
        Fact(
            "times_cached",
            # Without positions the tokens were made elsewhere, and the quotient is not looked at.
            1 if cached <= positions else round(cached / max(1, positions), 1),
            "how often each position is written to a cache",
            "Positions are written to a cache more than once. Which lines write to it, and how "
            "many positions does one token add?",
        ),
    ]


def _of_head(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    return [
        Fact(
            "head_positions",
            observed["head_positions"],
            "the positions that go through the head",
            "How many positions of each sequence go through `model.head` for one new token, and "
            "whose logits choose that token?",
        )
    ]


def _of_logits(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """How often the logits of one new token of each sequence are read or written, per token.

    Twice is enough for a search that copies them first.
    """
    one = 4 * case["num_sequences"] * case["model"]["vocab_size"]
    times = round(observed["logits_bytes"] / one / case["num_new"])
    return [
        Fact(
            "logits_moved",
            1 if times <= 2 else times,
            "how often each token's logits are read or written outside of the head",
            "Between `model.head` and the new token, which of your operations read or write all "
            "logits, and which of them do you need to find the largest?",
        )
    ]


def _of_graph(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    return [
        Fact(
            "saved_tensors",
            observed["saved_tensors"],
            "the tensors that autograd saves",
            "Which of your lines run the model while autograd records, and will anyone call "
            "`backward` on what they give?",
        )
    ]


def _of_waits(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    return [
        Fact(
            "reads",
            observed["reads"],
            "how often Python reads a number of a tensor",
            "Which of your lines need a tensor's contents as a Python number, a list or a "
            "condition, and could they work with the tensor itself?",
        )
    ]


COSTS = dict(zip(SCENARIOS, (_of_layers, _of_head, _of_logits, _of_graph, _of_waits), strict=True))

"""Check of a loss whose logits are never all alive at once."""

import random
from typing import Any

from torch.nn import functional as F

from autograder.checking import error_hints
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u05 import loss_in_pieces
from autograder.observing.u05.loss_in_pieces import UPSTREAM, Trial

# Tensors as large as a piece's logits that may be alive at once: torch's cross-entropy and its
# gradient need three, one written with a log-sum-exp five.
LOGITS_AT_ONCE = 5.5
FLOAT64_BYTES = 8


def piece_cases(seed: int) -> list[Case]:
    """Pieces of one length and of two, one piece alone, small and larger vocabularies.

    No other tensor is as large as the logits of a piece.
    """
    rng = random.Random(seed)
    pairs = [(11, 3), (12, 3), (16, 1), (30, 2), (31, 4), (29, 3)]
    while len(pairs) < 20:
        num_pieces, length = rng.randint(2, 3), rng.randint(6, 9)
        # equal chunks with a shorter last one give the same number of pieces
        pairs.append((num_pieces * length - rng.randint(0, 1), num_pieces))
    return [_case(tokens, 2, rng.randrange(41, 61, 2), pieces) for tokens, pieces in pairs]


def _case(*values: int) -> Case:
    return dict(zip(("num_tokens", "hidden_size", "vocab_size", "num_pieces"), values, strict=True))


def measured(**case: int) -> dict[str, Any]:
    """The loss of all tokens at once, nothing kept beside the inputs, one run for each piece.

    Room is for some tensors as large as one piece's logits, for gradients of the inputs, and for
    one number of each piece.
    """
    trial = Trial(**case)
    inputs = [each.detach().clone() for each in trial.inputs]
    loss = F.cross_entropy(trial.hidden @ trial.weight.T, trial.targets)
    (loss * UPSTREAM).backward()
    tokens, width, words, num_pieces = case.values()
    longest = -(-tokens // num_pieces)
    numbers_at_once = LOGITS_AT_ONCE * longest * words + (2 * tokens + 3 * words) * width
    return {
        "pieces": num_pieces,
        "kept_bytes_beside_inputs": 0,
        "unseen_bytes": 0,
        "rounded_loss": 0,
        "loss": loss.item(),
        "wrong_gradients": 0,
        "tokens_in_longest_piece": longest,
        "peak_too_high": 0,
        "changed_inputs": 0,
        "gradients": trial.gradients,
        "inputs": inputs,
        "limits": {
            "kept": FLOAT64_BYTES * num_pieces,
            "peak": FLOAT64_BYTES * int(numbers_at_once),
        },
    }


# Places of the model answer.
LOGITS, HEADER = "F.linear(hidden, weight)", "def summed_loss(hidden, weight, targets):\n"
SUMMED, DIVIDED = ', reduction="sum"', " / targets.numel()"
LOSS = f"F.cross_entropy({LOGITS}, targets{SUMMED})"
CALL, ALL = "checkpoint(summed_loss, part, weight, right)", "torch.stack(losses).sum()"
HIDDEN, TARGETS = "hidden.chunk(num_pieces)", "targets.chunk(num_pieces)"

ONE_GRADIENT = (
    "The loss is right, and one of two gradients is not. Do both factors of the logits require a "
    "gradient where they go into a piece?"
)
LEFT_OVER = (
    "Your longest piece is longer than it has to be, and its logits are the peak. Among how many "
    "pieces do you share out the tokens that are left over?"
)
MANY_TENSORS = """logits = F.linear(hidden, weight)
        exps = (logits - logits.max()).exp()
        shares = exps / exps.sum(1, keepdim=True)
        logs, zeros = shares.log(), torch.zeros_like(shares)
        ones = zeros.scatter(1, targets[:, None], 1.0)
        return -(ones * logs).sum()"""
OF_SIZES = """sizes = (num_pieces - 1) * [len(targets) // num_pieces]
    sizes.append(len(targets) - sum(sizes))
    pieces = zip("""
EDITS = (
    Edit(
        "No piece goes through `checkpoint`, so that each keeps its log-softmax until backward. "
        "How large are all of them together?",
        {CALL: "summed_loss(part, weight, right)"},
        shows=("pieces",),
    ),
    Edit(
        "There is one piece, and all logits live at once. Where do you divide the tokens?",
        {HIDDEN: "[hidden]", TARGETS: "[targets]"},
        shows=("pieces",),
    ),
    Edit(
        "There is a piece for each token. How many tokens may have their logits at once, if there "
        "are to be `num_pieces` pieces?",
        {HIDDEN: "hidden.split(1)", TARGETS: "targets.split(1)"},
        shows=("pieces",),
    ),
    Edit(
        "`num_pieces` tokens make a piece. Is it how many pieces there are, or how long each is?",
        {HIDDEN: "hidden.split(num_pieces)", TARGETS: "targets.split(num_pieces)"},
        shows=("pieces",),
    ),
    Edit(
        "There is a piece too many where the tokens do not divide evenly. Which way do you round "
        "the length of a piece?",
        {
            HIDDEN: "hidden.split(len(targets) // num_pieces)",
            TARGETS: "targets.split(len(targets) // num_pieces)",
        },
        shows=("pieces",),
    ),
    Edit(
        "All logits are kept: you compute them before you divide the tokens. Which product "
        "belongs inside a piece?",
        {LOGITS: "hidden", HIDDEN: f"(hidden @ weight.T).{HIDDEN.removeprefix('hidden.')}"},
        shows=("kept_bytes_beside_inputs",),
    ),
    Edit(
        "All logits live on where autograd does not see them. Who holds them when a piece is done?",
        {
            HEADER: f"every = []\n\n    {HEADER}        every.append(hidden @ weight.T)\n",
            LOGITS: "every[-1]",
        },
        shows=("unseen_bytes",),
    ),
    Edit(
        "Your loss is the mean of the pieces' means. When does a token of a short piece count more "
        "than one of a long piece?",
        {SUMMED: "", DIVIDED: " / num_pieces"},
        shows=("loss",),
    ),
    Edit(
        "Your loss is the sum of the pieces' means. What is the mean over all tokens divided by?",
        {SUMMED: "", DIVIDED: ""},
        shows=("loss",),
    ),
    Edit(
        "Your loss is the sum over all tokens. What does the exercise ask for?",
        {DIVIDED: ""},
        shows=("loss",),
    ),
    Edit(
        "Your loss is a sum over all tokens that is divided by the number of pieces. How many "
        "losses are in that sum?",
        {DIVIDED: " / num_pieces"},
        shows=("loss",),
    ),
    Edit(
        "Your loss is the mean of the pieces' means, divided by the tokens once more. What was "
        "each of those means divided by already?",
        {SUMMED: ""},
        shows=("loss",),
    ),
    Edit(
        "Tokens are missing from your loss. What becomes of those that are left over where the "
        "pieces do not divide them evenly?",
        {
            HIDDEN: "hidden.split(len(targets) // num_pieces)[:num_pieces]",
            TARGETS: "targets.split(len(targets) // num_pieces)[:num_pieces]",
        },
        shows=("loss",),
    ),
    Edit(
        "You divide by all numbers of the hidden states. Over what does the mean go?",
        {DIVIDED: " / hidden.numel()"},
        shows=("loss",),
    ),
    Edit(
        "Each piece goes through two checkpoints, one inside the other. How often does its "
        "product run then?",
        {CALL: CALL.replace("summed_loss,", "lambda *some: checkpoint(summed_loss, *some),")},
        shows=("pieces",),
    ),
    Edit(
        "Copies of the inputs are kept. What does a slice share with the tensor that it is taken "
        "from, and what does a copy?",
        {CALL: CALL.replace("part, weight", "part.clone(), weight.clone()")},
        shows=("kept_bytes_beside_inputs",),
    ),
    *(
        Edit(
            "Copies of hidden states are kept. What does indexing with a tensor of numbers make, "
            "and what does a slice?",
            {
                HIDDEN: f"[hidden[some] for some in {indices}]",
                TARGETS: f"[targets[some] for some in {indices}]",
            },
            shows=("kept_bytes_beside_inputs",),
        )
        for indices in (
            "torch.arange(len(targets)).chunk(num_pieces)",
            "torch.arange(-(-len(targets) // num_pieces) * num_pieces)"
            ".clamp(max=len(targets) - 1).chunk(num_pieces)",
        )
    ),
    Edit(
        "A copy of the weight is kept beside it. Which of your lines makes one, and does `@` need "
        "it?",
        {"    pieces = zip(": "    weight = weight.T.contiguous().T\n    pieces = zip("},
        shows=("kept_bytes_beside_inputs",),
    ),
    Edit(
        "Your loss has seven digits where the inputs have sixteen. Which of your lines changes the "
        "precision?",
        {LOGITS: f"{LOGITS}.float()"},
        shows=("rounded_loss",),
    ),
    Edit(ONE_GRADIENT, {CALL: CALL.replace("weight", "weight.detach()")}),
    Edit(ONE_GRADIENT, {CALL: CALL.replace("part", "part.detach()")}),
    Edit(
        error_hints.OTHER_TARGETS,
        {
            HEADER: "late = []\n\n    def summed_loss(hidden, weight, _):\n",
            f"targets{SUMMED}": f"late[-1]{SUMMED}",
            "in pieces]": "in pieces if not late.append(right)]",
        },
    ),
    Edit(
        "Hidden states or weights are other numbers when you are done. When does backward read "
        "them again?",
        {f"return {ALL}": f"hidden.data.zero_()\n    return {ALL}"},
    ),
    Edit(
        "The loss is right, and no gradient comes from it. Which of your lines keeps its number "
        "and forgets how it was made?",
        {ALL: "torch.stack([each.detach() for each in losses]).sum()"},
        shows=("wrong_gradients",),
    ),
    Edit(
        LEFT_OVER,
        {"pieces = zip(": OF_SIZES, HIDDEN: "hidden.split(sizes)", TARGETS: "targets.split(sizes)"},
        shows=("tokens_in_longest_piece",),
    ),
    Edit(
        "Numbers and kept bytes are right, but each piece makes the logits of all tokens. How "
        "many tokens does the product inside a piece see?",
        {
            HIDDEN: "num_pieces * [hidden]",
            TARGETS: "[torch.full_like(targets, -100).index_copy(0, some, targets[some]) "
            "for some in torch.arange(len(targets)).chunk(num_pieces)]",
        },
        shows=("tokens_in_longest_piece",),
    ),
    Edit(
        "Your pieces are as short as they should be, and yet more lives at once than the logits of "
        "one need. How many other tensors as large does a piece make?",
        {f"return {LOSS}": MANY_TENSORS},
        shows=("peak_too_high",),
    ),
)

CHECK = Check(
    cases=piece_cases,
    observe=loss_in_pieces.observe,
    judge=Behaviour(
        measured,
        *edited("u05-loss-in-pieces", EDITS, observe=loss_in_pieces.observe),
        summarise=loss_in_pieces.summarise,
        relative_tolerance=PROMISED,
        labels=loss_in_pieces.LABELS,
    ),
    fallback="course_utils.reference.recomputation.loss_in_pieces",
    answers=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)

"""Check of the bytes live at the three moments where a training step can peak."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.configs import ModelConfig, RunConfig, precision
from course_utils.formulas.activations import model_saved_bytes
from course_utils.formulas.parameters import parameters
from course_utils.instruments import MemoryTrace, Phase, trace_memory
from course_utils.reference import Training
from course_utils.reference.training import ADAMW

ID_BYTES = 8
TOKEN_COUNT_BYTES = 4
MOMENTS = ("loss", "backward", "step")

Peaks = dict[str, int]


def peak_cases(seed: int) -> list[Case]:
    """Tied and untied, MHA and GQA, one sequence and two, every way to compute AdamW."""
    rng = random.Random(seed)
    worked = {"num_layers": 1, "hidden_size": 4, "num_heads": 1, "ffn_size": 3, "vocab_size": 5}
    runs = [(worked | {"is_tied": True}, 2), (_random_sizes(rng, 2, False), rng.randint(2, 9))]
    for is_tied in (True, False):
        for group in (1, rng.randint(2, 3)):
            num_tokens = rng.randrange(3, 40, 2) if group == 1 else rng.randrange(4, 40, 2)
            runs.append((_random_sizes(rng, group, is_tied), num_tokens))
    runs.append((_random_sizes(rng, 1, True), rng.randint(40, 60)))
    return [_case(sizes, num_tokens, adamw) for sizes, num_tokens in runs for adamw in ADAMW]


def _random_sizes(rng: random.Random, group: int, is_tied: bool) -> dict[str, Any]:
    """Sizes of a model of one layer, whose embedding is its largest matrix."""
    num_kv_heads, head_dim = rng.randint(1, 2), rng.choice((2, 4))
    return {
        "num_layers": 1,
        "hidden_size": num_kv_heads * group * head_dim,
        "num_heads": num_kv_heads * group,
        "num_kv_heads": num_kv_heads,
        "ffn_size": rng.randrange(5, 40, 2),
        "vocab_size": rng.randrange(61, 120, 2),
        "is_tied": is_tied,
    }


def _case(sizes: dict[str, Any], num_tokens: int, adamw: str) -> Case:
    model = model_of(sizes)
    num_params = sum(parameters(model).values())
    saved = sum(model_saved_bytes(model, _run(num_tokens)).values())
    of_adamw = {"for-loop": 8 * _largest(model), "foreach": 4 * num_params, "fused": 0}
    return {
        "model": sizes,
        "num_params": num_params,
        # ids and targets are there before the forward pass; the loss keeps how many there were
        "kept_bytes": saved - 2 * ID_BYTES * num_tokens - TOKEN_COUNT_BYTES,
        "num_tokens": num_tokens,
        "temporary_bytes": of_adamw[adamw],
    }


def _run(num_tokens: int) -> RunConfig:
    """One sequence, or two where the tokens can be halved."""
    num_sequences = 1 + (num_tokens % 2 == 0)
    return RunConfig(
        micro_batch_size=num_sequences,
        seq_len=num_tokens // num_sequences,
        precision=precision("fp32"),
        is_loss_fp32=True,
    )


def _largest(model: ModelConfig) -> int:
    """Numbers in the largest weight tensor."""
    width = max(model.vocab_size, model.ffn_size, model.num_heads * model.head_dim)
    return model.hidden_size * width


def measured_peaks(
    model: dict[str, Any],
    num_params: int,
    kept_bytes: int,
    num_tokens: int,
    temporary_bytes: int,
) -> Peaks:
    """What a trace of real training shows, without tensors of a single number."""
    adamw = {0: "fused", 4 * num_params: "foreach"}.get(temporary_bytes, "for-loop")
    return _traced(model_of(model), num_tokens)[adamw]


@lru_cache
def _traced(model: ModelConfig, num_tokens: int) -> dict[str, Peaks]:
    """One step of three equal trainings, one for each way to compute AdamW, under one trace.

    All have their optimizer states; what the other two hold is subtracted.
    """
    trainings = [Training(model, _run(num_tokens), adamw=adamw) for adamw in ADAMW]
    for training in trainings:
        training.step()
    remaining = iter(trainings)
    owners = [each for training in trainings for each in training.owners]
    trace = trace_memory(lambda: next(remaining).step(), *owners, num_steps=len(trainings))
    trace = replace(trace, storages=tuple(each for each in trace.storages if each.shape))
    of_others = trace.total_bytes[0] // len(ADAMW) * (len(ADAMW) - 1)
    return {
        adamw: {
            moment: live - of_others
            for moment, live in _moments(trace, *trace.phases[3 * number + 1 :][:2]).items()
        }
        for number, adamw in enumerate(ADAMW)
    }


def _moments(trace: MemoryTrace, backward: Phase, step: Phase) -> Peaks:
    """Live bytes at the logits' gradient, at backward's last allocation, at the step's peak."""
    made = [each for each in trace.storages if backward.start <= each.born < backward.stop]
    logits = next(each for each in made if each.operation == "_log_softmax_backward_data")
    return {
        "loss": trace.total_bytes[logits.born],
        "backward": trace.total_bytes[max(each.born for each in made)],
        "step": max(trace.total_bytes[step.start : step.stop]),
    }


def peaks(
    model: ModelConfig, num_params: int, kept_bytes: int, num_tokens: int, temporary_bytes: int
) -> Peaks:
    """The course's own answer, under the name that the exercise asks for."""
    weights_and_moments = 3 * 4 * num_params
    whole = weights_and_moments + 4 * num_params
    logits = 4 * num_tokens * model.vocab_size
    beside = 2 * model.vocab_size if model.is_tied else num_tokens
    return {
        "loss": weights_and_moments + kept_bytes + 2 * logits,
        "backward": whole + 4 * model.hidden_size * beside,
        "step": whole + temporary_bytes,
    }


def _more(change: Callable[..., Peaks]) -> Callable[..., Peaks]:
    """The right numbers, with something added to some; ``change`` takes what `peaks` takes."""

    def formula(model: dict[str, Any], n: int, kept: int, tokens: int, temporary: int) -> Peaks:
        case = (model_of(model), n, kept, tokens, temporary)
        right = peaks(*case)
        return {name: right[name] + more for name, more in change(*case).items()}

    return formula


def _logits(model: ModelConfig, num_tokens: int) -> int:
    return 4 * num_tokens * model.vocab_size


def _embedding(model: ModelConfig) -> int:
    return 4 * model.hidden_size * model.vocab_size


def _hidden(model: ModelConfig, num_tokens: int) -> int:
    return 4 * model.hidden_size * num_tokens


CHECK = Check(
    cases=peak_cases,
    reference=peaks,
    judge=EqualTo(
        measured_peaks,
        Mistake(
            "Adam's running means are missing. Since when are they there in step 2?",
            _more(lambda m, n, kept, t, tmp: dict.fromkeys(MOMENTS, -8 * n)),
        ),
        Mistake(
            "Behind the loss your gradients are missing. When are they freed?",
            _more(lambda m, n, kept, t, tmp: {"backward": -4 * n, "step": -4 * n}),
        ),
        Mistake(
            "Your Adam keeps one number for each parameter. How many running means has it?",
            _more(lambda m, n, kept, t, tmp: dict.fromkeys(MOMENTS, -4 * n)),
        ),
        Mistake(
            "You add numbers of tensors to bytes. How many bytes has a number in fp32?",
            _more(
                lambda m, n, kept, t, tmp: {
                    "loss": -2 * 3 * t * m.vocab_size,
                    "backward": -3 * m.hidden_size * (2 * m.vocab_size if m.is_tied else t),
                }
            ),
        ),
        Mistake(
            "At the loss you have one tensor as large as the logits beside what is kept. Which "
            "gradient is made there, and from which other one?",
            _more(lambda m, n, kept, t, tmp: {"loss": -_logits(m, t)}),
        ),
        Mistake(
            "At the loss you have what is kept and no more. Through which two tensors does the "
            "gradient come first?",
            _more(lambda m, n, kept, t, tmp: {"loss": -2 * _logits(m, t)}),
        ),
        Mistake(
            "At the loss you have three tensors as large as the logits beside what is kept. Who "
            "still needs the logits when their log-softmax is there?",
            _more(lambda m, n, kept, t, tmp: {"loss": _logits(m, t)}),
        ),
        Mistake(
            "At the loss you have the gradients of all parameters. How many of them has the "
            "backward pass made by then?",
            _more(lambda m, n, kept, t, tmp: {"loss": 4 * n}),
        ),
        Mistake(
            "At the loss nothing is kept with you. How far has the backward pass come?",
            _more(lambda m, n, kept, t, tmp: {"loss": -kept}),
        ),
        *(
            Mistake(
                "At the end of the backward pass you count one gradient of the embedding and "
                "forget the others. How many parameters have theirs by then?",
                _more(
                    lambda m, n, kept, t, tmp, if_untied=if_untied: {
                        "backward": _embedding(m) - 4 * n if m.is_tied or if_untied else 0
                    }
                ),
            )
            for if_untied in (False, True)
        ),
        Mistake(
            "For a tied embedding you have three matrices beside all gradients. Which of the "
            "three is among the gradients already?",
            _more(lambda m, n, kept, t, tmp: {"backward": _embedding(m) if m.is_tied else 0}),
        ),
        Mistake(
            "At the end of the backward pass three matrices lie beside all gradients with you, "
            "whether it is tied or not. Which of them is among the gradients, and what is there "
            "where nothing is added up?",
            _more(
                lambda m, n, kept, t, tmp: {
                    "backward": _embedding(m) * (1 if m.is_tied else 3)
                    - (0 if m.is_tied else _hidden(m, t))
                }
            ),
        ),
        Mistake(
            "For a tied embedding you have one part and the hidden states' gradient beside all "
            "gradients. How many parts are there, and is that gradient still needed?",
            _more(
                lambda m, n, kept, t, tmp: {
                    "backward": _hidden(m, t) - _embedding(m) if m.is_tied else 0
                }
            ),
        ),
        Mistake(
            "For an embedding of its own you have a matrix beside all gradients. Is it not one of "
            "them already?",
            _more(
                lambda m, n, kept, t, tmp: {
                    "backward": 0 if m.is_tied else _embedding(m) - _hidden(m, t)
                }
            ),
        ),
        Mistake(
            "For an embedding of its own you have a matrix and the hidden states' gradient beside "
            "all gradients. Which of the two is one of them already?",
            _more(lambda m, n, kept, t, tmp: {"backward": 0 if m.is_tied else _embedding(m)}),
        ),
        Mistake(
            "For an embedding of its own nothing lives beside the gradients. From which tensor is "
            "its gradient made?",
            _more(lambda m, n, kept, t, tmp: {"backward": 0 if m.is_tied else -_hidden(m, t)}),
        ),
        Mistake(
            "At the end of the backward pass you have the state and the gradients and no more. "
            "What is the embedding's gradient made from?",
            _more(
                lambda m, n, kept, t, tmp: {
                    "backward": -2 * _embedding(m) if m.is_tied else -_hidden(m, t)
                }
            ),
        ),
        Mistake(
            "A tied embedding is treated as one of its own. In how many places does the model use "
            "that matrix, and what does each of them give to its gradient?",
            _more(
                lambda m, n, kept, t, tmp: {
                    "backward": _hidden(m, t) - 2 * _embedding(m) if m.is_tied else 0
                }
            ),
        ),
        Mistake(
            "An embedding of its own is treated as a tied one. How many gradients has it to add "
            "up?",
            _more(
                lambda m, n, kept, t, tmp: {
                    "backward": 0 if m.is_tied else 2 * _embedding(m) - _hidden(m, t)
                }
            ),
        ),
        Mistake(
            "For a tied embedding you have one matrix more than its gradient. Two gradients are "
            "added: how many matrices are live while their sum is written?",
            _more(lambda m, n, kept, t, tmp: {"backward": -_embedding(m) if m.is_tied else 0}),
        ),
        Mistake(
            "For a tied embedding the hidden states' gradient is still there while the sum is "
            "made. What was it needed for?",
            _more(lambda m, n, kept, t, tmp: {"backward": _hidden(m, t) if m.is_tied else 0}),
        ),
        Mistake(
            "What the forward pass kept is still there when it has been used up. When is the last "
            "of it freed?",
            _more(lambda m, n, kept, t, tmp: {"backward": kept, "step": kept}),
        ),
        Mistake(
            "Your optimizer's step has no temporaries. What does the last argument say?",
            _more(lambda m, n, kept, t, tmp: {"step": -tmp}),
        ),
        Mistake(
            "Your temporaries are those of one of the three ways, whatever is used. What does the "
            "last argument say?",
            _more(lambda m, n, kept, t, tmp: {"step": 2 * _embedding(m) - tmp}),
        ),
    ),
)

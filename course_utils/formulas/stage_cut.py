"""Which blocks of a model lie on which stage of a pipeline, and how many parameters is that?

Embedding, layers, last norm, head and loss are blocks in a row; a stage has some of them.

    >>> [stage.num_layers for stage in cut_by_cost(preset("Llama-3.2-1B"), 2)]
    [10, 6]
    >>> model = preset("Llama-3-8B")
    >>> sum(rank_parameters(model, stage, 1) for stage in cut_evenly(model, 4))
    8030261248
"""

from dataclasses import dataclass

from course_utils.configs import ModelConfig
from course_utils.formulas.parameters import (
    attention_parameters,
    feed_forward_parameters,
    norm_parameters,
)

ENDS = 5  # blocks of nanotron's beside the layers: embedding, norm, head, cast, loss


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What one stage holds.

    Attributes:
        num_layers: Of the model's layers.
        has_embedding: Whether it turns words into vectors.
        has_norm: Whether the last norm lies here.
        has_head: Whether the head lies here.
        has_loss: Whether the loss does.
    """

    num_layers: int
    has_embedding: bool = False
    has_norm: bool = False
    has_head: bool = False
    has_loss: bool = False


def cut_evenly(model: ModelConfig, num_stages: int) -> list[Stage]:
    """As Megatron-LM cuts: equal layers, the embedding before them, norm and head behind.

    Raises:
        ValueError: If the stages do not divide the layers.
    """
    own, rest = divmod(model.num_layers, num_stages)
    if rest:
        raise ValueError(f"{num_stages} stages do not divide {model.num_layers} layers")
    return [
        Stage(
            num_layers=own,
            has_embedding=n == 0,
            has_norm=n == num_stages - 1,
            has_head=n == num_stages - 1,
            has_loss=n == num_stages - 1,
        )
        for n in range(num_stages)
    ]


def cut_by_cost(model: ModelConfig, num_stages: int) -> list[Stage]:
    """As nanotron cuts: block after block, until a stage has its share of the cost.

    A layer costs the products of its matrices, the head ``v h``, everything else nothing, the loss
    among it, which so may lie alone behind the head; keys and values count as if each query head
    had its own.

    Source:
        huggingface/nanotron 67c5ebb6, ``build_model``. It says ``>``; where both are equal, on two
        and four stages of a model of 16 layers, measured memory says ``>=``.
    """
    h = model.hidden_size
    matrices = 2 + model.is_gated
    layer, head = 4 * h**2 + matrices * model.ffn_size * h, model.vocab_size * h
    blocks = [("embedding", 0), *[("layer", layer)] * model.num_layers]
    blocks += [("norm", 0), ("head", head), ("loss", 0)]
    whole, done = sum(cost for _, cost in blocks), 0
    held: list[list[str]] = [[] for _ in range(num_stages)]
    stage = 0
    for name, cost in blocks:
        held[stage].append(name)
        done += cost
        if stage < num_stages - 1 and done * num_stages >= whole * (stage + 1):
            stage += 1
    return [
        Stage(
            num_layers=names.count("layer"),
            has_embedding="embedding" in names,
            has_norm="norm" in names,
            has_head="head" in names,
            has_loss="loss" in names,
        )
        for names in held
    ]


def refusal(model: ModelConfig, num_stages: int, num_micro_batches: int) -> str:
    """Why nanotron's 1F1B does not start, whatever the memory; empty if it does."""
    if num_micro_batches < num_stages - 1:
        return f"{num_stages} stages want {num_stages - 1} micro-batches, got {num_micro_batches}"
    if num_stages > model.num_layers + ENDS:
        return f"{num_stages} stages, but {model.num_layers + ENDS} blocks"
    return ""


def layer_matrices(model: ModelConfig) -> int:
    """Numbers in the matrices of one layer."""
    return attention_parameters(model) + feed_forward_parameters(model, 0)


def rank_parameters(model: ModelConfig, stage: Stage, tensor: int) -> int:
    """Parameters of one tensor rank of a stage: a share of its matrices, its norms whole.

    A head that is tied is there a second time if the embedding lies on another stage.
    """
    words = model.vocab_size * model.hidden_size
    has_own_head = stage.has_head and not (model.is_tied and stage.has_embedding)
    matrices = stage.num_layers * layer_matrices(model) // tensor
    ends = (int(stage.has_embedding) + int(has_own_head)) * (words // tensor)
    norms = 2 * stage.num_layers + int(stage.has_norm)
    return matrices + ends + norms * norm_parameters(model.hidden_size, model)

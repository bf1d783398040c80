"""Why does autograd keep a tensor of the drawing? One reason for each operation that needs some."""

from collections.abc import Collection, Iterator

from course_utils.show.layer_diagram.layer import LayerPass, Operation, Tensor, sub_layers

BOTH_FACTORS = "each factor's gradient contains the other factor"
WHY = {
    "core": "fused attention's backward uses these instead of the scores",
    "q_times_k": BOTH_FACTORS,
    "softmax": "the derivative of softmax contains its result",
    "weights_times_v": BOTH_FACTORS,
    "silu": "the slope of SiLU depends on it",
    "gelu": "the slope of GELU depends on it",
    "multiply": BOTH_FACTORS,
    "swiglu": "SwiGLU recomputes SiLU(g) from these",
}
CORE = ("core", "q_times_k", "softmax", "weights_times_v")
READ_BY_CORE = ("q", "k", "v", "q′", "k′")


def reasons(run: LayerPass, kept: Collection[str]) -> list[str]:
    """Sentences such as ``"g: the slope of SiLU depends on it."``, in the order of the layer.

    Args:
        run: The layer.
        kept: Names of the tensors that it keeps.
    """
    found: dict[str, list[str]] = {}
    for tensors, why in _needs(run):
        labels = [each.label for each in tensors if each.name in kept]
        known = found.setdefault(why, [])
        known += [each for each in labels if each not in known]
    return [f"{', '.join(labels)}: {why}." for why, labels in found.items() if labels]


def _needs(run: LayerPass) -> Iterator[tuple[list[Tensor], str]]:
    """What each operation needs for its backward pass, and why."""
    for layer in sub_layers(run):
        products: dict[Tensor, list[str]] = {}
        for each in layer.operations:
            if each.weights and each.flops:
                products.setdefault(each.reads[0], []).append(each.label)
        for each in layer.operations:
            matrices = products.pop(each.reads[0], []) if each.weights and each.flops else []
            if matrices:
                many = len(matrices) > 1
                they = f"gradient{'s' * many} of {', '.join(matrices)} contain{'s' * (not many)} it"
                yield [each.reads[0]], f"the {they}"
            elif each.aside and each.name != "core":
                yield (
                    [*each.reads, each.aside],
                    f"{each.label}'s derivative needs its input and statistics",
                )
            elif run.kernels.is_attention_recomputed and each.name in CORE:
                yield _read_by_core(layer.operations), "attention is recomputed from these"
            elif each.name in WHY:
                yield _tensors(each), WHY[each.name]


def _read_by_core(operations: list[Operation]) -> list[Tensor]:
    return [each.makes for each in operations if each.makes.name in READ_BY_CORE]


def _tensors(operation: Operation) -> list[Tensor]:
    """What an operation reads; of attention its results too, of softmax only the result."""
    if operation.name == "softmax":
        return [operation.makes]
    results = [operation.makes, operation.aside] if operation.name == "core" else []
    return [*operation.reads, *filter(None, results)]

"""Each storage that autograd keeps counts once, and what it does not see is reported."""

import gc
from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from course_utils.configs import ModelConfig
from course_utils.instruments import SavedTensor, count_saved_bytes, fake_tensors
from course_utils.reference import Block, Transformer, token_loss
from tests.random_models import KINDS, random_model

LLAMA = ModelConfig(
    num_layers=1, hidden_size=64, num_heads=8, num_kv_heads=2, ffn_size=160, vocab_size=256
)


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor that requires a gradient."""
    return torch.ones(*shape, dtype=dtype, requires_grad=True)


# What each operation needs for its gradient, for x of 2 * 3 numbers of 4 bytes: 24 bytes. A
# product of x with itself keeps one storage; a sum and a multiple keep nothing; relu and softmax
# keep their result; a loss keeps its log-probabilities, two targets of 8 bytes, and a weight.
LADDER = {
    "sum": (lambda x: x.sum(), 0),
    "multiple": (lambda x: 3.0 * x + 1.0, 0),
    "square": (lambda x: x * x, 24),
    "gelu": (F.gelu, 24),
    "relu": (lambda x: (x + 1).relu(), 24),
    "softmax": (lambda x: (x + 1).softmax(-1), 24),
    "two results": (lambda x: x.exp() * x.sigmoid(), 48),
    "view": (lambda x: x[:1].exp() + x[:1].square(), 24 + 12),
    "empty": (lambda x: x[:0].exp(), 0),
    "loss": (lambda x: F.cross_entropy(x, torch.zeros(2, dtype=torch.long)), 24 + 16 + 4),
}


@pytest.mark.parametrize("name", LADDER)
def test_bytes_by_hand(name):
    call, expected = LADDER[name]
    assert count_saved_bytes(lambda: call(leaf(2, 3))).total_bytes == expected
    with fake_tensors():
        assert count_saved_bytes(lambda: call(leaf(2, 3))).total_bytes == expected


def test_tensors_have_their_operation_and_come_in_order():
    layer, x = nn.Linear(3, 5), torch.ones(2, 3, dtype=torch.float32)
    saved = count_saved_bytes(lambda: F.softmax(F.gelu(layer(x)), dim=-1), layer)
    assert saved.tensors == (
        SavedTensor("linear", (2, 3), torch.float32, 24),
        SavedTensor("gelu", (2, 5), torch.float32, 40),
        SavedTensor("softmax", (2, 5), torch.float32, 40),
    )


def test_an_autograd_function_is_named_by_its_class():
    saved = count_saved_bytes(lambda: Keeping.apply(leaf(2, 3)))
    assert [each.operation for each in saved.tensors] == ["Keeping"]


class Keeping(torch.autograd.Function):
    """Keeps its input as it should."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def test_a_storage_shared_by_three_layers_counts_once():
    layers, x = nn.ModuleList(nn.Linear(3, 5) for _ in range(3)), leaf(2, 3)
    assert count_saved_bytes(lambda: sum(each(x) for each in layers), layers).total_bytes == 24


def test_a_view_keeps_the_whole_storage():
    def call():
        return torch.cat((leaf(2, 3), leaf(5, 3)))[:1].square()

    saved = count_saved_bytes(call)
    assert saved.tensors == (SavedTensor("square", (1, 3), torch.float32, 7 * 3 * 4),)


def test_parameters_and_buffers_of_owners_are_left_out():
    """With one input of 2 * 3 numbers and a weight of 3 * 5, seen by autograd as a view."""
    layer, x = nn.Linear(3, 5, bias=False), leaf(2, 3)
    layer.register_buffer("scale", torch.full((5,), 2.0))

    def scaled():
        return layer(x) * layer.scale

    assert count_saved_bytes(scaled).total_bytes == 24 + 60 + 20
    assert count_saved_bytes(scaled, layer).total_bytes == 24
    assert count_saved_bytes(scaled, layer.weight, x).total_bytes == 20


def test_inputs_made_by_the_call_are_not_unseen():
    saved = count_saved_bytes(lambda: nn.Linear(3, 5)(leaf(2, 3)).sum())
    assert saved.unseen == ()


def test_views_of_older_tensors_are_not_unseen():
    data, weight = torch.ones(5, 3), leaf(3)

    def call():
        return (data[:2].sum() * weight).sum()

    saved = count_saved_bytes(call)
    assert (saved.total_bytes, saved.unseen) == (4, ())  # the sum, which multiplies the weight


def test_without_gradients_nothing_is_kept():
    layer = nn.Linear(3, 5)
    with torch.no_grad():
        assert count_saved_bytes(lambda: layer(torch.ones(2, 3)), layer).tensors == ()
    assert count_saved_bytes(lambda: torch.ones(2, 3).exp()).total_bytes == 0


def test_a_branch_that_is_dropped_does_not_count():
    def call(x):
        x.sigmoid().exp()
        return x.exp()

    assert count_saved_bytes(lambda: call(leaf(2, 3))).total_bytes == 24


def test_nothing_outlives_the_count():
    """A pack that held a result with its graph would keep both alive for ever."""
    made = []

    def call(x):
        y = x.sigmoid()
        made.append(StorageWeakRef(y.untyped_storage()))
        return y.exp()

    assert count_saved_bytes(lambda: call(leaf(2, 3))).total_bytes == 48
    assert made[0].expired()


@pytest.mark.parametrize("kind", KINDS)
def test_plain_hooks_that_hold_every_storage_count_the_same(kind):
    """An independent oracle without modes, names or weak references."""
    sizes = random_model(kind, 5)
    model, ids = Transformer(sizes), torch.zeros(2, 16, dtype=torch.long)
    owned = {p.untyped_storage().data_ptr() for p in model.parameters()}
    held = []
    with saved_tensors_hooks(lambda t: held.append(t.untyped_storage()) or t.detach(), lambda t: t):
        logits = model(ids)
    by_address = {each.data_ptr(): each.nbytes() for each in held}
    expected = sum(size for key, size in by_address.items() if key not in owned)
    assert logits.requires_grad
    assert count_saved_bytes(lambda: model(ids), model).total_bytes == expected


@pytest.mark.parametrize("kind", KINDS)
def test_reference_models_keep_nothing_unseen(kind):
    sizes = random_model(kind, 5)

    def count():
        model, ids = Transformer(sizes), torch.zeros(2, 16, dtype=torch.long)
        return count_saved_bytes(lambda: token_loss(model(ids), ids), model)

    real = count()
    with fake_tensors():
        fake = count()
    assert (real.unseen, fake.unseen) == ((), ())
    assert real.total_bytes == fake.total_bytes


class Stashing(torch.autograd.Function):
    """Keeps a tensor as an attribute, where no hook looks."""

    @staticmethod
    def forward(ctx, x):
        ctx.slope = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.slope


def test_a_tensor_stashed_on_ctx_is_found():
    saved = count_saved_bytes(lambda: Stashing.apply(leaf(2, 3)))
    assert (saved.total_bytes, saved.unseen_bytes) == (0, 24)
    assert saved.unseen == (SavedTensor("cos", (2, 3), torch.float32, 24),)


def test_a_tensor_kept_in_a_closure_is_found():
    kept = []

    def call(x):
        y = x + 1
        kept.append(y)
        return y.sum()

    saved = count_saved_bytes(lambda: call(leaf(2, 3)))
    assert (saved.total_bytes, saved.unseen_bytes) == (0, 24)
    with fake_tensors():
        assert count_saved_bytes(lambda: call(leaf(2, 3))).unseen_bytes == 24


def test_garbage_in_a_cycle_is_not_unseen():
    def call(x):
        cycle = [x + 1]
        cycle.append(cycle)
        return x.exp()

    gc.disable()
    try:
        assert count_saved_bytes(lambda: call(leaf(2, 3))).unseen == ()
    finally:
        gc.enable()


def test_a_checkpoint_keeps_its_input():
    block, x = Block(LLAMA, 0), leaf(2, 32, 64)
    saved = count_saved_bytes(lambda: checkpoint(block, x, use_reentrant=False), block)
    assert (saved.total_bytes, saved.unseen) == (2 * 32 * 64 * 4, ())
    assert saved.tensors[0].operation.isidentifier()


def test_the_cache_of_a_selective_checkpoint_is_found():
    """It keeps the outputs of all seven projections of a block."""

    def keep_products(ctx, operation, *args, **kwargs):
        product = operation == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if product else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = partial(create_selective_checkpoint_contexts, keep_products)
    block, x = Block(LLAMA, 0), leaf(2, 32, 64)
    saved = count_saved_bytes(
        lambda: checkpoint(block, x, use_reentrant=False, context_fn=contexts), block
    )
    # q 64 wide, k and v 16, output 64, gate and up 160, down 64: 544 numbers for each of 64 tokens
    assert (saved.total_bytes, saved.unseen_bytes) == (2 * 32 * 64 * 4, 544 * 64 * 4)


def test_sparse_tensors_are_refused():
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(ValueError, match="`sparse_mm` keeps a tensor of layout"):
        count_saved_bytes(lambda: torch.sparse.mm(sparse, leaf(3, 3)))
    assert count_saved_bytes(lambda: leaf(2, 3).to_sparse()).unseen == ()


def test_wrong_arguments_are_rejected():
    with pytest.raises(TypeError, match="wants a call that returns one tensor, got <class 'int'>"):
        count_saved_bytes(lambda: 3)
    with pytest.raises(TypeError, match="must be a module or a tensor, got <class 'list'>"):
        count_saved_bytes(lambda: leaf(3), [leaf(3)])


def test_gradients_are_those_without_the_instrument():
    """The result can still be used afterwards: the call itself hands it on."""
    x, results = leaf(2, 3, dtype=torch.float64), []

    def call():
        results.append(x.exp() * x)
        return results[0]

    count_saved_bytes(call)
    results[0].sum().backward()
    torch.testing.assert_close(x.grad, x.exp() * (x + 1))

"""Both halves of a backward pass give what autograd finds."""

import torch

from course_utils.reference.split_backward import backward_in_halves


def test_gradients_are_those_of_autograd():
    torch.manual_seed(0)
    leaves = [torch.randn(*shape).double() for shape in ((4, 3), (3, 5), (5, 2))]
    x, *weights = (each.requires_grad_() for each in leaves)
    kept = [x]
    for weight in weights:
        kept.append(torch.tanh(kept[-1] @ weight))
    upstream = torch.randn_like(kept[-1])
    wanted = torch.autograd.grad(kept[-1], leaves, upstream)
    gradient, later = backward_in_halves(weights, kept, upstream)
    for ours, theirs in zip([gradient, *later()], wanted, strict=True):
        torch.testing.assert_close(ours, theirs)

"""Right answers to the exercises of unit 03, in a second style."""

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

# === u03-microscope


def saved_bytes(call, parameters):
    tensors = []

    def pack(tensor):
        tensors.append(tensor.detach())
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda packed: packed):
        result = call()
    storages = {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors}
    for each in parameters:
        storages.pop(each.untyped_storage()._cdata, None)
    return sum(each.nbytes() for each in storages.values())


# === u03-fused-gate


def gate(g, u):
    return _Lean.apply(g, u)


class _Lean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, u):
        ctx.save_for_backward(g, u)
        return g * torch.sigmoid(g) * u

    @staticmethod
    def backward(ctx, grad):
        g, u = (x.detach().requires_grad_() for x in ctx.saved_tensors)
        with torch.enable_grad():
            out = torch.nn.functional.silu(g) * u
        return torch.autograd.grad(out, (g, u), grad)


# === u03-lost-bytes


def lean_attend(q, k, v, rotate):
    q, k, v = (x.movedim(2, 1) for x in (rotate(q), rotate(k), v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.movedim(1, 2).flatten(2)

"""Right answers to the exercises of unit 03, in a first style."""

import torch
from torch.nn import functional as F

# === u03-microscope


def saved_bytes(call, parameters):
    leave_out, sizes, kept = {p.untyped_storage()._cdata for p in parameters}, {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept.append(storage)
        if storage._cdata not in leave_out:
            sizes[storage._cdata] = storage.nbytes()
        return tensor.detach()

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    hooks.__enter__()
    try:
        call()
    finally:
        hooks.__exit__()
    return sum(sizes.values())


# === u03-fused-gate


def gate(g, u):
    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, g, u):
            out = F.silu(g) * u
            ctx.save_for_backward(g, u)
            return out

        @staticmethod
        def backward(ctx, grad):
            g, u = ctx.saved_tensors[:2]
            sigma = g.sigmoid()
            return grad * u * sigma * (1 + g * (1 - sigma)), grad * F.silu(g)

    return Gate.apply(g, u)


# === u03-lost-bytes


def lean_attend(q, k, v, rotate):
    q, k = rotate(q), rotate(k)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return out.transpose(1, 2).reshape(out.shape[0], out.shape[2], -1)

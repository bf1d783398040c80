"""Right answers to the exercises of unit 06, in a second style."""

import torch

# === u06-online


def online_softmax(blocks):
    top, down, up = float("-inf"), 0.0, 0.0
    for scores, values in blocks:
        best = scores.max(dim=1).values
        new = torch.maximum(torch.as_tensor(top, dtype=best.dtype), best)
        safe = torch.where(torch.isinf(new), torch.zeros_like(new), new)
        factor = torch.exp(top - safe)
        p = torch.exp(scores - safe.unsqueeze(1))
        down = down * factor + p.sum(dim=1)
        up = up * factor.unsqueeze(1) + torch.einsum("rk,kw->rw", p, values)
        top = new
    return torch.nan_to_num(up / down.unsqueeze(1)), top + torch.log(down)


# === u06-forward


def flash_forward(machine, arrays, block_q, block_k):
    q, k, v, out, lse = arrays
    n, d = q.shape
    m = len(k)

    def rows(i):
        queries, num = machine.load(q[i : i + block_q]), min(block_q, n - i)
        queries *= d**-0.5
        c, l = machine.full((num,), -torch.inf), machine.full((num,), 0.0)
        a = machine.full((num, d), 0.0)
        for j in range(0, m, block_k):
            s = queries @ machine.load(k[j : j + block_k]).T
            c_new = torch.maximum(c, s.max(dim=1).values)
            s = torch.exp(s - c_new.unsqueeze(1))
            l = l * torch.exp(c - c_new) + s.sum(dim=1)
            a *= torch.exp(c - c_new).unsqueeze(1)
            a += s @ machine.load(v[j : j + block_k])
            c = c_new
        a /= l.unsqueeze(1)
        machine.store(a, out[i : i + block_q])
        machine.store(torch.log(l) + c, lse[i : i + block_q])

    for i in range(0, n, block_q):
        rows(i)


# === u06-backward


def flash_attention(forward, q, k, v, block):
    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *qkv):
            out, lse = forward(*qkv, block)
            ctx.save_for_backward(lse, out, *qkv)
            return out

        @staticmethod
        def backward(ctx, upstream):
            lse, out, q, k, v = ctx.saved_tensors
            scale = q.shape[-1] ** -0.5
            corner = torch.full((block, block), -torch.inf, dtype=q.dtype).triu(1)
            dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
            n = q.shape[-2]
            cuts = [slice(i, min(i + block, n)) for i in range(0, n, block)]
            for a, rows in enumerate(cuts):
                for b, columns in enumerate(cuts[: a + 1]):
                    s = q[..., rows, :] @ k[..., columns, :].mT * scale
                    if a == b:
                        s += corner[: s.shape[-2], : s.shape[-1]]
                    p = torch.exp(s - lse[..., rows].unsqueeze(-1))
                    dp = upstream[..., rows, :] @ v[..., columns, :].mT
                    mean = (upstream[..., rows, :] * out[..., rows, :]).sum(-1)
                    ds = scale * p * (dp - mean[..., None])
                    dq[..., rows, :].add_(ds @ k[..., columns, :])
                    dk[..., columns, :].add_(ds.mT @ q[..., rows, :])
                    dv[..., columns, :].add_(p.mT @ upstream[..., rows, :])
            return dq, dk, dv

    return Attention.apply(q, k, v)


# === u06-merge


def merge(out_a, lse_a, out_b, lse_b):
    both = torch.stack([lse_a, lse_b])
    lse = torch.logsumexp(both, 0)
    shares = torch.nan_to_num(torch.exp(both - lse))
    return torch.einsum("pr,prw->rw", shares, torch.stack([out_a, out_b])), lse

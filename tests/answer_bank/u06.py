"""Answer banks of unit 06."""

from tests.answer_bank import AnswerBank, Wrong

ONLINE = AnswerBank(
    function="online_softmax",
    wrong=[
        Wrong(
            "every block in memory, then one softmax",
            """
            import torch

            def online_softmax(blocks):
                scores, values = zip(*blocks)
                scores, values = torch.cat(scores, 1), torch.cat(values)
                lse = scores.logsumexp(1)
                shift = torch.where(lse == -torch.inf, 0.0, lse)
                return torch.exp(scores - shift[:, None]) @ values, lse
            """,
            "all blocks were in memory together",
        ),
        Wrong(
            "only the result",
            """
            import torch

            def online_softmax(blocks):
                return sum(scores.softmax(1) @ values for scores, values in blocks)
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        import torch

        def online_softmax(blocks):
            out, lse = 0, None
            for scores, values in blocks:
                here = torch.logsumexp(scores, 1)
                old = torch.full_like(here, -torch.inf) if lse is None else lse
                lse = torch.logaddexp(old, here)
                base = torch.nan_to_num(lse, neginf=0.0)
                out = out * (old - base).exp()[:, None] + (scores - base[:, None]).exp() @ values
            return out, lse
        """,
        """
        import torch

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
        """,
    ],
    features={
        "one block": lambda case: len(case["block_lengths"]) == 1,
        "unequal blocks": lambda case: len({*case["block_lengths"]}) > 2,
        "an empty row": lambda case: case["kind"] == "an empty row",
        "an empty first block": lambda case: case["kind"] == "an empty first block",
        "an empty block later": lambda case: case["kind"] == "an empty block later",
        "all very low": lambda case: case["kind"] == "all very low",
        "the largest first": lambda case: case["kind"] == "largest first",
        "rows far apart": lambda case: case["kind"] == "rows far apart",
    },
)


def _forward(body: str) -> str:
    return f"""
    import math
    import torch

    def flash_forward(machine, arrays, block_q, block_k):
        q, k, v, out, lse = arrays
        n, d = q.shape
        m = len(k)
{body}
    """


FORWARD = AnswerBank(
    function="flash_forward",
    wrong=[
        Wrong(
            "all keys and values at once",
            _forward("""
        keys, values = machine.load(k), machine.load(v)
        for i in range(0, n, block_q):
            scores = machine.load(q[i : i + block_q]) @ keys.mT * d**-0.5
            machine.store(scores.softmax(1) @ values, out[i : i + block_q])
            machine.store(scores.logsumexp(1), lse[i : i + block_q])
            """),
            "How many numbers fit",
        ),
        Wrong(
            "keys outside, results to and fro",
            _forward("""
        for j in range(0, m, block_k):
            keys, values = machine.load(k[j : j + block_k]), machine.load(v[j : j + block_k])
            for i in range(0, n, block_q):
                here = slice(i, i + block_q)
                scores = machine.load(q[here]) @ keys.mT * d**-0.5
                new = scores.logsumexp(1)
                if j == 0:
                    scores -= new[:, None]
                    machine.store(scores.exp_() @ values, out[here])
                else:
                    old = machine.load(lse[here])
                    new = torch.logaddexp(old, new)
                    scores -= new[:, None]
                    summed = machine.load(out[here])
                    summed *= (old - new).exp()[:, None]
                    summed += scores.exp_() @ values
                    machine.store(summed, out[here])
                    del summed
                machine.store(new, lse[here])
            del keys, values
            """),
            "keys are in your outer loop",
            points=3.0,
        ),
        Wrong(
            "keys and values held until the next ones are there",
            _forward("""
        for i in range(0, n, block_q):
            here = slice(i, i + block_q)
            queries = machine.load(q[here])
            level = machine.full((len(queries), 1), -math.inf)
            mean = machine.full((len(queries), d), 0.0)
            for j in range(0, m, block_k):
                keys = machine.load(k[j : j + block_k])
                values = machine.load(v[j : j + block_k])
                scores = queries @ keys.mT * d**-0.5
                new = torch.logaddexp(level, scores.logsumexp(1, keepdim=True))
                mean = mean * (level - new).exp() + (scores - new).exp() @ values
                level = new
            machine.store(mean, out[here])
            machine.store(level[:, 0], lse[here])
            """),
            "which tiles do you hold there at once",
            points=3.0,
        ),
        Wrong(
            "three passes",
            _forward("""
        for i in range(0, n, block_q):
            here = slice(i, i + block_q)
            queries = machine.load(q[here])
            top = machine.full((len(queries), 1), -math.inf)
            for j in range(0, m, block_k):
                scores = queries @ machine.load(k[j : j + block_k]).mT * d**-0.5
                top = torch.maximum(top, scores.amax(1, keepdim=True))
            total = machine.full((len(queries), 1), 0.0)
            summed = machine.full((len(queries), d), 0.0)
            for j in range(0, m, block_k):
                scores = queries @ machine.load(k[j : j + block_k]).mT * d**-0.5
                scores = torch.exp(scores - top)
                total += scores.sum(1, keepdim=True)
                summed += scores @ machine.load(v[j : j + block_k])
            summed /= total
            machine.store(summed, out[here])
            machine.store((top + total.log())[:, 0], lse[here])
            del queries, summed
            """),
            "keys or values are loaded twice",
            points=3.0,
        ),
        Wrong(
            "an accumulator outside",
            _forward("""
        summed = torch.zeros(block_q, d, dtype=torch.float64)
        summed += machine.load(q[:block_q])
            """),
            "On which side of the bus does it lie",
        ),
        Wrong(
            "numbers in Python",
            _forward("""
        rows = machine.load(q[:block_q]).tolist()
            """),
            "Which of your decisions needs a number",
        ),
        Wrong(
            "computing in slow memory",
            _forward("""
        scores = q @ k.mT
            """),
            "Which part of it do you need next",
        ),
    ],
    right=[
        _forward("""
        for low in reversed(range(0, n, block_q)):
            here = slice(low, min(n, low + block_q))
            queries = machine.load(q[here])
            level = machine.full((here.stop - low,), -math.inf)
            mean = machine.full((here.stop - low, d), 0.0)
            for c in range(0, m, block_k):
                keys = machine.load(k[c : c + block_k])
                scores = torch.einsum("id,jd->ij", queries, keys).mul_(1 / math.sqrt(d))
                del keys
                new = torch.logaddexp(level, scores.logsumexp(1))
                mean.mul_((level - new).exp()[:, None])
                scores.sub_(new[:, None]).exp_()
                mean.addmm_(scores, machine.load(v[c : c + block_k]))
                level = new
                del scores, new
            machine.store(mean, out[here])
            machine.store(level, lse[here])
            del queries, mean, level
        """),
        _forward("""
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
        """),
        _forward("""
        ahead, held = [*range(0, m, block_k)], None
        for i in range(0, n, block_q):
            here = slice(i, i + block_q)
            queries = machine.load(q[here])
            level = machine.full((len(queries),), -math.inf)
            mean = machine.full((len(queries), d), 0.0)
            for j in ahead:
                if held != j:
                    keys = values = None
                    keys = machine.load(k[j : j + block_k])
                    values, held = machine.load(v[j : j + block_k]), j
                scores = queries @ keys.mT * d**-0.5
                new = torch.logaddexp(level, scores.logsumexp(1))
                mean *= (level - new).exp()[:, None]
                scores = scores.sub_(new[:, None]).exp_()
                mean += scores @ values
                level = new
                del scores, new
            ahead.reverse()
            machine.store(mean, out[here])
            machine.store(level, lse[here])
            del queries, mean, level
        """),
    ],
    features={
        "whole tiles": lambda case: (
            case["num_queries"] % case["block_q"] == 0 == case["num_keys"] % case["block_k"]
        ),
        "ragged queries": lambda case: case["num_queries"] % case["block_q"] > 0,
        "ragged keys": lambda case: case["num_keys"] % case["block_k"] > 0,
        "tall tiles": lambda case: case["block_q"] > case["block_k"],
        "wide tiles": lambda case: case["block_q"] < case["block_k"],
        "one query, many keys": lambda case: case["block_q"] == 1 and case["block_k"] > 10,
        "very low": lambda case: case["kind"] == "every score very low",
        "loud": lambda case: case["kind"] == "scores of every size",
        "ragged, traffic counted": lambda case: (
            case["scenario"] == "traffic" and case["num_queries"] % case["block_q"] > 0
        ),
    },
)

TRAFFIC = AnswerBank(
    function="attention_traffic",
    wrong=[
        Wrong(
            "tiles through a float",
            """
            import math

            def attention_traffic(n, m, d, bq, bk):
                q_tiles = math.ceil(n / bq)
                stream = float(2 * m * d * q_tiles)
                return {
                    "q_outer": int(2 * n * d + n + stream),
                    "materialised": int(2 * n * d + 4 * n * m + stream),
                }
            """,
            "Where does your whole number become a float?",
        ),
    ],
    right=[
        """
        import math

        def attention_traffic(n, m, d, bq, bk):
            rounds = math.ceil(n / bq)
            result = n * d + n
            return {
                "materialised": (
                    (n * d + rounds * m * d + n * m) + 2 * n * m + (n * m + rounds * m * d + n * d)
                ),
                "q_outer": n * d + rounds * (m * d + m * d) + result,
            }
        """,
        """
        def attention_traffic(num_queries, num_keys, head_dim, block_q, block_k):
            q_tiles = len(range(0, num_queries, block_q))
            q = out = num_queries * head_dim
            k = v = num_keys * head_dim
            lse, scores = num_queries, num_queries * num_keys
            first = q + q_tiles * k + scores
            second = scores + scores
            third = scores + q_tiles * v + out
            return {
                "q_outer": q + q_tiles * (k + v) + out + lse,
                "materialised": first + second + third,
            }
        """,
    ],
    features={
        "ragged queries": lambda case: case["num_queries"] % case["block_q"] > 0,
        "ragged keys": lambda case: case["num_keys"] % case["block_k"] > 0,
        "one tile": lambda case: (
            case["num_queries"] <= case["block_q"] and case["num_keys"] <= case["block_k"]
        ),
        "beyond a float": lambda case: case["num_keys"] > 2**29,
        "more keys": lambda case: case["num_keys"] > case["num_queries"],
        "more queries": lambda case: case["num_keys"] < case["num_queries"],
    },
)

CAUSAL_TILES = AnswerBank(
    function="visited_tiles",
    wrong=[
        Wrong(
            "a queue of queries at the beginning of the keys",
            """
            def visited_tiles(n, m, bq, bk):
                return sum(-(-min(i + bq, n) // bk) for i in range(0, n, bq))
            """,
            "Which keys does the last query see",
        ),
    ],
    right=[
        """
        def visited_tiles(n, m, bq, bk):
            count = 0
            for i in range(0, n, bq):
                last_query = min(i + bq, n) - 1
                for j in range(0, m, bk):
                    count += j <= last_query + m - n
            return count
        """,
        """
        import math

        def visited_tiles(num_queries, num_keys, block_q, block_k):
            rows = math.ceil(num_queries / block_q)
            ends = [min((row + 1) * block_q, num_queries) for row in range(rows)]
            return sum(math.ceil((num_keys - num_queries + end) / block_k) for end in ends)
        """,
    ],
    features={
        "as many keys": lambda case: case["num_queries"] == case["num_keys"],
        "more keys": lambda case: case["num_queries"] < case["num_keys"],
        "square tiles": lambda case: case["block_q"] == case["block_k"],
        "tall tiles": lambda case: case["block_q"] > case["block_k"],
        "wide tiles": lambda case: case["block_q"] < case["block_k"],
        "one query": lambda case: case["num_queries"] == 1,
        "ragged": lambda case: case["num_queries"] % case["block_q"] > 0,
    },
)

BACKWARD = AnswerBank(
    function="flash_attention",
    wrong=[
        Wrong(
            "PyTorch's kernel",
            """
            import torch

            def flash_attention(forward, q, k, v, block):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            """,
            "How often is `forward` called",
        ),
        Wrong(
            "all scores again in backward",
            """
            import torch

            def flash_attention(forward, q, k, v, block):
                class Flash(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, q, k, v):
                        out, lse = forward(q, k, v, block)
                        ctx.save_for_backward(q, k, v, out, lse)
                        return out

                    @staticmethod
                    def backward(ctx, g):
                        q, k, v, out, lse = ctx.saved_tensors
                        s, scale = q.shape[-2], q.shape[-1] ** -0.5
                        later = torch.ones(s, s, dtype=torch.bool).triu(1)
                        scores = (q @ k.mT * scale).masked_fill(later, -torch.inf)
                        p = torch.exp(scores - lse[..., None])
                        ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) * scale
                        return ds @ k, ds.mT @ q, p.mT @ g

                return Flash.apply(q, k, v)
            """,
            "Which tiles do you compute and throw away?",
        ),
    ],
    right=[
        """
        import math
        import torch

        class _Flash(torch.autograd.Function):
            @staticmethod
            def forward(ctx, run, size, q, k, v):
                result, lse = run(q, k, v, size)
                ctx.size = size
                ctx.save_for_backward(q, k, v, result, lse)
                return result

            @staticmethod
            def backward(ctx, g):
                q, k, v, o, lse = ctx.saved_tensors
                n, c = q.shape[-2], 1 / math.sqrt(q.shape[-1])
                dq = torch.zeros(q.shape, dtype=q.dtype)
                delta = torch.einsum("...sd,...sd->...s", g, o)
                dks, dvs = [], []
                for j in range(0, n, ctx.size):
                    kj, vj = k[..., j : j + ctx.size, :], v[..., j : j + ctx.size, :]
                    dk, dv = torch.zeros_like(kj), torch.zeros_like(vj)
                    for i in range(j, n, ctx.size):
                        end = min(n, i + ctx.size)
                        qi, gi = q[..., i:end, :], g[..., i:end, :]
                        p = (c * (qi @ kj.transpose(-1, -2)) - lse[..., i:end].unsqueeze(-1)).exp()
                        rows = torch.arange(i, end).unsqueeze(1)
                        p = p * (rows >= torch.arange(j, j + kj.shape[-2]))
                        dv = dv + p.transpose(-1, -2) @ gi
                        ds = p * (gi @ vj.transpose(-1, -2) - delta[..., i:end].unsqueeze(-1)) * c
                        dk = dk + ds.transpose(-1, -2) @ qi
                        dq[..., i:end, :] += ds @ kj
                    dks.append(dk)
                    dvs.append(dv)
                return None, None, dq, torch.cat(dks, -2), torch.cat(dvs, -2)

        def flash_attention(forward, q, k, v, block):
            return _Flash.apply(forward, block, q, k, v)
        """,
        """
        import torch

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
        """,
    ],
    features={
        "ragged": lambda case: case["seq_len"] % case["block"] > 0,
        "whole tiles": lambda case: case["seq_len"] % case["block"] == 0,
        "one tile": lambda case: case["block"] > case["seq_len"],
        "tiles of one": lambda case: case["block"] == 1,
        "several sequences": lambda case: len(case["heads"]) == 2,
        "parts of one tensor": lambda case: case["kind"] == "parts of one tensor",
        "frozen values": lambda case: case["kind"] == "values without a gradient",
    },
)

MERGE = AnswerBank(
    function="merge",
    wrong=[
        Wrong(
            "only the result",
            """
            import torch

            def merge(out_a, lse_a, out_b, lse_b):
                share = torch.sigmoid(lse_a - lse_b)[:, None]
                return share * out_a + (1 - share) * out_b
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        import torch

        def merge(out_a, lse_a, out_b, lse_b):
            top = torch.maximum(lse_a, lse_b)
            top = torch.where(top == float("-inf"), torch.zeros_like(top), top)
            sum_a, sum_b = (lse_a - top).exp(), (lse_b - top).exp()
            total = sum_a + sum_b
            safe = torch.where(total == 0, torch.ones_like(total), total)
            out = (sum_a / safe).unsqueeze(1) * out_a + (sum_b / safe).unsqueeze(1) * out_b
            return out, top + total.log()
        """,
        """
        import torch

        def merge(out_a, lse_a, out_b, lse_b):
            both = torch.stack([lse_a, lse_b])
            lse = torch.logsumexp(both, 0)
            shares = torch.nan_to_num(torch.exp(both - lse))
            return torch.einsum("pr,prw->rw", shares, torch.stack([out_a, out_b])), lse
        """,
    ],
    features={
        "more keys first": lambda case: case["first_keys"] > case["other_keys"],
        "more keys later": lambda case: case["first_keys"] < case["other_keys"],
        "high": lambda case: case["kind"] == "high",
        "low": lambda case: case["kind"] == "low",
        "no key at all": lambda case: case["kind"] == "no key at all",
        "no key in the first": lambda case: case["kind"] == "no key in the first",
    },
)

BLOCKS = AnswerBank(
    function="best_block_q",
    wrong=[
        Wrong(
            "the tallest tile, even beyond the queries",
            """
            def best_block_q(n, d, capacity, block_k):
                return max(1, (capacity - block_k * d) // (2 * d + block_k + 3))
            """,
            "?",
        ),
    ],
    right=[
        """
        import math

        def best_block_q(n, d, capacity, block_k):
            def fits(rows):
                return 2 * rows * d + block_k * d + rows * block_k + 3 * rows <= capacity

            sizes = [rows for rows in range(1, n + 1) if fits(rows)]
            return min(sizes, key=lambda rows: (math.ceil(n / rows), rows))
        """,
        """
        def best_block_q(num_queries, head_dim, capacity, block_k):
            rows = 1
            while 2 * head_dim * (rows + 1) + block_k * (head_dim + rows + 1) + 3 * (
                rows + 1
            ) <= capacity and rows < num_queries:
                rows += 1
            turns = len(range(0, num_queries, rows))
            while len(range(0, num_queries, rows - 1 or 1)) == turns and rows > 1:
                rows -= 1
            return rows
        """,
    ],
    features={
        "all fit": lambda case: (
            (case["capacity"] - case["block_k"] * case["head_dim"])
            // (2 * case["head_dim"] + case["block_k"] + 3)
            >= case["num_queries"]
        ),
        "some fit": lambda case: (
            (case["capacity"] - case["block_k"] * case["head_dim"])
            // (2 * case["head_dim"] + case["block_k"] + 3)
            < case["num_queries"]
        ),
    },
)

BACKWARD_TRAFFIC = AnswerBank(
    function="backward_traffic",
    wrong=[
        Wrong(
            "through a float",
            """
            import math

            def backward_traffic(n, m, d, bq, bk):
                return int(
                    2 * n * d + n + 4.0 * m * d + math.ceil(m / bk) * (4.0 * n * d + 2 * n)
                )
            """,
            "Where does your whole number become a float?",
        ),
    ],
    right=[
        """
        import math

        def backward_traffic(n, m, d, bq, bk):
            turns = math.ceil(m / bk)
            queries, keys = n * d, m * d
            loads = 2 * queries + 2 * keys + turns * (3 * queries + 2 * n)
            stores = n + 2 * keys + turns * queries
            return loads + stores
        """,
        """
        def backward_traffic(num_queries, num_keys, head_dim, block_q, block_k):
            total = num_queries * (2 * head_dim + 1)
            for start in range(0, num_keys, block_k):
                keys = min(block_k, num_keys - start)
                total += 4 * keys * head_dim + num_queries * (4 * head_dim + 2)
            return total
        """,
    ],
    features={
        "ragged keys": lambda case: case["num_keys"] % case["block_k"] > 0,
        "beyond a float": lambda case: case["num_keys"] > 2**29,
        "more queries": lambda case: case["num_keys"] < case["num_queries"],
    },
)

DOCUMENT_TILES = AnswerBank(
    function="document_tiles",
    wrong=[
        Wrong(
            "a mask for each document, one after the other",
            """
            def document_tiles(document_lengths, block):
                full = partial = 0
                for length in document_lengths:
                    rows = -(-length // block)
                    full += rows * (rows - 1) // 2
                    partial += rows
                return {"full": full, "partial": partial}
            """,
            "?",
        ),
    ],
    right=[
        """
        def document_tiles(document_lengths, block):
            owner = [n for n, length in enumerate(document_lengths) for _ in range(length)]
            counts = {"full": 0, "partial": 0}
            size = len(owner)
            for i in range(0, size, block):
                for j in range(0, i + block, block):
                    open_pairs = [
                        owner[q] == owner[k] and k <= q
                        for q in range(i, min(i + block, size))
                        for k in range(j, min(j + block, size))
                    ]
                    if open_pairs and all(open_pairs):
                        counts["full"] += 1
                    elif any(open_pairs):
                        counts["partial"] += 1
            return counts
        """,
        """
        import itertools
        import torch

        def document_tiles(document_lengths, block):
            parts = [torch.ones(length, length).tril() for length in document_lengths]
            rows = torch.block_diag(*parts).split(block)
            tiles = list(itertools.chain(*(row.split(block, 1) for row in rows)))
            visited = [tile for tile in tiles if tile.sum() > 0]
            full = sum(bool(tile.sum() == tile.numel()) for tile in visited)
            return {"full": full, "partial": len(visited) - full}
        """,
    ],
    features={
        "one document": lambda case: len(case["document_lengths"]) == 1,
        "several documents": lambda case: len(case["document_lengths"]) > 2,
        "shorter than a tile": lambda case: min(case["document_lengths"]) < case["block"],
        "ragged": lambda case: sum(case["document_lengths"]) % case["block"] > 0,
    },
)

BANKS = {
    "u06-online": ONLINE,
    "u06-forward": FORWARD,
    "u06-traffic": TRAFFIC,
    "u06-causal-tiles": CAUSAL_TILES,
    "u06-backward": BACKWARD,
    "u06-merge": MERGE,
    "u06-blocks": BLOCKS,
    "u06-backward-traffic": BACKWARD_TRAFFIC,
    "u06-document-tiles": DOCUMENT_TILES,
}

"""Answer banks of unit 11: a layer on several ranks."""

from tests.answer_bank import AnswerBank, Wrong

F_AND_G = AnswerBank(
    function="f_and_g",
    wrong=[
        Wrong(
            "no autograd function",
            """
            import torch

            def f_and_g(comm):
                class Copy(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x.clone()

                    @staticmethod
                    def backward(ctx, gradient):
                        total = gradient.contiguous().clone()
                        comm.all_reduce(total)
                        return total

                def g(x):
                    y = x.contiguous() * 1
                    comm.all_reduce(y)
                    return y

                return Copy.apply, g
            """,
            "Autograd sees only one rank.",
            points=1.0,
        ),
        Wrong(
            "a gradient that keeps its strides",
            """
            import torch

            def f_and_g(comm):
                def make(there, back):
                    class Operate(torch.autograd.Function):
                        @staticmethod
                        def forward(ctx, x):
                            return there(x)

                        @staticmethod
                        def backward(ctx, gradient):
                            return back(gradient)

                    return Operate.apply

                def summed(x):
                    x = x.clone()
                    comm.all_reduce(x)
                    return x

                return make(lambda x: x.clone(), summed), make(summed, lambda x: x)
            """,
            "`clone()` keeps the order of a transposed tensor.",
        ),
        Wrong(
            "everything gathered",
            """
            import torch

            def f_and_g(comm):
                def summed(x):
                    every = x.new_empty(comm.size, *x.shape)
                    comm.all_gather(every, x.contiguous())
                    return every.sum(0)

                class Copy(torch.autograd.Function):
                    forward = staticmethod(lambda ctx, x: x.clone())
                    backward = staticmethod(lambda ctx, gradient: summed(gradient))

                class Sum(torch.autograd.Function):
                    forward = staticmethod(lambda ctx, x: summed(x))
                    backward = staticmethod(lambda ctx, gradient: gradient.clone())

                return Copy.apply, Sum.apply
            """,
            "In forward f copies and g sums.",
        ),
    ],
    right=[
        """
        import torch

        def f_and_g(comm):
            def total(x):
                x = x.contiguous().clone()
                comm.all_reduce(x)
                return x

            class F(torch.autograd.Function):
                forward = staticmethod(lambda ctx, x: x.clone())
                backward = staticmethod(lambda ctx, gradient: total(gradient))

            class G(torch.autograd.Function):
                forward = staticmethod(lambda ctx, x: total(x))
                backward = staticmethod(lambda ctx, gradient: gradient.clone())

            return F.apply, G.apply
        """,
        """
        def f_and_g(comm):
            # hooks on gradients, and a sum that autograd sees as one plus a constant
            def all_reduced(x):
                x = x.detach().contiguous().clone()
                comm.all_reduce(x)
                return x

            def f(x):
                y = x.clone()
                if y.requires_grad:
                    y.register_hook(all_reduced)
                return y

            def g(x):
                return x + (all_reduced(x) - x.detach())

            return f, g
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a transposed gradient": lambda case: case["kind"] == "transposed",
        "an expanded gradient": lambda case: case["kind"] == "expanded gradient",
        "x used twice": lambda case: case["kind"] == "input used twice",
        "f": lambda case: case["scenario"] == "f",
        "g": lambda case: case["scenario"] == "g",
    },
)


MLP = AnswerBank(
    function="parallel_mlp",
    wrong=[
        Wrong(
            "chunks, which may be fewer",
            """
            import torch

            def parallel_mlp(comm, f, g, x, w):
                gate, up = (w[n].chunk(comm.size)[comm.rank] for n in ("gate", "up"))
                down = w["down"].chunk(comm.size, 1)[comm.rank]
                x = f(x)
                hidden = torch.nn.functional.silu(x @ gate.T) * (x @ up.T)
                return g(hidden @ down.T) + w["bias"]
            """,
            "nine hidden units for four ranks?",
            points=1.5,
        ),
        Wrong(
            "gate and up cut as one",
            """
            import torch

            def parallel_mlp(comm, f, g, x, w):
                both = torch.cat([w["gate"], w["up"]]).view(-1, x.shape[1])
                units = len(w["gate"])
                mine = torch.arange(units).tensor_split(comm.size)[comm.rank]
                gate, up = both[2 * mine], both[2 * mine + 1]
                down = w["down"][:, mine]
                x = f(x)
                hidden = torch.nn.functional.silu(x @ gate.T) * (x @ up.T)
                return g(hidden @ down.T) + w["bias"]
            """,
            "which numbers does each rank need",
        ),
        Wrong(
            "every so many hidden units, and no sum",
            """
            import torch

            def parallel_mlp(comm, f, g, x, w):
                gate, up = (w[n][comm.rank :: comm.size] for n in ("gate", "up"))
                x = f(x)
                hidden = torch.nn.functional.silu(x @ gate.T) * (x @ up.T)
                return hidden @ w["down"][:, comm.rank :: comm.size].T + w["bias"]
            """,
            "Every rank ends with its own part of the sum.",
        ),
        Wrong(
            "hidden units gathered",
            """
            import torch

            def parallel_mlp(comm, f, g, x, w):
                units = len(w["gate"])
                most = -(-units // comm.size)

                class Gather(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, hidden):
                        mine = hidden.new_zeros(most, len(hidden))
                        mine[: hidden.shape[1]] = hidden.T
                        every = hidden.new_empty(comm.size, *mine.shape)
                        comm.all_gather(every, mine)
                        return every.transpose(0, 1).flatten(0, 1)[:units].T

                    @staticmethod
                    def backward(ctx, gradient):
                        return gradient[:, comm.rank :: comm.size]

                gate, up = (w[n][comm.rank :: comm.size] for n in ("gate", "up"))
                x = f(x)
                hidden = torch.nn.functional.silu(x @ gate.T) * (x @ up.T)
                return Gather.apply(hidden) @ w["down"].T + w["bias"]
            """,
            "every rank gathers all hidden units",
        ),
        Wrong(
            "a mean before f",
            """
            import torch

            def parallel_mlp(comm, f, g, x, w):
                gate, up = (w[n].tensor_split(comm.size)[comm.rank] for n in ("gate", "up"))
                down = w["down"].tensor_split(comm.size, 1)[comm.rank]
                x = f(g(x) / comm.size)
                hidden = torch.nn.functional.silu(x @ gate.T) * (x @ up.T)
                return g(hidden @ down.T) + w["bias"]
            """,
            "what enters is the same on all ranks",
        ),
        Wrong(
            "a part of x for all hidden units",
            """
            import torch

            def parallel_mlp(comm, f, g, x, w):
                def mine(each):
                    return each.tensor_split(comm.size, 1)[comm.rank]

                x = mine(f(x))
                gate, up = (g(x @ mine(w[name]).T) for name in ("gate", "up"))
                return torch.nn.functional.silu(gate) * up @ w["down"].T + w["bias"]
            """,
            "each rank takes a part of x for all hidden units",
        ),
        Wrong(
            "a part of x for all hidden units, and one sum",
            """
            import torch

            def parallel_mlp(comm, f, g, x, w):
                def mine(each):
                    return each.tensor_split(comm.size, 1)[comm.rank]

                both = torch.cat([mine(w["gate"]), mine(w["up"])])
                gate, up = g(mine(f(x)) @ both.T).chunk(2, 1)
                return torch.nn.functional.silu(gate) * up @ w["down"].T + w["bias"]
            """,
            "one call sums gate and up of all hidden units",
        ),
    ],
    right=[
        """
        import torch

        def parallel_mlp(comm, f, g, x, w):
            units = w["gate"].shape[0]
            mine = range(comm.rank, units, comm.size)
            entered = f(x)
            gate = torch.nn.functional.linear(entered, w["gate"][list(mine)])
            up = torch.nn.functional.linear(entered, w["up"][list(mine)])
            part = torch.nn.functional.linear(gate * gate.sigmoid() * up, w["down"][:, list(mine)])
            return w["bias"] + g(part)
        """,
        """
        import torch

        def parallel_mlp(comm, f, g, x, w):
            units = w["gate"].shape[0]
            first = comm.rank * units // comm.size
            last = (comm.rank + 1) * units // comm.size
            y = f(x)
            both = y @ torch.cat([w["gate"][first:last], w["up"][first:last]]).T
            gate, up = both.chunk(2, -1)
            return g((torch.nn.functional.silu(gate) * up) @ w["down"][:, first:last].T) + w["bias"]
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a rest": lambda case: case["ffn_size"] % case["num_ranks"] > 0,
        "nine on four": lambda case: (case["ffn_size"], case["num_ranks"]) == (9, 4),
    },
)

ATTENTION = AnswerBank(
    function="parallel_attention",
    wrong=[
        Wrong(
            "o cut by rows",
            """
            from course_utils.reference.attention import attend

            def parallel_attention(comm, f, g, x, w, head_dim):
                x = f(x)
                q, k, v = (
                    (x @ w[n].chunk(comm.size)[comm.rank].T).view(1, len(x), -1, head_dim)
                    for n in "qkv"
                )
                return g(attend(q, k, v)[0] @ w["o"].chunk(comm.size)[comm.rank].T)
            """,
            "?",
        ),
        Wrong(
            "heads before tokens",
            """
            from course_utils.reference.attention import attend

            def parallel_attention(comm, f, g, x, w, head_dim):
                x = f(x)
                q, k, v = (
                    (x @ w[n].chunk(comm.size)[comm.rank].T).reshape(-1, len(x), head_dim)
                    .transpose(0, 1)[None]
                    for n in "qkv"
                )
                return g(attend(q, k, v)[0] @ w["o"].chunk(comm.size, 1)[comm.rank].T)
            """,
            "which rows of q, k and v",
        ),
        Wrong(
            "heads from the last rank on, and no sum",
            """
            from course_utils.reference.attention import attend

            def parallel_attention(comm, f, g, x, w, head_dim):
                x, mine = f(x), comm.size - 1 - comm.rank
                q, k, v = (
                    (x @ w[n].chunk(comm.size)[mine].T).view(1, len(x), -1, head_dim)
                    for n in "qkv"
                )
                return attend(q, k, v)[0] @ w["o"].chunk(comm.size, 1)[mine].T
            """,
            "Every rank ends with what its own heads contribute.",
        ),
        Wrong(
            "heads gathered",
            """
            import torch
            from course_utils.reference.attention import attend

            def parallel_attention(comm, f, g, x, w, head_dim):
                class Gather(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, out):
                        every = out.new_empty(comm.size * out.shape[1], len(out))
                        comm.all_gather(every, out.T.contiguous())
                        return every.T

                    @staticmethod
                    def backward(ctx, gradient):
                        return gradient.chunk(comm.size, 1)[comm.rank]

                x = f(x)
                q, k, v = (
                    (x @ w[n].chunk(comm.size)[comm.rank].T).view(1, len(x), -1, head_dim)
                    for n in "qkv"
                )
                return Gather.apply(attend(q, k, v)[0]) @ w["o"].T
            """,
            "every rank gathers all heads",
        ),
    ],
    right=[
        """
        from course_utils.reference.attention import attend

        def parallel_attention(comm, f, g, x, w, head_dim):
            x = f(x)

            def mine(name):
                heads = len(w[name]) // head_dim // comm.size
                rows = heads * head_dim
                part = w[name][comm.rank * rows : (comm.rank + 1) * rows]
                return (x @ part.T).view(1, len(x), heads, head_dim)

            out = attend(mine("q"), mine("k"), mine("v")).squeeze(0)
            columns = out.shape[1]
            return g(out @ w["o"][:, comm.rank * columns :][:, :columns].T)
        """,
        """
        import torch

        def parallel_attention(comm, f, g, x, w, head_dim):
            # one product for q, k and v; attention by PyTorch's own function
            n, t, r = len(x), comm.size, comm.rank
            parts = [w[name].chunk(t)[r] for name in "qkv"]
            q, k, v = (f(x) @ torch.cat(parts).T).split([len(each) for each in parts], -1)
            q, k, v = (each.view(n, -1, head_dim).transpose(0, 1)[None] for each in (q, k, v))
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=True
            )
            return g(out[0].transpose(0, 1).flatten(1) @ w["o"].chunk(t, 1)[r].T)
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a group": lambda case: case["num_heads"] > case["num_kv_heads"] > case["num_ranks"] - 1,
        "a key head a rank": lambda case: case["num_kv_heads"] >= case["num_ranks"],
        "h is not a d": lambda case: case["hidden_size"] != case["num_heads"] * case["head_dim"],
    },
)

KEEP_SHARD = AnswerBank(
    function="gathered_product",
    wrong=[
        Wrong(
            "no backward yet",
            """
            import torch

            def gathered_product(comm, shard, weight):
                class Product(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, shard, weight):
                        ctx.save_for_backward(shard, weight)
                        whole = shard.new_empty(comm.size * len(shard), shard.shape[1])
                        comm.all_gather(whole, shard)
                        return whole @ weight.T

                    @staticmethod
                    def backward(ctx, gradient):
                        return None, None

                return Product.apply(shard, weight)
            """,
            "Which two products is it asked for",
        ),
        Wrong(
            "blocking calls",
            """
            import torch

            def gathered_product(comm, shard, weight):
                def every(shard):
                    whole = shard.new_empty(comm.size * len(shard), shard.shape[1])
                    comm.all_gather(whole, shard)
                    return whole

                class Product(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, shard, weight):
                        ctx.save_for_backward(shard, weight)
                        return every(shard) @ weight.T

                    @staticmethod
                    def backward(ctx, gradient):
                        shard, weight = ctx.saved_tensors
                        part = torch.empty_like(shard)
                        comm.reduce_scatter(part, gradient @ weight)
                        return part, gradient.T @ every(shard)

                return Product.apply(shard, weight)
            """,
            "All is right but the time.",
            points=2.0,
        ),
        Wrong(
            "the gathered tokens kept by autograd",
            """
            import torch

            def gathered_product(comm, shard, weight):
                class Gather(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, shard):
                        whole = shard.new_empty(comm.size * len(shard), shard.shape[1])
                        comm.all_gather(whole, shard)
                        return whole

                    @staticmethod
                    def backward(ctx, gradient):
                        part = gradient.new_empty(len(gradient) // comm.size, gradient.shape[1])
                        comm.reduce_scatter(part, gradient.contiguous())
                        return part

                return Gather.apply(shard) @ weight.T
            """,
            "All numbers are right, and every rank keeps all tokens.",
            points=1.0,
        ),
    ],
    right=[
        """
        import torch

        def gathered_product(comm, shard, weight):
            class Product(torch.autograd.Function):
                @staticmethod
                def forward(ctx, shard, weight):
                    ctx.save_for_backward(weight, shard)
                    every = torch.empty(comm.size, *shard.shape, dtype=shard.dtype)
                    comm.all_gather(every, shard)
                    return every.flatten(0, 1).matmul(weight.t())

                @staticmethod
                def backward(ctx, gradient):
                    weight, shard = ctx.saved_tensors
                    every = torch.empty(comm.size, *shard.shape, dtype=shard.dtype)
                    part = torch.zeros_like(shard)
                    first = comm.all_gather(every, shard, async_op=True)
                    inputs = gradient.matmul(weight)
                    second = comm.reduce_scatter(part, inputs, async_op=True)
                    first.wait()
                    of_weight = gradient.t().matmul(every.flatten(0, 1))
                    second.wait()
                    return part, of_weight

            return Product.apply(shard, weight)
        """,
        """
        import torch

        def gathered_product(comm, shard, weight):
            n = comm.size * len(shard)

            class P(torch.autograd.Function):
                @staticmethod
                def forward(ctx, a, b):
                    whole = a.new_zeros(n, a.shape[1])
                    comm.all_gather(whole, a.contiguous())
                    ctx.save_for_backward(a, b)
                    return torch.einsum("nh,rh->nr", whole, b)

                @staticmethod
                def backward(ctx, up):
                    a, b = ctx.saved_tensors
                    whole = a.new_zeros(n, a.shape[1])
                    asked = comm.all_gather(whole, a.contiguous(), async_op=True)
                    of_a = (up @ b).contiguous()
                    mine = a.new_zeros(a.shape)
                    given = comm.reduce_scatter(mine, of_a, async_op=True)
                    asked.wait()
                    of_b = up.mT @ whole
                    given.wait()
                    return mine, of_b

            return P.apply(shard, weight)
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a transposed gradient": lambda case: case["kind"] == "transposed gradient",
        "kept": lambda case: case["scenario"] == "kept",
        "overlapped": lambda case: case["scenario"] == "overlapped",
    },
)

VOLUME = AnswerBank(
    function="tensor_parallel_bytes",
    wrong=[
        Wrong(
            "a way is missing",
            """
            def tensor_parallel_bytes(num_tokens, hidden_size, num_ranks, element_bytes):
                u = num_tokens * hidden_size * element_bytes
                part = u * (num_ranks - 1) // num_ranks
                return {"tensor": 8 * part, "sequence": 8 * part}
            """,
            "Which line of yours should set the key",
        ),
    ],
    right=[
        """
        def tensor_parallel_bytes(num_tokens, hidden_size, num_ranks, element_bytes):
            shard = num_tokens // num_ranks * hidden_size * element_bytes
            gather = scatter = (num_ranks - 1) * shard
            block = {"tensor": 2 * (gather + scatter), "sequence": 2 * (gather + scatter)}
            block["shards_kept"] = block["sequence"] + gather
            return {name: 2 * each for name, each in block.items()}
        """,
        """
        def tensor_parallel_bytes(num_tokens, hidden_size, num_ranks, element_bytes):
            u = num_tokens * hidden_size * element_bytes
            ways = {"tensor": 8, "sequence": 8, "shards_kept": 10}
            return {name: calls * u * (num_ranks - 1) // num_ranks for name, calls in ways.items()}
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "eight ranks": lambda case: case["num_ranks"] == 8,
        "beyond a float": lambda case: case["num_tokens"] * case["hidden_size"] > 2**53,
        "four bytes": lambda case: case["element_bytes"] == 4,
        "odd width": lambda case: case["hidden_size"] % 2 > 0,
    },
)

REPLICATED = AnswerBank(
    function="sum_replicated_gradients",
    wrong=[
        Wrong(
            "every bias",
            """
            def sum_replicated_gradients(comm, parameters):
                for name, each in parameters.items():
                    if ("norm" in name or "bias" in name) and each.grad is not None:
                        comm.all_reduce(each.grad)
            """,
            "up_bias is summed",
        ),
    ],
    right=[
        """
        def sum_replicated_gradients(comm, parameters):
            for name, each in sorted(parameters.items()):
                is_whole = name.startswith("norm") or name in {"o_bias", "down_bias"}
                if is_whole and each.grad is not None:
                    comm.all_reduce(each.grad)
        """,
        """
        def sum_replicated_gradients(comm, parameters):
            whole = [parameters.get(n) for n in ("down_bias", "norm1", "norm2", "o_bias")]
            handles = [
                comm.all_reduce(p.grad, async_op=True)
                for p in whole
                if p is not None and p.grad is not None
            ]
            for handle in handles:
                handle.wait()
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "biases": lambda case: case["has_biases"],
        "a norm without a gradient": lambda case: case["without_gradient"] == "norm2",
    },
)

BANKS = {
    "u11-f-and-g": F_AND_G,
    "u11-mlp": MLP,
    "u11-attention": ATTENTION,
    "u11-keep-shard": KEEP_SHARD,
    "u11-volume": VOLUME,
    "u11-replicated": REPLICATED,
}

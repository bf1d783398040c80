"""Answer banks of unit 11: a sequence on several ranks."""

from tests.answer_bank import AnswerBank, Wrong

RING = AnswerBank(
    function="ring_attention",
    wrong=[
        Wrong(
            "all keys gathered",
            """
            import torch
            from course_utils.reference.online_softmax import merge

            def ring_attention(comm, attend_block, q, k, v):
                keys = k.new_empty(comm.size, *k.shape)
                values = torch.empty_like(keys)
                comm.all_gather(keys, k)
                comm.all_gather(values, v)
                result = None
                for owner in range(comm.size):
                    part = attend_block(q, keys[owner], values[owner], owner)
                    result = merge(*result, *part) if result else part
                return result[0]
            """,
            "A collective gives every rank all keys at once.",
        ),
        Wrong(
            "no maximum",
            """
            import torch

            def ring_attention(comm, attend_block, q, k, v):
                n, r = comm.size, comm.rank
                summed = total = 0
                for turn in range(n):
                    if turn:
                        buffers = torch.empty_like(k), torch.empty_like(v)
                        handles = [comm.send(x, (r + 1) % n, async_op=True) for x in (k, v)]
                        for x in buffers:
                            comm.receive(x, (r - 1) % n)
                        for x in handles:
                            x.wait()
                        k, v = buffers
                    out, lse = attend_block(q, k, v, (r - turn) % n)
                    summed = summed + lse.exp()[:, None] * out
                    total = total + lse.exp()[:, None]
                return summed / total
            """,
            "?",
            points=1.0,
        ),
        Wrong(
            "a running maximum, and no rescaling",
            """
            import torch

            def ring_attention(comm, attend_block, q, k, v):
                n, r = comm.size, comm.rank
                out, top = attend_block(q, k, v, r)
                total = torch.ones_like(top)
                for turn in range(1, n):
                    coming = torch.empty_like(k), torch.empty_like(v)
                    handles = [comm.send(x, (r + 1) % n, async_op=True) for x in (k, v)]
                    handles += [comm.receive(x, (r - 1) % n, async_op=True) for x in coming]
                    for handle in handles:
                        handle.wait()
                    k, v = coming
                    part, lse = attend_block(q, k, v, (r - turn) % n)
                    top = torch.maximum(top, lse)
                    share = (lse - top).exp()
                    out, total = out + share[:, None] * part, total + share
                return out / total[:, None]
            """,
            "What becomes of what was added up under the old maximum?",
        ),
        Wrong(
            "received into what is sent",
            """
            from course_utils.reference.online_softmax import merge

            def ring_attention(comm, attend_block, q, k, v):
                n, r = comm.size, comm.rank
                result = None
                for turn in range(n):
                    handles = []
                    if turn < n - 1:
                        handles += [comm.send(x, (r + 1) % n, async_op=True) for x in (k, v)]
                        handles += [comm.receive(x, (r - 1) % n, async_op=True) for x in (k, v)]
                    part = attend_block(q, k, v, (r - turn) % n)
                    result = merge(*result, *part) if result else part
                    for handle in handles:
                        handle.wait()
                return result[0]
            """,
            "Which tensor do you write into while it is still in flight",
        ),
        Wrong(
            "attends to what is not here",
            """
            import torch
            from course_utils.reference.online_softmax import merge

            def ring_attention(comm, attend_block, q, k, v):
                n, r = comm.size, comm.rank
                result = attend_block(q, k, v, r)
                for turn in range(1, n):
                    coming = torch.empty_like(k), torch.empty_like(v)
                    handles = [comm.send(x, (r + 1) % n, async_op=True) for x in (k, v)]
                    handles += [comm.receive(x, (r - 1) % n, async_op=True) for x in coming]
                    result = merge(*result, *attend_block(q, *coming, (r - turn) % n))
                    for handle in handles:
                        handle.wait()
                    k, v = coming
                return result[0]
            """,
            "have they arrived?",
        ),
        Wrong(
            "sends that block",
            """
            import torch
            from course_utils.reference.online_softmax import merge

            def ring_attention(comm, attend_block, q, k, v):
                n, r = comm.size, comm.rank
                out, lse = attend_block(q, k, v, r)
                for turn in range(1, n):
                    k2, v2 = torch.empty_like(k), torch.empty_like(v)
                    comm.send(k, (r + 1) % n)
                    comm.send(v, (r + 1) % n)
                    comm.receive(k2, (r - 1) % n)
                    comm.receive(v2, (r - 1) % n)
                    k, v = k2, v2
                    out, lse = merge(out, lse, *attend_block(q, k, v, (r - turn) % n))
                return out
            """,
            "If every rank sends first",
        ),
    ],
    right=[
        """
        import torch

        def ring_attention(comm, attend_block, q, k, v):
            # keys and values in one message; shares by hand
            n, r = comm.size, comm.rank
            here = torch.stack([k, v])
            outs, lses = [], []
            for turn in range(n):
                handles, coming = [], torch.empty_like(here)
                if turn + 1 < n:
                    handles.append(comm.send(here, (r + 1) % n, async_op=True))
                    handles.append(comm.receive(coming, (r - 1) % n, async_op=True))
                out, lse = attend_block(q, here[0], here[1], (r - turn) % n)
                outs.append(out)
                lses.append(lse)
                for handle in handles:
                    handle.wait()
                here = coming
            share = torch.stack(lses).softmax(0)
            return (share[..., None] * torch.stack(outs)).sum(0)
        """,
        """
        import torch
        from course_utils.reference.online_softmax import merge

        def ring_attention(comm, attend_block, q, k, v):
            # the other way round the ring
            n, r = comm.size, comm.rank
            out = torch.zeros_like(q)
            lse = q.new_full((len(q),), -torch.inf)
            for turn in range(n):
                is_last = turn == n - 1
                new_k, new_v = torch.empty_like(k), torch.empty_like(v)
                handles = [] if is_last else [
                    comm.receive(new_k, (r + 1) % n, async_op=True),
                    comm.receive(new_v, (r + 1) % n, async_op=True),
                    comm.send(k, (r - 1) % n, async_op=True),
                    comm.send(v, (r - 1) % n, async_op=True),
                ]
                out, lse = merge(out, lse, *attend_block(q, k, v, (r + turn) % n))
                [each.wait() for each in handles]
                k, v = new_k, new_v
            return out
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "early and late": lambda case: case["layout"] == "early and late",
        "side by side": lambda case: case["layout"] == "side by side",
        "large scores": lambda case: case["scenario"] == "extreme",
    },
)

ZIGZAG = AnswerBank(
    function="positions",
    wrong=[
        Wrong(
            "one token each in turn",
            """
            def positions(rank, num_ranks, seq_len):
                mine = list(range(rank, seq_len, num_ranks))
                return [mine[: len(mine) // 2], mine[len(mine) // 2 :]]
            """,
            "What does attention want",
        ),
        Wrong(
            "one flat list",
            """
            def positions(rank, num_ranks, seq_len):
                k = seq_len // (2 * num_ranks)
                end = seq_len - rank * k
                return [*range(rank * k, rank * k + k), *range(end - k, end)]
            """,
            "?",
        ),
    ],
    right=[
        """
        def positions(rank, num_ranks, seq_len):
            k = seq_len // num_ranks // 2
            pieces = [list(range(i, i + k)) for i in range(0, seq_len, k)]
            return [pieces[rank], pieces[-1 - rank]]
        """,
        """
        import torch

        def positions(rank, num_ranks, seq_len):
            rows = torch.arange(seq_len).view(2 * num_ranks, -1)
            return rows[[2 * num_ranks - 1 - rank, rank]]
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "eight ranks": lambda case: case["num_ranks"] == 8,
        "pieces of one": lambda case: case["seq_len"] == 2 * case["num_ranks"],
        "an odd number of ranks": lambda case: case["num_ranks"] in (3, 5, 7),
    },
)

COMBINE = AnswerBank(
    function="combine_over_ranks",
    wrong=[
        Wrong(
            "all results gathered",
            """
            import torch

            def combine_over_ranks(comm, out, lse):
                outs = out.new_empty(comm.size, *out.shape)
                lses = lse.new_empty(comm.size, *lse.shape)
                comm.all_gather(outs, out)
                comm.all_gather(lses, lse)
                share = torch.nan_to_num(lses.softmax(0))
                return (share[..., None] * outs).sum(0)
            """,
            "one number for each row",
        ),
    ],
    right=[
        """
        import torch

        def combine_over_ranks(comm, out, lse):
            lses = lse.new_empty(comm.size, *lse.shape)
            comm.all_gather(lses, lse)
            mine = torch.nan_to_num(lses.softmax(0))[comm.rank].unsqueeze(1) * out
            comm.all_reduce(mine)
            return mine
        """,
        """
        import torch

        def combine_over_ranks(comm, out, lse):
            everyones = torch.empty(comm.size * len(lse), dtype=lse.dtype)
            comm.all_gather(everyones, lse)
            top = everyones.view(comm.size, -1).max(0).values.clamp(min=-1e300)
            both = torch.cat([out, torch.ones_like(out[:, :1])], 1) * (lse - top).exp()[:, None]
            weights = (everyones.view(comm.size, -1) - top).exp().sum(0)
            part = both[:, :-1] / weights.clamp(min=1e-300)[:, None]
            part = part.contiguous()
            comm.all_reduce(part)
            return part
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "ranks far apart": lambda case: case["kind"] == "ranks far apart",
        "a row without keys": lambda case: case["kind"] == "a row without keys",
    },
)

BANKS = {"u11-ring": RING, "u11-zigzag": ZIGZAG, "u11-combine": COMBINE}

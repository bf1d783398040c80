"""Which phase of DeepSeek-V3's pair of chunks hides which all-to-all?"""

from course_utils import colours
from course_utils.records.traces import recorded_rows
from course_utils.show.picture import Picture, axes

MS = 1e3
CALLS = {
    "dispatch(F)": "F: dispatch",
    "combine(F)": "F: combine",
    "dispatch(B)": "B: dispatch",
    "combine(B)": "B: combine",
}
# What computes, in the colours of a transformer's parts; W is hatched.
PHASES = {
    "attn(F)": ("attention, F", colours.ATTENTION_CORE, ""),
    "mlp(F)": ("experts, F", colours.FEED_FORWARD, ""),
    "attn(B)": ("attention, I of B", colours.PROJECTIONS, ""),
    "mlp(B)": ("experts, I of B", colours.HEAD, ""),
    "attn(W)": ("attention, W", colours.PROJECTIONS, "///"),
    "mlp(W)": ("experts, W", colours.HEAD, "///"),
}


def hidden_by_phase() -> Picture:
    """Each all-to-all of a forward and a backward chunk, and what is computed meanwhile."""
    rows = recorded_rows("deepseek_v3_sums")
    hidden = {
        (row["communication"], row["computation"]): row["seconds"]
        for row in rows
        if row["quantity"] == "hidden"
    }
    exposed = {
        row["communication"]: row["seconds"]
        for row in rows
        if row["quantity"] == "exposed" and row["communication"]
    }
    figure, ax = axes(height=3.0)
    places = range(len(CALLS))
    starts = [0.0 for _ in CALLS]
    for phase, (label, colour, hatch) in PHASES.items():
        lengths = [MS * hidden.get((call, phase), 0.0) for call in CALLS]
        ax.barh(
            places,
            lengths,
            0.7,
            left=starts,
            color=colour,
            hatch=hatch,
            edgecolor=colours.ON_DARK,
            linewidth=0,
            label=label,
        )
        starts = [start + length for start, length in zip(starts, lengths, strict=True)]
    bare = [MS * exposed[call] for call in CALLS]
    ax.barh(places, bare, 0.7, left=starts, color=colours.IDLE, label="nothing: exposed")
    ax.set_yticks(list(places), list(CALLS.values()))
    ax.invert_yaxis()
    ax.set_xlabel("all-to-alls, ms, by what is computed meanwhile")
    ax.set_xlim(0, 50)
    ax.legend(frameon=False, loc="center right")
    whole = [row for row in rows if row["communication"] is None and row["computation"] is None]
    total = {row["quantity"]: row["seconds"] for row in whole}
    caption = (
        f"A pair of chunks of DeepSeek-V3 on H800: of {MS * total['communicating']:.1f} ms of "
        f"all-to-alls {MS * total['exposed']:.2f} ms are exposed, in {MS * total['span']:.0f} ms. "
        "Those of F run beside B, those of B beside F and W."
    )
    return Picture(figure, caption)

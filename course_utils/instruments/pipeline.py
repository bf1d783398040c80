"""How long does a pipeline take that works in this order, and how much does each stage hold?

A schedule is followed action by action. Nothing is known but what an action waits for: its place in
the list of its stage, and the results of other parts.

    F   F of the part before
    B   F of this part, and B or I of the part after
    I   as B
    W   I of this part

    >>> schedule = [[("F", 0, 0), ("B", 0, 0)], [("F", 0, 0), ("B", 0, 0)]]
    >>> simulate_pipeline(schedule, num_micro_batches=1)
    PipelineRun: 6 s on 2 stages, 50 % idle, in flight 1, 1

A schedule that cannot be followed to its end is followed as far as it goes; `PipelineRun.complaint`
says what is wrong, and names the actions that wait. Times may be integers, fractions or floats, and
stay what they are.

Not modelled: messages that wait for each other on one link.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from course_utils.configs.pipeline import KINDS, Action, Placement, Schedule, name_of

Time = int | float | Fraction
OfParts = Time | Sequence[Time]
"""The same time for every part of the model, or one for each."""

GIVES_INPUT_GRADIENT, ENDS_A_FLIGHT = ("B", "I"), ("B", "W")
MAX_NAMED = 4  # stages or actions in a sentence


@dataclass(frozen=True, kw_only=True)
class PassSeconds:
    """How long one micro-batch takes in one part of the model.

    Attributes:
        forward: Of F.
        input_gradient: Of I; B takes this and the next together.
        weight_gradient: Of W.
        message: From the end of an action to the moment at which another stage has its result.
    """

    forward: OfParts = 1
    input_gradient: OfParts = 1
    weight_gradient: OfParts = 1
    message: Time = 0

    def of(self, kind: str, part: int) -> Time:
        """Seconds of an action of this kind in a part."""
        times = {
            "F": [self.forward],
            "I": [self.input_gradient],
            "W": [self.weight_gradient],
            "B": [self.input_gradient, self.weight_gradient],
        }[kind]
        return sum(each[part] if isinstance(each, Sequence) else each for each in times)


class TimedAction(NamedTuple):
    """An action with its times.

    Attributes:
        stage: That did it.
        action: Kind, micro-batch, chunk.
        start: Second at which it began.
        end: Second at which it ended.
    """

    stage: int
    action: Action
    start: Time
    end: Time


class Waiting(NamedTuple):
    """A stage that waits for ever.

    Attributes:
        stage: That waits.
        action: That it cannot begin.
        needs: The action that never ends.
        of_stage: Whose action that is.
    """

    stage: int
    action: Action
    needs: Action
    of_stage: int


class Misplaced(NamedTuple):
    """An action that a stage lacks, has twice, or should not have.

    Attributes:
        stage: Whose list it is.
        action: As it stands there, or should stand there.
    """

    stage: int
    action: Any


@dataclass(frozen=True, eq=False)
class PipelineRun:
    """What following a schedule came to.

    Attributes:
        placement: Which part is where.
        actions: What was done, stage by stage, in order.
        waiting: Stages that did not come to the end of their list.
        missing: What stands in no list.
        repeated: What stands in a list more than once, or as B and as I or W.
        unknown: Entries that are no action of this pipeline.
    """

    placement: Placement
    actions: tuple[TimedAction, ...]
    waiting: tuple[Waiting, ...]
    missing: tuple[Misplaced, ...]
    repeated: tuple[Misplaced, ...]
    unknown: tuple[Misplaced, ...]

    def __repr__(self) -> str:
        """Seconds, idle share and micro-batches in flight, or the complaint."""
        flights = ", ".join(f"{self.in_flight(stage):g}" for stage in self.stages)
        state = f"{self.idle_share:.0%}".replace("%", " %")
        told = (
            f"{float(self.seconds):g} s on {self.placement.num_stages} stages, {state} idle, "
            f"in flight {flights}"
        )
        return f"PipelineRun: {self.complaint or told}"

    @property
    def stages(self) -> range:
        """Numbers of the stages."""
        return range(self.placement.num_stages)

    @cached_property
    def seconds(self) -> Time:
        """From the start to the end of the last action."""
        return max((each.end for each in self.actions), default=0)

    def of(self, stage: int) -> tuple[TimedAction, ...]:
        """What one stage did, in order."""
        return tuple(each for each in self.actions if each.stage == stage)

    def busy_seconds(self, stage: int) -> Time:
        """How long a stage computes."""
        return sum(each.end - each.start for each in self.of(stage))

    def idle_seconds(self, stage: int) -> Time:
        """How long a stage computes nothing, until the last stage is done."""
        return self.seconds - self.busy_seconds(stage)

    @property
    def idle_share(self) -> float:
        """Share of all stages' time that is idle: the bubble."""
        idle = sum(self.idle_seconds(stage) for stage in self.stages)
        return float(idle / (self.seconds * len(self.stages))) if self.seconds else 0.0

    def flights(self, stage: int) -> list[tuple[Time, int]]:
        """Activations in flight on a stage, in chunks: each change as (second, number from then).

        A forward pass takes its room when it begins, a backward pass gives it back when it ends.
        """
        changes, number = list[tuple[Time, int]](), 0
        for each in self.of(stage):
            if each.action[0] == "F":
                number += 1
                changes.append((each.start, number))
            elif each.action[0] in ENDS_A_FLIGHT:
                number -= 1
                changes.append((each.end, number))
        return changes

    def in_flight(self, stage: int) -> float:
        """The most micro-batches that a stage holds, each counted with all chunks of the stage."""
        most = max((number for _, number in self.flights(stage)), default=0)
        return most / self.placement.num_chunks

    @property
    def complaint(self) -> str:
        """What is wrong with the schedule; empty where nothing is."""
        counted = {
            "no action of this pipeline": self.unknown,
            "twice": self.repeated,
            "missing": self.missing,
        }
        told = [
            f"{what}: {self._listed(self._in_words(each) for each in some)}"
            for what, some in counted.items()
            if some
        ]
        if self.waiting:
            told.append(f"deadlock: {self._listed(map(self._wait_in_words, self.waiting))}")
        return "; ".join(told)

    def require_complete(self) -> "PipelineRun":
        """Return the run itself.

        Raises:
            ValueError: If the schedule could not be followed, or is not whole.
        """
        if self.complaint:
            raise ValueError(f"this schedule cannot be followed: {self.complaint}")
        return self

    def _in_words(self, misplaced: Misplaced) -> str:
        stage, action = misplaced
        is_known = isinstance(action, tuple) and misplaced not in self.unknown
        return f"{self._name(action) if is_known else repr(action)[:40]} on stage {stage}"

    def _wait_in_words(self, waiting: Waiting) -> str:
        stage, action, needs, of_stage = waiting
        whose = "which comes later in its own list" if of_stage == stage else f"of stage {of_stage}"
        comma = "," if of_stage == stage else ""
        return f"stage {stage} waits in {self._name(action)} for {self._name(needs)}{comma} {whose}"

    def _name(self, action: Action) -> str:
        return name_of(action, self.placement.num_chunks)

    @staticmethod
    def _listed(words: Iterable[str]) -> str:
        listed = list(words)
        more = len(listed) - MAX_NAMED
        return ", ".join(listed[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def simulate_pipeline(
    schedule: Schedule,
    num_micro_batches: int,
    placement: Placement | None = None,
    seconds: PassSeconds | None = None,
) -> PipelineRun:
    """Follow a schedule: what each stage does, and when.

    Args:
        schedule: The actions of each stage, in order.
        num_micro_batches: That all parts have to see.
        placement: Which part is where; by default each stage is one part.
        seconds: How long each action takes; by default F, I and W one second each.

    Raises:
        ValueError: If there is not one list for each stage.
    """
    placement = placement or Placement(len(schedule))
    if len(schedule) != placement.num_stages:
        raise ValueError(
            f"simulate_pipeline wants a list of actions for each of {placement.num_stages} stages, "
            f"got {len(schedule)}"
        )
    simulation = _Simulation(schedule, num_micro_batches, placement, seconds or PassSeconds())
    simulation.follow()
    return simulation.result()


@dataclass(eq=False)
class _Simulation:
    """All stages at some moment: which action is next, when the last one ended, what is done."""

    schedule: Schedule
    num_micro_batches: int
    placement: Placement
    seconds: PassSeconds
    ends: dict[Action, TimedAction] = field(default_factory=dict)  # by kind, micro-batch and part
    done: list[list[TimedAction]] = field(init=False)
    lists: list[list[Action]] = field(init=False)

    def __post_init__(self) -> None:
        self.done = [[] for _ in self.schedule]
        self.lists = [
            [(kind, m, chunk) for kind, m, chunk in filter(self._is_known, some)]
            for some in self.schedule
        ]

    def _is_known(self, entry: Any) -> bool:
        """Whether an entry of a list is an action of this pipeline."""
        if not isinstance(entry, tuple | list) or len(entry) != 3:
            return False
        kind, micro_batch, chunk = entry
        limits = ((micro_batch, self.num_micro_batches), (chunk, self.placement.num_chunks))
        return kind in KINDS and all(type(n) is int and 0 <= n < limit for n, limit in limits)

    def follow(self) -> None:
        """Let every stage go on as long as it can, until none can."""
        while any([self._advance(stage) for stage in range(len(self.lists))]):
            pass

    def _advance(self, stage: int) -> bool:
        """Do the actions of a stage that wait for nothing; whether there was one."""
        before = len(self.done[stage])
        while (action := self._next(stage)) and not self._unmet(stage, action):
            kind, micro_batch, chunk = action
            part = self.placement.part(stage, chunk)
            start = max([self._free(stage), *map(self._arrival(stage), self._needs(stage, action))])
            timed = TimedAction(stage, action, start, start + self.seconds.of(kind, part))
            self.done[stage].append(timed)
            self.ends[kind, micro_batch, part] = timed
        return len(self.done[stage]) > before

    def _next(self, stage: int) -> Action | None:
        position, some = len(self.done[stage]), self.lists[stage]
        return some[position] if position < len(some) else None

    def _free(self, stage: int) -> Time:
        return self.done[stage][-1].end if self.done[stage] else 0

    def _arrival(self, stage: int) -> Callable[[tuple[Action, ...]], Time]:
        """From what one of several actions gives to when a stage has it."""

        def seconds(either: tuple[Action, ...]) -> Time:
            given = next(self.ends[each] for each in either if each in self.ends)
            return given.end + (self.seconds.message if given.stage != stage else 0)

        return seconds

    def _needs(self, stage: int, action: Action) -> list[tuple[Action, ...]]:
        """What must have ended before, by kind, micro-batch and part; each in one of its forms."""
        kind, micro_batch, chunk = action
        part = self.placement.part(stage, chunk)
        if kind == "F":
            return [(("F", micro_batch, part - 1),)] if part else []
        if kind == "W":
            return [(("I", micro_batch, part),)]
        after = tuple((each, micro_batch, part + 1) for each in GIVES_INPUT_GRADIENT)
        own: list[tuple[Action, ...]] = [(("F", micro_batch, part),)]
        return [*own, after] if part + 1 < self.placement.num_parts else own

    def _unmet(self, stage: int, action: Action) -> list[tuple[Action, ...]]:
        needs = self._needs(stage, action)
        return [either for either in needs if not any(each in self.ends for each in either)]

    def result(self) -> PipelineRun:
        """What came of it."""
        stages = range(len(self.lists))
        unknown = [
            Misplaced(stage, entry)
            for stage in stages
            for entry in self.schedule[stage]
            if not self._is_known(entry)
        ]
        return PipelineRun(
            self.placement,
            tuple(each for some in self.done for each in some),
            tuple(self._waiting(stage) for stage in stages if self._next(stage)),
            tuple(each for stage in stages for each in self._missing(stage)),
            tuple(each for stage in stages for each in self._repeated(stage)),
            tuple(unknown),
        )

    def _waiting(self, stage: int) -> Waiting:
        action = self._next(stage)
        assert action is not None
        either = self._unmet(stage, action)[0]
        used = {each[0] for some in self.lists for each in some}
        kind, micro_batch, part = next((each for each in either if each[0] in used), either[0])
        needs = kind, micro_batch, self.placement.chunk_of(part)
        return Waiting(stage, action, needs, self.placement.stage_of(part))

    def _missing(self, stage: int) -> list[Misplaced]:
        has = set(self.lists[stage])
        is_split = any(kind in "IW" for some in self.lists for kind, _, _ in some)
        missing = []
        for m in range(self.num_micro_batches):
            for chunk in range(self.placement.num_chunks):
                backward = ["I", "W"] if is_split and ("B", m, chunk) not in has else ["B"]
                wanted = [(kind, m, chunk) for kind in ("F", *backward)]
                missing += [Misplaced(stage, each) for each in wanted if each not in has]
        return missing

    def _repeated(self, stage: int) -> list[Misplaced]:
        """What stands there twice; a whole backward pass does the work of both halves."""
        times = Counter(self.lists[stage])
        for (kind, m, chunk), number in list(times.items()):
            if kind == "B":
                times += Counter(
                    {(half, m, chunk): number for half in "IW" if times[half, m, chunk]}
                )
        return [Misplaced(stage, each) for each, number in times.items() if number > 1]

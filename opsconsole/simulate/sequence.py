"""One request on its way through a simulated replica, as counts.

It holds no tokens, only how many. The trap: while a request decodes, `tokens` and `computed` are not kept up step by
step; `Replica` knows them from its own step counter and writes them back when the request leaves the batch.
"""

from __future__ import annotations


class Sequence:
    """Mutable and slotted: one is made per request, and touched only when something happens to it."""

    __slots__ = (
        "arrived",
        "blocks",
        "cached",
        "computed",
        "decoding",
        "ends",
        "first",
        "generated",
        "held",
        "last",
        "number",
        "output",
        "own",
        "phase",
        "place",
        "preemptions",
        "prompt",
        "replica",
        "slo_class",
        "table",
        "tokens",
    )

    def __init__(
        self,
        number: int,
        arrived: float,
        prompt: int,
        output: int,
        blocks: tuple[int, ...] = (),
        slo_class: str = "default",
    ) -> None:
        self.number = number  # in order of arrival
        self.arrived = arrived
        self.prompt, self.output = prompt, output
        self.blocks, self.slo_class = blocks, slo_class
        self.tokens = prompt  # prompt and output so far
        self.computed = 0  # of which stored
        self.generated = 0
        self.table = 0  # blocks held
        self.held: list[int | None] = []  # shared ids among them; None = computed, but published by another
        self.own: object | None = None  # key of what it left in the cache when it was preempted
        self.decoding = False
        self.ends = 0  # step of its replica at which it is complete
        self.phase = 0  # which residue of the step counter makes it grow by a block
        self.place = 0  # order of admission
        self.cached: int | None = None  # prompt tokens found at first admission
        self.preemptions = 0
        self.first: float | None = None
        self.last: float | None = None
        self.replica: str | None = None

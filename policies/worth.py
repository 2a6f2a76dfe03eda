"""How many replicas' worth a demand is, from what one replica serves.

Prompts and answers share a replica's time, so where the share of each is known their loads add up. Where it is not,
the largest ratio counts, which is safe and buys too much whenever the mix moves away from the one the capacity was
measured on. It must not know where rates come from. The trap: a ratio to an unknown capacity is unknown, not 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from policies.situation import CapacityFacts

OUTPUT_TOKEN = 2.3  # prompt tokens' worth of time: an 8B model on an A100, 1000 in, 100 out, steps of 512 tokens
TRUST = 1.0  # of that figure, in rows whose prompts are a whole capacity off their answers


class Rates(NamedTuple):
    """Requests, prompt tokens and output tokens a second; None is unknown."""

    request: float | None = None
    prompt: float | None = None
    output: float | None = None


def ratios(rates: Rates, capacity: CapacityFacts, role: str | None = None) -> Rates:
    """Each rate over what a replica does of it: a prefill pool only reads, a decode pool only writes."""
    return Rates(
        _over(rates.request, capacity.request_rate),
        None if role == "decode" else _over(rates.prompt, capacity.prompt_rate),
        None if role == "prefill" else _over(rates.output, capacity.output_rate),
    )


def worth(rates: Rates, capacity: CapacityFacts, role: str | None = None) -> float | None:
    """Replicas' worth; None where no rate meets a known capacity. More of any rate is never worth less."""
    return together(ratios(rates, capacity, role), capacity.prompt_share)


def together(each: Rates, share: float | None) -> float | None:
    """The worth of all rates from that of each; `share` of a replica's time goes to prompts, None where unknown."""
    if share is not None and each.prompt is not None and each.output is not None:
        return share * each.prompt + (1.0 - share) * each.output
    known = [ratio for ratio in each if ratio is not None]
    return max(known) if known else None


def prompt_share(prompt: float, output: float, limits: Sequence[Rates] = ()) -> float | None:
    """The share of a replica's time that prompts take at a capacity of so many prompt and output tokens/s.

    By what tokens cost elsewhere, moved by `limits`, rates of a replica at its limit: where the mix was another and the
    replica still full, the least squares of share x prompts + (1 - share) x answers = 1 say what each takes.
    """
    if prompt <= 0 or output <= 0:
        return None
    usual = prompt / (prompt + OUTPUT_TOKEN * output)
    pairs = [(r.prompt / prompt, r.output / output) for r in limits if r.prompt is not None and r.output is not None]
    weight = TRUST + sum((p - o) ** 2 for p, o in pairs)
    found = (TRUST * usual + sum((p - o) * (1.0 - o) for p, o in pairs)) / weight
    return min(1.0, max(0.0, found))


def _over(rate: float | None, per: float | None) -> float | None:
    return rate / per if rate is not None and per is not None and per > 0 else None

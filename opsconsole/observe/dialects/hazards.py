"""Numbers that were published and are still not true: each check takes what was read and says what is not believed.

It must not read names the tables could have mapped. Every check names the flag it sets. The trap: a check that is too
eager turns good numbers into unknown ones, and unknown blocks scaling down; each has a bound from a reported failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsconsole.observe.dialects.collapse import Row
from opsconsole.observe.dialects.reading import Reading
from opsconsole.observe.exposition import Page


def check(reading: Reading, infos: Sequence[Row], page: Page, at: float | None) -> None:
    """Every check, in the order in which one may depend on another. `infos`: samples whose labels are the data."""
    _implausible_ttft(reading)
    _itl_basis(reading)
    _prefix_units(reading, page)
    _prefix_after_preemption(reading)
    _kv_capacity(reading)
    _lora(reading, infos, at)
    _asleep(reading)
    _kv_from_blocks(reading)
    _before_first_token(reading)


def _implausible_ttft(reading: Reading) -> None:
    """vLLM V0 with chunked prefill counted a first token for every chunk: all in the lowest bucket, sum near zero."""
    ttft = reading.buckets("ttft")
    if ttft is None or ttft.count < 20:
        return
    finished, running = reading.number("finished_total"), reading.number("running") or 0.0
    mean = None if ttft.sum is None else ttft.sum / ttft.count
    all_lowest = len(ttft.bounds) > 1 and ttft.counts[0] == ttft.count
    if all_lowest and mean is not None and mean < 0.001:
        why = f"all {ttft.count:g} observations are in the lowest bucket with a mean of {mean * 1000:.2g} ms"
    elif finished is not None and ttft.count > 3 * (finished + running) + 50:
        why = f"{ttft.count:g} first tokens but {finished:g} finished requests"
    else:
        return
    reading.forget("ttft", why)
    reading.flag("ttft_implausible")


def _itl_basis(reading: Reading) -> None:
    """One observation for each output of the engine, which holds several tokens where drafts are accepted."""
    if "itl" in reading.values:
        drafts = reading.number("spec_drafts") or reading.number("spec_draft_tokens") or 0.0
        reading.values["itl_basis"] = "per_output" if drafts > 0 else "per_token"


def _prefix_units(reading: Reading, page: Page) -> None:
    """vLLM counted blocks to 0.8.5 and tokens from 0.9.0 under one name; only the HELP text tells."""
    family = reading.names.get("prefix_queries") or reading.names.get("prefix_hits")
    if family is None or "gpu_prefix_cache" not in family:
        return
    text = page.helps.get(family, "").lower()
    if "block" not in text:
        return
    reading.flag("prefix_in_blocks")
    size = reading.number("block_size")
    for name in ("prefix_hits", "prefix_queries"):
        value = reading.number(name)
        if value is None:
            continue
        if size is None:
            reading.forget(name, "counted in blocks of unknown size")
        else:
            reading.values[name] = value * size


def _prefix_after_preemption(reading: Reading) -> None:
    """vLLM to 0.11.0 counted recomputation after a preemption as hits: 32 % shown where 0.2 % was true.

    Releases with the fix also tell the queries of an external cache.
    """
    old = reading.engine == "vllm" and "external_prefix_queries" not in reading.values
    if old and "prefix_hits" in reading.values and (reading.number("preemptions") or 0) > 0:
        reading.forget("prefix_hits", "counts recomputation after preemption as hits in this version")
        reading.flag("prefix_hits_overcounted")


def _kv_capacity(reading: Reading) -> None:
    """Blocks times block size where the engine does not tell tokens; wrong on hybrid models, which tell them."""
    blocks, size = reading.number("num_blocks"), reading.number("block_size")
    if "kv_capacity_tokens" not in reading.values and blocks is not None and size is not None:
        reading.values["kv_capacity_tokens"] = blocks * size
        reading.unknown.pop("kv_capacity_tokens", None)


def _lora(reading: Reading, infos: Sequence[Row], at: float | None) -> None:
    """The value is a time and the labels are the data: the newest series is the truth; several processes add times."""
    known = [(series, value) for series, value in infos if value == value and value > 0]
    if not known:
        return
    now = at if at is not None else min(value for _, value in known)
    newest, best = None, 0.0
    for series, value in known:
        copies = max(1, round(value / now)) if now > 0 else 1
        if copies > 1:
            reading.flag("lora_timestamp_summed")
        if newest is None or value / copies > best:
            newest, best = series, value / copies
    if newest is not None:
        labels = newest.labels
        reading.values["lora"] = {
            "max": int(labels["max_lora"]) if labels.get("max_lora", "").isdigit() else None,
            "running": _names(labels.get("running_lora_adapters", "")),
            "waiting": _names(labels.get("waiting_lora_adapters", "")),
        }


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _asleep(reading: Reading) -> None:
    if reading.number("awake") == 0:
        reading.flag("asleep")


def _kv_from_blocks(reading: Reading) -> None:
    """Old Triton builds tell used and greatest blocks but no share."""
    used, most = reading.number("kv_blocks_used"), reading.number("num_blocks")
    if "kv_usage" not in reading.values and used is not None and most:
        reading.values["kv_usage"] = reading.values["kv_usage_mean"] = min(1.0, used / most)


def _before_first_token(reading: Reading) -> None:
    """Dynamo's "queued" requests are those without a first token, inside the ones in flight: never added."""
    active, before = reading.number("active"), reading.number("before_first_token")
    if active is None:
        return
    if before is not None:
        reading.values["generating"] = max(0.0, active - before)
    reading.values.setdefault("running", active)
    if "waiting" not in reading.values:
        reading.unknown["waiting"] = "its queue lasts to the first token and lies inside the requests in flight"

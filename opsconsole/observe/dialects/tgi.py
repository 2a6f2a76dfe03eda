"""Hugging Face TGI's names.

A table and nothing else. The traps: counters have no `_total`; the mean time per token of a request is TPOT, not ITL;
there is no TTFT (queue plus prefill is not additive across histograms), no KV occupancy and no model label.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import Dialect, Name, counter, gauge, histogram

TGI = Dialect(
    engine="tgi",
    title="Hugging Face TGI",
    prefixes=("tgi_",),
    versions="2 and 3",
    fields=(
        gauge("waiting", "tgi_queue_size"),
        gauge("running", "tgi_batch_current_size"),
        counter("arrivals", "tgi_request_count"),
        counter("finished_total", "tgi_request_success"),
        counter("failed", "tgi_request_failure", by="err"),
        counter("prompt_tokens", Name("tgi_request_input_length", part="sum")),
        counter("generation_tokens", Name("tgi_request_generated_tokens", part="sum")),
        histogram("e2e", "tgi_request_duration"),
        histogram("queue", "tgi_request_queue_duration"),
        histogram("tpot", "tgi_request_mean_time_per_token_duration"),
    ),
    hints=("it tells neither TTFT nor KV occupancy",),
)

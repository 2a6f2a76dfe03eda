"""llama.cpp server's names.

A table and nothing else. The traps: `prompt_tokens_seconds` is tokens per second, `n_tokens_max` a high-water mark
typed counter, `n_busy_slots_per_decode` an average typed counter that prints -nan; none of them is mapped.
`prompt_tokens` leaves cached tokens out, so they are added where told.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import Dialect, Name, counter, gauge, occupancy

LLAMACPP = Dialect(
    engine="llamacpp",
    title="llama.cpp server",
    prefixes=("llamacpp_",),
    versions="2024 to 2026",
    fields=(
        gauge("waiting", "llamacpp_requests_deferred"),
        gauge("running", "llamacpp_requests_processing", note="capped at the number of slots"),
        occupancy("kv_usage", Name("llamacpp_kv_cache_usage_ratio", "..2025-05")),
        counter("prompt_tokens", "llamacpp_prompt_tokens", plus=("llamacpp_prompt_tokens_cached",)),
        counter("prompt_tokens_computed", "llamacpp_prompt_tokens"),
        counter("prefix_hits", "llamacpp_prompt_tokens_cached"),
        counter("prefix_queries", "llamacpp_prompt_tokens_cached", plus=("llamacpp_prompt_tokens",)),
        counter("generation_tokens", "llamacpp_tokens_predicted"),
        counter("prompt_seconds", "llamacpp_prompt_seconds"),
        counter("generation_seconds", "llamacpp_tokens_predicted_seconds"),
        counter("spec_drafts", "llamacpp_spec_decode_num_drafts"),
        counter("spec_draft_tokens", "llamacpp_spec_decode_num_draft_tokens", "llamacpp_tokens_drafted"),
        counter("spec_accepted_tokens", "llamacpp_spec_decode_num_accepted_tokens", "llamacpp_tokens_drafted_accepted"),
    ),
    model_labels=(),
    hints=("needs --metrics", "it tells no latencies and, since 2025-05, no KV occupancy"),
)

"""What tells something beside an engine's page: GPUs through DCGM, and LMCache.

Tables and nothing else. GPU numbers are shown and never scaled on: utilisation says that some kernel ran, memory is
pinned by the engine from start to finish. The trap: blank values are huge integers, not NaN.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import Dialect, Name, counter, each, gauge, ratio

_MIB = 1024.0 * 1024.0
_GPU = "gpu+GPU_I_ID|gpu|UUID"

DCGM = Dialect(
    engine="dcgm",
    title="NVIDIA DCGM exporter",
    prefixes=("DCGM_FI_",),
    versions="3 and 4",
    fields=(
        each("gpu_util", Name("DCGM_FI_DEV_GPU_UTIL", scale=0.01, limit=1.0), by=_GPU),
        each("gpu_copy_util", Name("DCGM_FI_DEV_MEM_COPY_UTIL", scale=0.01, limit=1.0), by=_GPU),
        each("gpu_memory_used", Name("DCGM_FI_DEV_FB_USED", scale=_MIB), by=_GPU),
        each("gpu_memory_free", Name("DCGM_FI_DEV_FB_FREE", scale=_MIB), by=_GPU),
        each("gpu_power_w", "DCGM_FI_DEV_POWER_USAGE", by=_GPU),
        each("gpu_temperature_c", "DCGM_FI_DEV_GPU_TEMP", by=_GPU),
        each("gpu_xid", "DCGM_FI_DEV_XID_ERRORS", by=_GPU, note="the last code, not a count"),
    ),
    copy_labels=("pid", "container", "namespace", "pod", "exported_container", "exported_namespace", "exported_pod"),
    auxiliary=True,
)

LMCACHE = Dialect(
    engine="lmcache",
    title="LMCache",
    prefixes=("lmcache_",),
    versions="0.2 to 0.3",
    fields=(
        counter("lmcache_hit_tokens", "lmcache_num_hit_tokens"),
        counter("lmcache_requested_tokens", "lmcache_num_requested_tokens"),
        ratio("lmcache_hit_rate", "lmcache_retrieve_hit_rate"),
        gauge("lmcache_local_bytes", "lmcache_local_cache_usage"),
    ),
    auxiliary=True,
)

"""Prefill and decode of llama.cpp through llama-cpp-python, run by that environment's own Python.

`python llama_probe.py GGUF THREADS`; prints one JSON object. It must import nothing of ours. Trap: a unified KV cache
costs llama.cpp a factor of four at batch 32, so each sequence has its own.
"""

from __future__ import annotations

import ctypes
import json
import random
import statistics
import sys
import time
from typing import Any

import llama_cpp


def open_context(model: Any, threads: int, sequences: int, tokens: int) -> Any:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = tokens * sequences, 2048, 512
    params.n_seq_max, params.n_threads, params.n_threads_batch = sequences, threads, threads
    if hasattr(params, "kv_unified"):
        params.kv_unified = sequences == 1
    return llama_cpp.llama_init_from_model(model, params)


def run(context: Any, tokens: list[int], positions: list[int], sequences: list[int]) -> None:
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for index, (token, position, sequence) in enumerate(zip(tokens, positions, sequences, strict=True)):
        batch.token[index], batch.pos[index] = token, position
        batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
        batch.logits[index] = index == len(tokens) - 1 or len(set(sequences)) > 1
    if llama_cpp.llama_decode(context, batch) != 0:
        raise RuntimeError("llama_decode failed")
    llama_cpp.llama_synchronize(context)
    llama_cpp.llama_batch_free(batch)


def prefill(model: Any, threads: int, count: int, repeats: int) -> float:
    rates = []
    for _ in range(repeats):
        context = open_context(model, threads, 1, count + 64)
        tokens = [random.randrange(100, 30_000) for _ in range(count)]
        began = time.perf_counter()
        run(context, tokens, list(range(count)), [0] * count)
        rates.append(count / (time.perf_counter() - began))
        llama_cpp.llama_free(context)
    return statistics.median(rates)


def decode(model: Any, threads: int, batch: int, steps: int) -> float:
    context = open_context(model, threads, batch, 256)
    for sequence in range(batch):
        tokens = [random.randrange(100, 30_000) for _ in range(32)]
        run(context, tokens, list(range(32)), [sequence] * 32)
    times = []
    for step in range(steps):
        tokens = [random.randrange(100, 30_000) for _ in range(batch)]
        began = time.perf_counter()
        run(context, tokens, [32 + step] * batch, list(range(batch)))
        times.append(time.perf_counter() - began)
    llama_cpp.llama_free(context)
    return batch / statistics.median(times)


def main() -> None:
    path, threads = sys.argv[1], int(sys.argv[2])
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)  # must outlive every call
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    began = time.perf_counter()
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    loaded = time.perf_counter() - began
    found = {"load_s": loaded}
    found |= {f"prefill_{count}": prefill(model, threads, count, 3) for count in (512, 2048)}
    found |= {f"decode_{batch}": decode(model, threads, batch, 48) for batch in (1, 8, 32)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()

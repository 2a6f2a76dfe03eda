"""`opsconsole serve`: one embedded engine on one OpenAI-compatible port.

It reads options, builds the engine and hands it to its server; it must not know how tokens are made. The trap: the
port is bound before the weights are loaded, so that a port in use is told at once, and it listens only afterwards.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opsconsole.clock import SystemClock
from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from engine.assembly import Engine, EngineOptions
    from engine.server import ServerOptions


def serve(
    model: str = typer.Option("", "--model", metavar="PATH", help="A folder in Hugging Face layout, or a GGUF file."),
    served_model_name: str = typer.Option("", "--served-model-name", help="The name clients use; the model's own."),
    dtype: str = typer.Option("auto", "--dtype", help="auto, fp32, bf16 or fp16. Given: weights are not quantised."),
    quantize: str = typer.Option("auto", "--quantize", help="auto, int8 or none."),
    kv_blocks: int = typer.Option(0, "--kv-blocks", help="KV cache in blocks of 16 tokens; 0 = about 512 MiB."),
    chunk: int = typer.Option(512, "--chunk", min=1, help="Token budget of one step, prefill and decodes together."),
    threads: int = typer.Option(0, "--threads", min=0, help="Compute threads; 0 = all cores."),
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen on."),
    port: int = typer.Option(8000, "--port", min=0, max=65535, help="Port to listen on; 0 = any free one."),
    uds: str = typer.Option("", "--uds", metavar="PATH", help="Listen on this Unix socket instead."),
    fd: int = typer.Option(-1, "--fd", metavar="N", help="Listen on this inherited, bound socket instead."),
    slo: list[str] = typer.Option([], "--slo", metavar="NAME:ttft=1s,tpot=80ms", help="A service class; repeatable."),
    api_key: str = typer.Option("", "--api-key", envvar="OPSCONSOLE_API_KEY", help="Key clients must send."),
    trusted_router_token: str = typer.Option(
        "",
        "--trusted-router-token",
        envvar="OPSCONSOLE_TRUSTED_ROUTER_TOKEN",
        help="Who shows it may set x-cache-salt.",
    ),
    step_time: str = typer.Option("", "--step-time", metavar="FILE|default", help="No model: a step-time model."),
    max_seqs: int = typer.Option(64, "--max-seqs", min=1, help="Sequences that run at once."),
    max_model_len: int = typer.Option(0, "--max-model-len", min=0, help="Longest prompt and output; 0 = the model's."),
    long_prefill_threshold: int = typer.Option(0, "--long-prefill-threshold", min=0, help="Per prompt and step."),
    policy: str = typer.Option("fcfs", "--policy", help="Order of admission: fcfs or priority."),
    prefix_cache: bool = typer.Option(True, "--prefix-cache/--no-prefix-cache", help="Reuse computed prefixes."),
    watermark: float = typer.Option(0.0, "--watermark", help="Fraction of the KV cache admission leaves free."),
    chunk_cap: bool = typer.Option(True, "--chunk-cap/--no-chunk-cap", help="Cap prefill by the TPOT bound."),
    max_queued_requests: int = typer.Option(512, "--max-queued-requests", min=0, help="Beyond: 429 with Retry-After."),
    max_queued_tokens: int = typer.Option(0, "--max-queued-tokens", min=0, help="Prompt tokens waiting; 0 = no limit."),
    drain_deadline: float = typer.Option(30.0, "--drain-deadline", min=0.0, help="Seconds streams may run on SIGTERM."),
    body_limit: int = typer.Option(8 * 1024 * 1024, "--body-limit", min=1024, help="Bytes of a request."),
    log_level: str = typer.Option("info", "--log-level", help="debug, info, warning or error."),
    shuffle_blocks: int = typer.Option(-1, "--shuffle-blocks", hidden=True),
) -> None:
    """Serve a model on this machine, OpenAI-compatible.

    Examples:

      opsconsole serve                                    the default model on http://127.0.0.1:8000/v1

      opsconsole serve --model ./qwen3 --dtype fp32 --port 8001

      opsconsole serve --slo default:ttft=1s,tpot=80ms --slo batch:ttft=30s

      opsconsole serve --step-time default --port 0       no model: for tests of fleets
    """
    from engine.assembly import EngineOptions
    from engine.config import QueueOrder, parse_slo
    from engine.json_log import log_as_json
    from engine.server import ServerOptions
    from opsconsole.local.weights import find_model

    _one_of("--policy", policy, "fcfs", "priority")
    _one_of("--log-level", log_level, "debug", "info", "warning", "error")
    _one_of("--dtype", dtype, "auto", "fp32", "bf16", "fp16")
    _one_of("--quantize", quantize, "auto", "int8", "none")
    found = None if step_time else find_model(model or None)
    log_as_json(log_level)
    try:
        options = EngineOptions(
            model_name=served_model_name or (found.name if found else "stand-in"),
            kv_blocks=kv_blocks or None,
            chunk=chunk,
            max_seqs=max_seqs,
            max_model_len=max_model_len or None,
            long_prefill_threshold=long_prefill_threshold,
            order=QueueOrder(policy),
            prefix_cache=prefix_cache,
            watermark=watermark,
            cap_chunks=chunk_cap,
            max_queued_requests=max_queued_requests,
            max_queued_tokens=max_queued_tokens or None,
            slo_classes={slo_class.name: slo_class for slo_class in map(parse_slo, slo)},
            shuffle_blocks=None if shuffle_blocks < 0 else shuffle_blocks,
        )
        bound = None if uds else _inherited(fd) if fd >= 0 else _bind(host, port)
        clock = SystemClock()
        engine = (
            _model_engine(found.path, options, clock, dtype=dtype, quantize=quantize, threads=threads)
            if found
            else _stand_in(step_time, options, clock)
        )
    except (ValueError, FileNotFoundError) as error:
        raise UsageError(str(error)) from error
    server_options = ServerOptions(api_key or None, trusted_router_token or None, body_limit, drain_deadline)
    cut = _run(engine, server_options, clock, bound=bound, uds=uds)
    raise typer.Exit(1 if cut else 0)


def _one_of(option: str, value: str, *words: str) -> None:
    if value not in words:
        raise UsageError(f"{option} {value} is unknown; write {', '.join(words[:-1])} or {words[-1]}.")


def _model_engine(
    path: str, options: EngineOptions, clock: SystemClock, *, dtype: str, quantize: str, threads: int
) -> Engine:
    from engine.assembly import model_engine

    return model_engine(path, options, clock.monotonic, dtype=dtype, quantize=quantize, threads=threads or None)


def _stand_in(step_time: str, options: EngineOptions, clock: SystemClock) -> Engine:
    import threading

    from engine.assembly import stand_in_engine
    from engine.step_time import StepTimeModel

    pause = threading.Event()  # never set: waiting on it is how the engine's thread spends a step

    def spend(seconds: float) -> None:
        pause.wait(seconds)

    return stand_in_engine(StepTimeModel.load(step_time), options, clock.monotonic, spend)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise UsageError(f"Cannot listen on {host}:{port}: {error.strerror}; choose another with --port.") from error
    return bound


def _inherited(fd: int) -> socket.socket:
    try:
        return socket.socket(fileno=fd)
    except OSError as error:
        raise UsageError(f"--fd {fd} is no socket that this process was given ({error.strerror}).") from error


def _run(engine: Engine, options: ServerOptions, clock: SystemClock, *, bound: socket.socket | None, uds: str) -> int:
    """Serve until a signal; returns how many streams were cut."""
    import gc
    import logging

    import uvicorn

    from engine.server import EngineApp
    from engine.server import serve as serve_app
    from engine.service import EngineService

    log = logging.getLogger("engine.serve")
    address = f"unix:{Path(uds).absolute()}" if bound is None else "{}:{}".format(*bound.getsockname()[:2])
    if bound is not None and not _is_loopback(bound) and options.api_key is None:
        log.warning("anyone who reaches this port may use the model; set --api-key", extra={"address": address})
    app = EngineApp(EngineService(engine.core, engine.text, clock.monotonic), options, clock.now)
    config = uvicorn.Config(
        app.asgi(),
        uds=uds or None,
        log_config=None,
        access_log=False,
        log_level="warning",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
        ws="none",
        server_header=False,
    )

    # What is loaded stays: a full collection over it would stall a step by more than a token's time.
    gc.collect()
    gc.freeze()

    def announce() -> None:
        log.info("serving", extra={"address": address, **engine.facts})

    return asyncio.run(serve_app(app, config, announce, [bound] if bound else None))


def _is_loopback(bound: socket.socket) -> bool:
    host = str(bound.getsockname()[0])
    return host.startswith("127.") or host == "::1"

"""The KEDA external scaler: answers KEDA's operator with the counts on the board.

One metric with target 1, whose value is the desired count, so that the HPA KEDA owns computes exactly that count.
Unknown is an RPC error, never 0: KEDA then keeps its fallback, and the HPA does not scale on a failing metric. The
trap: `IsActive` decides about zero, so it too must fail while the count is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from opsconsole.act import keda_contract as contract
from opsconsole.act.board import Board
from opsconsole.errors import UsageError

log = logging.getLogger(__name__)
METRIC = "opsconsole-desired-replicas"
RECHECK_S = 5.0  # a count also goes stale without moving
GRACE_S = 1.0


class ExternalScaler:
    """The five calls of the contract. `scalerMetadata` names the pool: `pool: chat`."""

    def __init__(self, board: Board, now: Callable[[], float], recheck_s: float = RECHECK_S) -> None:
        self._board, self._now, self._recheck_s = board, now, recheck_s

    async def is_active(self, ref: Any, context: Any) -> Any:
        return contract.IsActiveResponse(result=await self._count(ref, context) > 0)

    async def stream_is_active(self, ref: Any, context: Any) -> AsyncIterator[Any]:
        """At once, then whenever it changes. While the count is unknown nothing is sent and KEDA polls `IsActive`."""
        pool, last = await self._pool(ref, context), None
        while True:
            moved = asyncio.ensure_future(self._board.moved())
            found = self._board.desired(pool, self._now())
            if found is not None and (found.count > 0) != last:
                last = found.count > 0
                yield contract.IsActiveResponse(result=last)
            await asyncio.wait({moved}, timeout=self._recheck_s)
            moved.cancel()

    async def get_metric_spec(self, ref: Any, context: Any) -> Any:
        await self._pool(ref, context)
        return _spec()

    async def stream_metric_spec(self, ref: Any, context: Any) -> AsyncIterator[Any]:
        """The target never changes, so it is said once; the stream stays open, as a closed one is an error to KEDA."""
        await self._pool(ref, context)
        yield _spec()
        await asyncio.Event().wait()

    async def get_metrics(self, request: Any, context: Any) -> Any:
        count = await self._count(None if request is None else request.scaledObjectRef, context)
        value = contract.MetricValue(
            metricName=request.metricName or METRIC, metricValue=count, metricValueFloat=float(count)
        )
        return contract.GetMetricsResponse(metricValues=[value])

    async def _pool(self, ref: Any, context: Any) -> str:
        if ref is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request is no message of KEDA's contract")
        pool = ref.scalerMetadata.get("pool", "")
        if pool not in self._board.pools:
            known = ", ".join(sorted(self._board.pools)) or 'none has via = "keda"'
            told = f"the trigger's metadata names pool {pool!r}; pools that leave their scale to KEDA: {known}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, told)
        return str(pool)

    async def _count(self, ref: Any, context: Any) -> int:
        pool = await self._pool(ref, context)
        found = self._board.desired(pool, self._now())
        if found is None:
            told = f"no decision stands for pool {pool} at the moment, so its count is unknown; nothing may scale on it"
            await context.abort(grpc.StatusCode.UNAVAILABLE, told)
            raise AssertionError("abort raises")
        return found.count


def _spec() -> Any:
    return contract.GetMetricSpecResponse(
        metricSpecs=[contract.MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1.0)]
    )


def _reader(message: Any) -> Callable[[bytes], Any]:
    """Bytes as a message; None for junk, which the call itself refuses: gRPC would make an unknown failure of it."""

    def read(told: bytes) -> Any:
        try:
            return message.FromString(told)
        except DecodeError:
            return None

    return read


def handlers(scaler: ExternalScaler) -> Any:
    """The service as gRPC routes it."""
    ref, request = _reader(contract.ScaledObjectRef), _reader(contract.GetMetricsRequest)
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    active = contract.IsActiveResponse.SerializeToString
    spec, values = contract.GetMetricSpecResponse.SerializeToString, contract.GetMetricsResponse.SerializeToString
    calls = {
        "IsActive": unary(scaler.is_active, ref, active),
        "StreamIsActive": stream(scaler.stream_is_active, ref, active),
        "GetMetricSpec": unary(scaler.get_metric_spec, ref, spec),
        "StreamMetricSpec": stream(scaler.stream_metric_spec, ref, spec),
        "GetMetrics": unary(scaler.get_metrics, request, values),
    }
    return grpc.method_handlers_generic_handler(contract.SERVICE, calls)


@asynccontextmanager
async def serving(
    board: Board, now: Callable[[], float], listen: str, tls: tuple[Path, Path] | None = None
) -> AsyncIterator[int]:
    """Serve the contract on HOST:PORT; the port it got. `tls` is certificate and key."""
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 1 << 20)))
    server.add_generic_rpc_handlers((handlers(ExternalScaler(board, now)),))
    try:
        port = server.add_secure_port(listen, _credentials(*tls)) if tls else server.add_insecure_port(listen)
    except RuntimeError as error:
        raise UsageError(f"The KEDA scaler cannot listen on {listen}; choose another [act] keda_listen.") from error
    await server.start()
    log.info("external scaler for KEDA on %s", listen)
    try:
        yield port
    finally:
        await server.stop(GRACE_S)


def _credentials(certificate: Path, key: Path) -> Any:
    try:
        return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    except OSError as error:
        raise UsageError(f"The KEDA scaler's certificate cannot be read: {error}.") from None

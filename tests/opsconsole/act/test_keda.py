"""The external scaler, asked by a gRPC client whose stubs are compiled from KEDA's own published contract."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

grpc = pytest.importorskip("grpc", reason="the keda extra is not installed")
protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")

from opsconsole.act import keda_contract  # noqa: E402
from opsconsole.act.board import PATIENCE_S, Board  # noqa: E402
from opsconsole.act.keda import METRIC, ExternalScaler, handlers, serving  # noqa: E402
from opsconsole.errors import UsageError  # noqa: E402

PUBLISHED = Path(__file__).parents[2] / "data" / "keda" / "externalscaler.proto"


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Messages and stub classes compiled from the published file."""
    folder = tmp_path_factory.mktemp("stubs")
    command = ["protoc", f"-I{PUBLISHED.parent}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main([*command, PUBLISHED.name]) == 0
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(
            messages=import_module("externalscaler_pb2"), stubs=import_module("externalscaler_pb2_grpc")
        )
    finally:
        sys.path.remove(str(folder))


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def now() -> Time:
    return Time()


@pytest.fixture
def board() -> Board:
    return Board(frozenset({"chat"}))


@pytest.fixture
async def stub(published: Any, board: Board, now: Time) -> AsyncIterator[Any]:
    async with (
        serving(board, now, "127.0.0.1:0") as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield published.stubs.ExternalScalerStub(channel)


def ref(published: Any, pool: str = "chat") -> Any:
    return published.messages.ScaledObjectRef(name="vllm", namespace="llm", scalerMetadata={"pool": pool})


def test_our_table_is_the_published_contract(published: Any) -> None:
    file = published.messages.DESCRIPTOR
    theirs = {
        (message.name, field.name, field.number, field.type, field.is_repeated)
        for message in file.message_types_by_name.values()
        for field in message.fields
    }
    ours = {
        (message.DESCRIPTOR.name, field.name, field.number, field.type, field.is_repeated)
        for message in (getattr(keda_contract, name) for name in keda_contract.MESSAGES)
        for field in message.DESCRIPTOR.fields
    }
    assert ours == theirs
    service = file.services_by_name["ExternalScaler"]
    assert service.full_name == keda_contract.SERVICE
    scaler: Any = handlers(ExternalScaler(Board(), lambda: 0.0))
    for method in service.methods:
        found = scaler.service(SimpleNamespace(method=f"/{service.full_name}/{method.name}", invocation_metadata=()))
        assert found is not None, method.name
        assert found.response_streaming == method.server_streaming


async def test_the_metric_has_target_one_and_the_desired_count_as_value(
    published: Any, stub: Any, board: Board
) -> None:
    board.publish("chat", 7, 1000.0)
    spec = await stub.GetMetricSpec(ref(published))
    assert [(m.metricName, m.targetSize, m.targetSizeFloat) for m in spec.metricSpecs] == [(METRIC, 1, 1.0)]
    request = published.messages.GetMetricsRequest(scaledObjectRef=ref(published), metricName=METRIC)
    (value,) = (await stub.GetMetrics(request)).metricValues
    assert (value.metricName, value.metricValue, value.metricValueFloat) == (METRIC, 7, 7.0)
    assert (await stub.IsActive(ref(published))).result is True


async def test_zero_that_was_decided_is_inactive(published: Any, stub: Any, board: Board) -> None:
    board.publish("chat", 0, 1000.0)
    assert (await stub.IsActive(ref(published))).result is False


@pytest.mark.parametrize("age", [None, PATIENCE_S + 1.0])
async def test_unknown_is_an_error_and_never_zero(
    published: Any, stub: Any, board: Board, now: Time, age: float | None
) -> None:
    if age is not None:
        board.publish("chat", 4, now() - age)
    request = published.messages.GetMetricsRequest(scaledObjectRef=ref(published), metricName=METRIC)
    for call, message in ((stub.IsActive, ref(published)), (stub.GetMetrics, request)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(message)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "unknown" in caught.value.details()


async def test_a_pool_that_does_not_leave_its_scale_to_keda_is_named_with_those_that_do(
    published: Any, stub: Any
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.IsActive(ref(published, "batch"))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "'batch'" in caught.value.details() and "chat" in caught.value.details()


@pytest.mark.parametrize("call", ["IsActive", "GetMetricSpec", "GetMetrics", "StreamIsActive", "StreamMetricSpec"])
async def test_junk_is_an_invalid_argument(board: Board, now: Time, call: str) -> None:
    async with (
        serving(board, now, "127.0.0.1:0") as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        ways = channel.unary_stream if call.startswith("Stream") else channel.unary_unary
        asked = ways(f"/{keda_contract.SERVICE}/{call}")(b"\xff\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await (asked.read() if call.startswith("Stream") else asked)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_activity_is_pushed_when_it_changes_and_only_then(published: Any, stub: Any, board: Board) -> None:
    board.publish("chat", 2, 1000.0)
    stream = stub.StreamIsActive(ref(published))
    assert (await asyncio.wait_for(stream.read(), 10)).result is True
    board.publish("chat", 3, 1000.0)
    board.publish("chat", 0, 1000.0)
    assert (await asyncio.wait_for(stream.read(), 10)).result is False
    stream.cancel()


async def test_the_spec_stream_says_it_at_once_and_stays_open(published: Any, stub: Any) -> None:
    stream = stub.StreamMetricSpec(ref(published))
    spec = await asyncio.wait_for(stream.read(), 10)
    assert spec.metricSpecs[0].targetSizeFloat == 1.0
    again = asyncio.ensure_future(stream.read())
    await stub.GetMetricSpec(ref(published))  # a round trip later it is still open
    assert not again.done()
    stream.cancel()
    with pytest.raises(asyncio.CancelledError):
        await again


async def test_a_port_in_use_and_a_missing_certificate_are_sentences(board: Board, now: Time, tmp_path: Path) -> None:
    async with serving(board, now, "127.0.0.1:0") as port:
        with pytest.raises(UsageError, match="keda_listen"):
            async with serving(board, now, f"127.0.0.1:{port}"):
                pass
    with pytest.raises(UsageError, match="certificate cannot be read"):
        async with serving(board, now, "127.0.0.1:0", (tmp_path / "none.crt", tmp_path / "none.key")):
            pass

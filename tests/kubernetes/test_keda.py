"""KEDA's real operator, adapter and HPA bring about what our external scaler says: `make test-keda`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from opsconsole.act.board import Board
from opsconsole.deploy.handover import Handover, scaled_object
from tests.kubernetes import keda_plane
from tests.kubernetes.keda_plane import Keda, aggregating, tail
from tests.kubernetes.plane import Cluster, ControlPlane, binaries
from tests.kubernetes.worlds import deployment, eventually

pytestmark = pytest.mark.keda
grpc = pytest.importorskip("grpc", reason="the keda extra is not installed")

SCALED = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
DEPLOYED = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def keda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A plane with KEDA in it."""
    ready, theirs = binaries(), keda_plane.binaries()
    if ready is None or theirs is None:
        pytest.skip("no control plane or no KEDA: `make test-keda` builds both where Go is (20 minutes once)")
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates and is not installed")
    folder = tmp_path_factory.mktemp("keda")
    plane = ControlPlane(folder, ready, apiserver=aggregating(folder / "front"))
    operator = Keda(plane, theirs)
    try:
        plane.start()
        operator.start()
        yield plane
    finally:
        operator.stop()
        plane.stop()


async def test_the_real_operator_follows_the_count_to_zero_and_back_and_never_in_on_unknown(keda: ControlPlane) -> None:
    from opsconsole.act.keda import serving

    cluster, board, late = Cluster(keda), Board(frozenset({"chat"})), [0.0]

    def replicas() -> int:
        return int(cluster.get(f"{DEPLOYED}/vllm")["spec"]["replicas"])

    async def follows(count: int) -> None:
        try:
            await eventually(f"{count} replicas", lambda: replicas() == count, 60.0)
        except TimeoutError as error:
            raise AssertionError(f"{error}; operator: {tail(keda, 'operator')}") from None

    def now() -> float:
        return time.time() + late[0]

    async with serving(board, now, "127.0.0.1:0") as port:
        board.publish("chat", 3, time.time())
        cluster.create(DEPLOYED, deployment("vllm", 1))
        of = Handover("chat", "Deployment", "vllm", "apps/v1", "default", 0, 8, f"127.0.0.1:{port}")
        cluster.create(SCALED, scaled_object(of))
        for count in (3, 0, 5, 2):
            board.publish("chat", count, time.time())
            await follows(count)
        board.publish("chat", 4, time.time())
        await follows(4)
        late[0] = 3600.0  # no decision for an hour: the count is unknown
        await eventually("KEDA to fall back", lambda: _has_fallen_back(cluster.get(f"{SCALED}/vllm")), 60.0)
        assert replicas() == 4
        late[0] = 0.0
        board.publish("chat", 6, time.time())
        await follows(6)
    cluster.close()


def _has_fallen_back(scaled: Any) -> bool:
    found = {c["type"]: c["status"] for c in scaled.get("status", {}).get("conditions", [])}
    return found.get("Fallback") == "True"

"""KEDA's real operator, adapter and HPA bring about what our external scaler says: `make test-keda`."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opsconsole.act.board import Board
from opsconsole.deploy.handover import COOLDOWN_S, METRIC, Handover, scaled_object
from policies.memory import Memory
from policies.registry import policy
from policies.situation import CapacityFacts, Demand, Limits, Outlook, ReplicaFacts, Situation
from tests.kubernetes import keda_plane
from tests.kubernetes.aggregation import aggregating
from tests.kubernetes.conftest import node
from tests.kubernetes.daemons import DaemonProcess
from tests.kubernetes.engines import Kubelets
from tests.kubernetes.keda_plane import Keda, tail
from tests.kubernetes.plane import Cluster, ControlPlane, binaries
from tests.kubernetes.worlds import Maker, eventually
from tests.ports import free_port

pytestmark = pytest.mark.keda
grpc = pytest.importorskip("grpc", reason="the keda extra is not installed")

FOLLOW_S = 90.0  # a poll, an HPA's period, and what two cores take
HANGS_S = 80.0  # longer than the minute after which a question to a hung scaler is given up
Make = Callable[[str], Maker]


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
        admin = Cluster(plane)
        for number in range(2):
            admin.create("/api/v1/nodes", node(f"node-{number}"))
        admin.close()
        operator.start()
        yield plane
    finally:
        operator.stop()
        plane.stop()


@pytest.fixture
def make_here(keda: ControlPlane) -> Iterator[Make]:
    cluster = Cluster(keda)

    def build(namespace: str) -> Maker:
        cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        return Maker(keda, cluster, namespace, "admin")

    yield build
    cluster.close()


@dataclass
class Handed:
    """A Deployment that a ScaledObject scales by what a scaler at some port says."""

    here: Maker
    port: int
    maximum: int = 8

    @property
    def path(self) -> str:
        return self.here.path("scaledobjects", "vllm", group="keda.sh/v1alpha1")

    def begin(self) -> None:
        scaler = f"127.0.0.1:{self.port}"
        of = Handover("chat", "Deployment", "vllm", "apps/v1", self.here.namespace, 0, self.maximum, scaler)
        self.here.cluster.create(f"{self.path.rpartition('/')[0]}?fieldValidation=Strict", scaled_object(of))

    async def follows(self, count: int, at_least: int = 0) -> None:
        """KEDA brings it about, and on the way goes nowhere below `at_least`."""

        def is_there() -> bool:
            found = self.here.replicas()
            assert found >= at_least, f"scaled in to {found}"
            return found == count

        try:
            await eventually(f"{count} replicas", is_there, FOLLOW_S)
        except TimeoutError as error:
            raise AssertionError(f"{error}; operator: {tail(self.here.plane, 'operator')}") from None

    async def goes_to_zero(self) -> None:
        """At once: the manifest has KEDA wait for some minutes."""
        self._cool_for(0)
        await self.follows(0)
        self._cool_for(COOLDOWN_S)

    def _cool_for(self, seconds: int) -> None:
        spec = dict.fromkeys(("cooldownPeriod", "initialCooldownPeriod"), seconds)
        self.here.cluster.patch(self.path, {"spec": spec})

    async def stays(self, count: int, seconds: float, until: str = "") -> None:
        """Nothing moves until a condition of the ScaledObject holds, and for some polls and periods after."""

        def holds() -> bool:
            found = self.here.replicas()
            assert found == count, f"{count} became {found}; operator: {tail(self.here.plane, 'operator')}"
            return not until or self.condition(until) == "True"

        await eventually(f"{until} to hold", holds, FOLLOW_S)
        ends = time.monotonic() + seconds
        await eventually("its end", lambda: holds() and time.monotonic() > ends, seconds + FOLLOW_S)

    def condition(self, kind: str) -> str:
        found = self.here.cluster.get(self.path).get("status", {}).get("conditions", [])
        return next((str(c["status"]) for c in found if c["type"] == kind), "")


@dataclass
class Predicting:
    """The predictive law, asked every quarter of a minute until it stands by a count. A replica does 10 requests/s."""

    want: int = 1
    now: float = 1e9
    memory: Memory = field(default_factory=Memory)

    def expecting(self, rate: float) -> int:
        """What the forecast of so many requests a second makes of an idle pool."""
        forecast = Outlook((30.0, 600.0), (0.1, 0.5, 0.9), ((rate,) * 3,) * 2, "requests/s", "tests")
        for _ in range(40):
            situation = Situation(
                now=self.now,
                pool="chat",
                model="stand-in",
                want=self.want,
                replicas=tuple(_idle(f"vllm-{i}") for i in range(self.want)),
                demand=Demand(request_rate=0.0, waiting_growth=0.0, gateway_waiting=0.0),
                limits=Limits(0, 8, step_down=None, stabilise_down_s=30.0, to_zero_after_s=60.0),
                lead_s=60.0,
                capacity=CapacityFacts(10.0),
                outlooks={"requests/s": forecast},
                covered=True,
            )
            decision, self.memory = policy("predictive").decide(situation, self.memory)
            self.want, self.now = decision.target, self.now + 15.0
        return self.want


def _idle(name: str) -> ReplicaFacts:
    nothing: dict[str, Any] = dict.fromkeys(("waiting", "running", "kv_usage", "preempt_rate", "request_rate"), 0.0)
    return ReplicaFacts(name, "ok", **nothing, prompt_rate=0.0, output_rate=0.0, streams=0, age=0.0, started_at=0.0)


async def test_the_real_operator_follows_the_forecast_to_zero_and_back_and_never_in_on_unknown(make_here: Make) -> None:
    from opsconsole.act.keda import serving

    here, board, late = make_here("forecast"), Board(frozenset({"chat"})), [0.0]
    here.deploy(replicas=1, ready="200ms")
    law = Predicting()
    async with serving(board, lambda: time.time() + late[0], "127.0.0.1:0") as port:
        handed = Handed(here, port)
        board.publish("chat", law.expecting(25.0), time.time())
        handed.begin()
        await handed.follows(3, at_least=1)
        board.publish("chat", law.expecting(0.0), time.time())
        await handed.goes_to_zero()
        for rate, count in ((45.0, 5), (15.0, 2)):
            board.publish("chat", law.expecting(rate), time.time())
            await handed.follows(count)
        late[0] = 3600.0  # no decision for an hour: the count is unknown
        await handed.stays(2, 20.0, until="Fallback")
        late[0] = 0.0
        board.publish("chat", law.expecting(55.0), time.time())
        await handed.follows(6, at_least=2)


async def test_one_more_of_ten_is_brought_about_as_well(make_here: Make) -> None:
    """An HPA leaves a tenth alone where it is not told otherwise."""
    from opsconsole.act.keda import serving

    here, board = make_here("tenth"), Board(frozenset({"chat"}))
    here.deploy(replicas=10, ready="200ms")
    async with serving(board, time.time, "127.0.0.1:0") as port:
        handed = Handed(here, port, maximum=12)
        board.publish("chat", 10, time.time())
        handed.begin()
        await eventually("KEDA's HPA", lambda: handed.condition("Active") == "True", FOLLOW_S)
        for count in (11, 10):
            board.publish("chat", count, time.time())
            await handed.follows(count, at_least=10)


async def test_a_daemon_hands_its_pool_to_keda_and_while_it_hangs_or_is_dead_nothing_moves(
    make_here: Make, tmp_path: Path
) -> None:
    here, port = make_here("handed"), free_port()
    here.deploy(replicas=1, ready="6s", engine="--max-seqs 2")
    told = {"OPSCONSOLE_POOL__CHAT__VIA": "keda", "OPSCONSOLE_POOL__CHAT__MINIMUM": "0"}
    daemon = DaemonProcess(
        here, tmp_path / "daemon", environment={**told, "OPSCONSOLE_ACT__KEDA_LISTEN": f"127.0.0.1:{port}"}
    )
    with Kubelets(here.plane, here.namespace, tmp_path):
        daemon.start()
        try:
            await eventually("the daemon", daemon.is_ready, 60.0)
            await eventually("the first pod", lambda: len(here.ready()) == 1, 60.0)
            assert daemon.post("/v1/holds", {"kind": "pause"}).is_success  # what follows is asked by hand
            handed = Handed(here, port)
            handed.begin()
            await eventually("KEDA", lambda: handed.condition("Active") == "True", FOLLOW_S)
            await eventually("a plan for 3", lambda: _asked(daemon, 3), FOLLOW_S)
            await handed.follows(3, at_least=1)
            await eventually("3 ready", lambda: len(here.ready()) == 3, 60.0)
            await eventually("a plan for 0", lambda: _asked(daemon, 0), FOLLOW_S)
            await eventually("their drain", lambda: _published(daemon) == 0, FOLLOW_S)
            await handed.goes_to_zero()
            await eventually("a plan for 2", lambda: _asked(daemon, 2), FOLLOW_S)
            await handed.follows(2)
            await eventually("2 ready", lambda: len(here.ready()) == 2, 60.0)
            assert {m for m in _managers(here) if m.startswith("opsconsole")} == set()  # it never wrote the scale
            assert daemon.process is not None
            daemon.process.send_signal(signal.SIGSTOP)
            await handed.stays(2, HANGS_S)
            daemon.end(signal.SIGKILL)
            await handed.stays(2, 20.0)
            daemon.start()
            await eventually("the daemon again", daemon.is_ready, 60.0)
            await eventually("a plan for 3", lambda: _asked(daemon, 3), FOLLOW_S)
            await handed.follows(3, at_least=2)
        finally:
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.end(signal.SIGKILL)


def _asked(daemon: DaemonProcess, to: int) -> bool:
    """A plan made and carried out; False while one before is still under way."""
    plan = daemon.post("/v1/plans", {"kind": "scale", "pool": "chat", "to": to})
    if not plan.is_success:
        return False
    done = daemon.post("/v1/intents", {"plan_id": plan.json()["plan_id"]})
    return done.is_success and done.json()["status"] in ("running", "done")


def _published(daemon: DaemonProcess) -> int | None:
    """The count that KEDA is told, by the daemon's own metrics."""
    told = [line for line in daemon.get("/metrics").text.splitlines() if line.startswith(f"{METRIC}{{")]
    return int(float(told[0].split()[-1])) if told else None


def _managers(here: Maker) -> set[str]:
    """Who has written the Deployment or its scale."""
    found: Any = here.cluster.get(here.path("deployments", "vllm"))["metadata"]["managedFields"]
    return {str(entry["manager"]) for entry in found}

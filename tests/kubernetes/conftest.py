"""One control plane a run, one namespace a test, and what tests of a cluster need to begin with."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes.aggregation import aggregating
from tests.kubernetes.plane import KUBELETS, Cluster, ControlPlane, binaries
from tests.kubernetes.worlds import Maker

NODES = 3
GPUS = 2  # a node
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the plane; `make test` leaves it to `make test-kubernetes`."""
    for item in items:
        if Path(str(item.fspath)).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    found = binaries()
    if found is None:
        pytest.skip("no control plane: `make controlplane` builds it where Go is, or set OPSCONSOLE_CONTROLPLANE")
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the plane's key and is not installed")
    folder = tmp_path_factory.mktemp("plane")
    plane = ControlPlane(folder, found, apiserver=aggregating(folder / "front"))
    try:
        plane.start()
        admin = Cluster(plane)
        for number in range(NODES):
            admin.create("/api/v1/nodes", node(f"gpu-{number}"))
        admin.close()
        yield plane
    finally:
        plane.stop()
        if (kept := os.environ.get("OPSCONSOLE_KEEP_PLANE_LOGS")) is not None:
            shutil.copytree(plane.folder, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("etcd"))


def node(name: str, kubelets: str = KUBELETS) -> dict[str, object]:
    room = {"cpu": "64", "memory": "256Gi", "pods": "100", "nvidia.com/gpu": str(GPUS)}
    meta = {"name": name, "labels": {"tests/kubelets": kubelets}}
    return {"metadata": meta, "status": {"allocatable": room, "capacity": room}}


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Cluster]:
    admin = Cluster(plane)
    yield admin
    admin.close()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    name = f"test-{next(_numbers)}"
    cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    for kind in ("apis/apps/v1/deployments", "apis/apps/v1/statefulsets"):
        group, _, plural = kind.rpartition("/")
        cluster.delete(f"/{group}/namespaces/{name}/{plural}")
    cluster.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def make(plane: ControlPlane, cluster: Cluster, namespace: str) -> Callable[..., Maker]:
    """Daemons' halves that face the cluster, by user."""

    def build(user: str = "admin") -> Maker:
        return Maker(plane, cluster, namespace, user)

    return build

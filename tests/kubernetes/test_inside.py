"""The pod's own account: a real ServiceAccount token, the server's own certificate, and a token that is rotated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opsconsole.clock import SystemClock
from opsconsole.cluster.api import KubeApi, Place, namespace_of
from tests.kubernetes.worlds import Maker

Make = Callable[..., Maker]


def token_of(here: Maker, account: str) -> str:
    """A token as the kubelet asks for one and mounts it."""
    here.cluster.create(here.path("serviceaccounts", group="v1"), {"metadata": {"name": account}})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    group = "rbac.authorization.k8s.io/v1"
    here.cluster.create(here.path("roles", group=group), {"metadata": {"name": account}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": here.namespace}
    body = {"metadata": {"name": account}, "roleRef": ref, "subjects": [subject]}
    here.cluster.create(here.path("rolebindings", group=group), body)
    asked = here.path("serviceaccounts", f"{account}/token", group="v1")
    return str(here.cluster.create(asked, {"spec": {"expirationSeconds": 600}})["status"]["token"])


@pytest.fixture
def mounted(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Maker, Path]:
    """What a kubelet puts into a pod, where the client looks for it."""
    here = make()
    (tmp_path / "namespace").write_text(here.namespace)
    loader = "kubernetes.aio.config.incluster_config"
    monkeypatch.setattr(f"{loader}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{loader}.SERVICE_CERT_FILENAME", str(here.plane.folder / "certs" / "apiserver.crt"))
    monkeypatch.setattr("kubernetes.aio.config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "no kubeconfig"))
    monkeypatch.setattr("opsconsole.cluster.api._NAMESPACE_FILE", tmp_path / "namespace")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(here.plane.api_port))
    return here, tmp_path


async def test_a_pod_speaks_for_itself_and_reads_its_token_again_when_it_was_rotated(
    mounted: tuple[Maker, Path],
) -> None:
    here, folder = mounted
    assert namespace_of(Place()) == here.namespace
    (folder / "token").write_text(token_of(here, "first"))
    api = KubeApi(Place(), SystemClock())
    pods = here.path("pods", group="v1")
    assert (await api.get(pods))["kind"] == "PodList"
    second = token_of(here, "second")
    (folder / "token").write_text(second)
    here.cluster.delete(here.path("serviceaccounts", "first", group="v1"))
    for _ in range(200):  # the server believes a token it has seen for some seconds more
        assert (await api.get(pods))["kind"] == "PodList"
        if str(api._client.configuration.api_key["BearerToken"]).endswith(second):
            break
        await SystemClock().sleep(0.1)
    else:
        pytest.fail("the token was never read again")
    await api.close()

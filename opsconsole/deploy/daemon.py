"""The daemon in a namespace: account, role, configuration, deployment, service, monitor.

Pure. Two replicas by default, of which one leads. The trap: the file system is read-only and the user is nobody, so
everything that is written goes to the one volume at DATA.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from opsconsole.deploy import rules

DATA = "/var/lib/opsconsole"
TOKENS, TLS = "/etc/opsconsole-tokens", "/etc/opsconsole-tls"
API_PORT, KEDA_PORT, USER = 9400, 6000, 65532
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


@dataclass(frozen=True, slots=True)
class Daemon:
    """One installation. `config` is the text of opsconsole.toml."""

    name: str
    namespace: str
    image: str
    config: str
    replicas: int = 2
    acts: bool = False
    sees_nodes: bool = False
    keda: bool = False
    token_secret: str = "opsconsole-tokens"  # a Secret with keys `read` and `operate`
    tls_secret: str = "opsconsole-tls"  # of type kubernetes.io/tls; the API is never open without it

    @property
    def labels(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": "opsconsole", "app.kubernetes.io/instance": self.name}

    def meta(self, name: str = "") -> dict[str, Any]:
        return {"name": name or self.name, "namespace": self.namespace, "labels": self.labels}


def objects(of: Daemon) -> list[dict[str, Any]]:
    """Everything, in the order it is applied."""
    made = [account(of), role(of), binding(of)]
    if of.sees_nodes:
        made += node_access(of)
    return [*made, config_map(of), deployment(of), service(of)]


def account(of: Daemon) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": of.meta()}


def role(of: Daemon) -> dict[str, Any]:
    """Read-only unless the daemon acts; then the verbs of acting besides."""
    allowed = [*rules.watching(), *(rules.acting() if of.acts else [])]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": of.meta(), "rules": allowed}


def binding(of: Daemon) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": of.meta(),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": of.name},
        "subjects": [{"kind": "ServiceAccount", "name": of.name, "namespace": of.namespace}],
    }


def node_access(of: Daemon) -> list[dict[str, Any]]:
    name, api = f"{of.namespace}-{of.name}-nodes", "rbac.authorization.k8s.io"
    meta = {"name": name, "labels": of.labels}
    reference = {"apiGroup": api, "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": of.name, "namespace": of.namespace}
    return [
        {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules.nodes()},
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": reference,
            "subjects": [subject],
        },
    ]


def config_map(of: Daemon) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": of.meta(), "data": {"opsconsole.toml": of.config}}


def deployment(of: Daemon) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": of.meta(),
        "spec": {
            "replicas": of.replicas,
            "selector": {"matchLabels": of.labels},
            "template": {"metadata": {"labels": of.labels}, "spec": _pod(of)},
        },
    }


def _pod(of: Daemon) -> dict[str, Any]:
    volumes = [
        {"name": "config", "configMap": {"name": of.name}},
        {"name": "tokens", "secret": {"secretName": of.token_secret, "defaultMode": 0o440}},
        {"name": "tls", "secret": {"secretName": of.tls_secret, "defaultMode": 0o440}},
        {"name": "data", "emptyDir": {"sizeLimit": "4Gi"}},
    ]
    return {
        "serviceAccountName": of.name,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 30,
        "containers": [_container(of)],
        "volumes": volumes,
    }


def _container(of: Daemon) -> dict[str, Any]:
    command = ["autoscale", "--config", "/etc/opsconsole/opsconsole.toml", "--data-dir", DATA]
    mounts: list[dict[str, Any]] = [
        {"name": "config", "mountPath": "/etc/opsconsole", "readOnly": True},
        {"name": "tokens", "mountPath": TOKENS, "readOnly": True},
        {"name": "tls", "mountPath": TLS, "readOnly": True},
        {"name": "data", "mountPath": DATA},
    ]
    ports = [{"name": "api", "containerPort": API_PORT}]
    if of.keda:
        ports.append({"name": "keda", "containerPort": KEDA_PORT})
    return {
        "name": "opsconsole",
        "image": of.image,
        "imagePullPolicy": "IfNotPresent",
        "args": command,
        "env": [POD_IP, *({"name": name, "value": value} for name, value in environment(of).items())],
        "ports": ports,
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5},
        "resources": {"requests": {"cpu": "250m", "memory": "384Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def environment(of: Daemon) -> dict[str, str]:
    """What the file need not say: where to listen, and the secrets' places. Variables win over the file."""
    tokens = [{"name": role, "role": role, "file": f"{TOKENS}/{role}"} for role in ("read", "operate")]
    told = {
        "HOME": DATA,
        "TMPDIR": DATA,
        "OPSCONSOLE_AGENT__LISTEN": f"0.0.0.0:{API_PORT}",
        "OPSCONSOLE_AGENT__TLS_CERT": f"{TLS}/tls.crt",
        "OPSCONSOLE_AGENT__TLS_KEY": f"{TLS}/tls.key",
        "OPSCONSOLE_AGENT__TOKENS": json.dumps(tokens),
        "OPSCONSOLE_ACT__MODE": "act" if of.acts else "advise",
        # how a follower reaches the leader; the kubelet puts the address in
        "OPSCONSOLE_KUBERNETES__ADVERTISE": f"https://$(POD_IP):{API_PORT}",
    }
    return {**told, "OPSCONSOLE_ACT__KEDA_LISTEN": f"0.0.0.0:{KEDA_PORT}"} if of.keda else told


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "api", "scheme": "HTTPS"}}


def service(of: Daemon) -> dict[str, Any]:
    ports = [{"name": "api", "port": API_PORT, "targetPort": "api"}]
    if of.keda:
        ports.append({"name": "keda", "port": KEDA_PORT, "targetPort": "keda"})
    spec = {"selector": of.labels, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": of.meta(), "spec": spec}


def monitor(of: Daemon) -> dict[str, Any]:
    """A ServiceMonitor of the Prometheus operator for the daemon's own /metrics."""
    endpoint = {
        "port": "api",
        "path": "/metrics",
        "scheme": "https",
        "interval": "15s",
        "authorization": {"credentials": {"name": of.token_secret, "key": "read"}},
        "tlsConfig": {"ca": {"secret": {"name": of.tls_secret, "key": "ca.crt"}}, "serverName": of.name},
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": of.meta(),
        "spec": {"selector": {"matchLabels": of.labels}, "endpoints": [endpoint]},
    }

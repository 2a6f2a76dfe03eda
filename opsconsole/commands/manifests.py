"""`opsconsole manifests`: what a cluster is given, printed for `kubectl apply -f -` and nothing applied.

It reads flags and the configuration and hands values to `opsconsole.deploy`. The trap: a Role is made for the mode
asked for here; a daemon that is later switched to act by its file needs `--act` here as well.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from opsconsole.deploy.handover import Handover

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"  # of RFC 1123, as the API server takes names of namespaces
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
app = typer.Typer(no_args_is_help=True, help="Objects for a cluster, printed and not applied.")

Config = Annotated[Path | None, typer.Option("--config", help="TOML file; see `opsconsole config init`.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where the objects go.")]
Output = Annotated[str, typer.Option("--output", "-o", help="yaml or json.")]
Pool = Annotated[str, typer.Option("--pool", help="The pool, as the configuration names it.")]
Scaler = Annotated[str, typer.Option("--scaler", metavar="HOST:PORT", help="Where KEDA finds the daemon.")]


@app.command()
def daemon(
    config: Config = None,
    namespace: Namespace = "default",
    name: Annotated[str, typer.Option("--name", help="Of every object.")] = "opsconsole",
    image: Annotated[str, typer.Option("--image", help="Built from the Containerfile, in a registry of yours.")] = "",
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Daemons; one leads.")] = 2,
    act: Annotated[bool, typer.Option("--act", help="Let it scale: mode act, and the verbs for it.")] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="A ClusterRole to read node types.")] = False,
    keda: Annotated[bool, typer.Option("--keda", help="Answer KEDA's operator.")] = False,
    token_secret: Annotated[str, typer.Option("--token-secret", help="Keys `read` and `operate`.")] = "",
    tls_secret: Annotated[str, typer.Option("--tls-secret", help="Of type kubernetes.io/tls.")] = "",
    monitor: Annotated[bool, typer.Option("--monitor", help="A ServiceMonitor too.")] = False,
    output: Output = "yaml",
) -> None:
    """The daemon with the least rights it needs.

    Examples:

      opsconsole manifests daemon --config fleet.toml -n llm | kubectl apply -f -

      opsconsole manifests daemon --config fleet.toml -n llm --act --keda --monitor
    """
    from opsconsole import __version__
    from opsconsole.config import load
    from opsconsole.deploy import daemon as made

    _named("--namespace", namespace)
    _named("--name", name)
    loaded = load(config)
    if loaded.path is None:
        raise UsageError("manifests daemon needs the configuration it shall run: give --config FILE.")
    of = made.Daemon(
        name=name,
        namespace=namespace,
        image=image or f"opsconsole:{__version__}",
        config=loaded.path.read_text("utf-8"),
        replicas=replicas,
        acts=act,
        sees_nodes=nodes,
        keda=keda,
        token_secret=token_secret or f"{name}-tokens",
        tls_secret=tls_secret or f"{name}-tls",
    )
    _print([*made.objects(of), *([made.monitor(of)] if monitor else [])], output)


@app.command("keda")
def for_keda(
    pool: Pool,
    workload: Annotated[str, typer.Option("--workload", help="KIND/NAME, such as deployment/vllm.")],
    config: Config = None,
    namespace: Namespace = "default",
    scaler: Scaler = "",
    output: Output = "yaml",
) -> None:
    """A ScaledObject by which KEDA brings about what the daemon decides.

    Examples:

      opsconsole manifests keda --config fleet.toml --pool chat --workload deployment/vllm -n llm
    """
    from opsconsole.deploy.handover import scaled_object

    _print([scaled_object(_handover(config, pool, workload, namespace, "keda", scaler))], output)


@app.command()
def hpa(
    pool: Pool,
    workload: Annotated[str, typer.Option("--workload", help="KIND/NAME, such as deployment/vllm.")],
    config: Config = None,
    namespace: Namespace = "default",
    adapter: Annotated[bool, typer.Option("--adapter", help="Print prometheus-adapter's rule instead.")] = False,
    output: Output = "yaml",
) -> None:
    """A HorizontalPodAutoscaler on the published count, and the rule that lets Prometheus answer for it.

    Examples:

      opsconsole manifests hpa --config fleet.toml --pool chat --workload deployment/vllm -n llm

      opsconsole manifests hpa --pool chat --workload deployment/vllm --adapter
    """
    from opsconsole.deploy.handover import adapter_rule, autoscaler

    if adapter:
        _print([adapter_rule()], output)
        return
    _print([autoscaler(_handover(config, pool, workload, namespace, "hpa", ""))], output)


@app.command()
def dashboard() -> None:
    """A Grafana dashboard of the daemon's metrics, as JSON.

    Examples:

      opsconsole manifests dashboard > opsconsole-dashboard.json
    """
    from opsconsole.deploy.dashboard import dashboard as made

    _print([made()], "json")


def _handover(config: Path | None, pool: str, workload: str, namespace: str, via: str, scaler: str) -> Handover:
    from opsconsole.cluster.workload import workload as named
    from opsconsole.config import load
    from opsconsole.deploy.daemon import KEDA_PORT
    from opsconsole.deploy.handover import Handover

    _named("--namespace", namespace)
    loaded = load(config)
    table = loaded.config.pool.get(pool)
    if table is None:
        known = ", ".join(sorted(loaded.config.pool)) or "none"
        raise UsageError(f"The configuration has no pool {pool!r} (it has: {known}); give --config FILE.")
    if table.via != via:
        raise UsageError(
            f'Pool {pool} says via = "{table.via}": write via = "{via}", or the daemon would scale it as well.'
        )
    found = named(workload, namespace)
    _named("--workload", found.name, _SUBDOMAIN)
    if found.kind is None:
        raise UsageError(f"{workload} is of a custom kind: print it for a deployment and change scaleTargetRef.")
    return Handover(
        pool=pool,
        kind=found.kind,
        name=found.name,
        api_version=found.api_version,
        namespace=namespace,
        minimum=table.minimum,
        maximum=table.maximum,
        scaler=scaler or f"opsconsole.{namespace}.svc:{KEDA_PORT}",
    )


def _named(flag: str, name: str, form: str = _LABEL) -> None:
    """Refuse what the API server would refuse after the first objects were applied."""
    if not re.fullmatch(form, name):
        raise UsageError(f"{flag} {name}: a name there is of lower-case letters, digits and dashes (RFC 1123).")


def _print(objects: list[dict[str, Any]], output: str) -> None:
    import json

    import yaml

    if output == "json":
        listed = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
        typer.echo(json.dumps(listed, indent=2))
    elif output == "yaml":
        typer.echo(yaml.safe_dump_all(objects, sort_keys=False, width=120), nl=False)
    else:
        raise UsageError(f"--output {output}: give yaml or json.")

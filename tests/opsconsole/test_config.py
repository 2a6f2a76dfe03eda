"""The configuration: strength of sources, units, and errors that name where and what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.clock import ManualClock
from opsconsole.commands.config_cmd import TEMPLATE, validate
from opsconsole.config import find, load
from opsconsole.config_pool import CapacityTable, ScheduleTable, StepTimeTable, TierTable
from opsconsole.control.configured import agent_settings, sources
from opsconsole.control.settings import Mode, Role
from opsconsole.errors import ConfigError
from opsconsole.observe.kube import KubeTargets
from opsconsole.observe.prometheus import PrometheusSource
from opsconsole.observe.scrape import ScrapeSource
from opsconsole.observe.sharded import ShardedSource

FILE = """
[agent]
interval = "2s"
[slo.chat]
ttft = "1s"
tpot = "80 ms"
target = "95%"
[pool.Chat-A]
minimum = 2
maximum = 6
slo = ["chat"]
targets = ["10.0.0.7:8000"]
[act]
mode = "off"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.toml"
    file.write_text(FILE)
    return file


def test_units_are_seconds_and_fractions(path: Path) -> None:
    config = load(path, {}).config
    slo = config.slo["chat"]
    assert (config.agent.interval, slo.ttft, slo.target) == (2.0, 1.0, 0.95)
    assert slo.tpot == pytest.approx(0.08)


def test_a_flag_beats_a_variable_beats_the_file(path: Path) -> None:
    env = {"OPSCONSOLE_ACT__MODE": "advise", "OPSCONSOLE_AGENT__INTERVAL": "3s", "OPSCONSOLE_API_KEY": "none of ours"}
    assert load(path, {}).config.act.mode == "off"
    loaded = load(path, env, {"agent.interval": "4s", "agent.fleet": None})
    assert (loaded.config.act.mode, loaded.config.agent.interval) == ("advise", 4.0)
    assert loaded.origins["act.mode"] == "OPSCONSOLE_ACT__MODE"
    assert loaded.origins["agent.interval"] == "--interval"


def test_a_variable_reaches_a_pool_by_its_name_in_capitals(path: Path) -> None:
    env = {"OPSCONSOLE_POOL__CHAT_A__MAXIMUM": "9", "OPSCONSOLE_SOURCES__TARGETS": "a:1, b:2"}
    config = load(path, env).config
    assert (config.pool["Chat-A"].maximum, config.sources.targets) == (9, ("a:1", "b:2"))


def test_the_file_is_found_by_variable_then_here_then_in_the_users_folder(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    own = home / ".config" / "opsconsole" / "config.toml"
    own.parent.mkdir(parents=True)
    assert find({"HOME": str(home)}, here) is None
    own.touch()
    assert find({"HOME": str(home)}, here) == own
    (here / "opsconsole.toml").touch()
    assert find({"HOME": str(home)}, here) == here / "opsconsole.toml"
    assert find({"HOME": str(home), "OPSCONSOLE_CONFIG": "/x.toml"}, here) == Path("/x.toml")


@pytest.mark.parametrize(
    ("text", "env", "flags", "words"),
    [
        ("a =", {}, {}, "fleet.toml is not TOML"),
        ("[agent]\nintervall = 1", {}, {}, "fleet.toml: agent.intervall: is no key here"),
        ("[pool.a]\nminimum = 5\nmaximum = 2", {}, {}, "fleet.toml: pool.a: minimum 5 is above maximum 2"),
        ("[pool.a]\nminimum = -1", {}, {}, "pool.a.minimum: Input should be greater than or equal to 0 (given -1)"),
        ('[pool.a]\nslo = ["x"]', {}, {}, "pool.a.slo names 'x', and there is no [slo.x]"),
        ('[slo.a]\nttft = "fast"', {}, {}, "slo.a.ttft: 'fast' is no duration: write 80ms"),
        ("[slo.a]\ntarget = 0.9", {}, {}, "slo.a: give at least one bound"),
        ('[slo.a]\nttft = 1\ntarget = "101%"', {}, {}, "slo.a.target: Input should be less than 1"),
        ('[[agent.tokens]]\nname = "a"', {}, {}, "agent.tokens.0: token a needs either secret or file"),
        ("", {"OPSCONSOLE_ACT__MODE": "go"}, {}, "OPSCONSOLE_ACT__MODE: act.mode: Input should be 'off'"),
        ("", {"OPSCONSOLE_NO__SUCH": "1"}, {}, "OPSCONSOLE_NO__SUCH: no"),
        ("act = 1", {"OPSCONSOLE_ACT__MODE": "off"}, {}, "sets a key of act, which is no table"),
        ("", {}, {"agent.interval": "0s"}, "--interval: agent.interval: Input should be greater than 0"),
    ],
)
def test_an_error_names_where_it_was_given_and_the_key(
    tmp_path: Path, text: str, env: Mapping[str, str], flags: Mapping[str, Any], words: str
) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path, env, flags)
    assert words in str(caught.value)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text("[agent]\nx = 1\n[act]\ny = 1\n")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert len(str(caught.value).splitlines()) == 2


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read"):
        load(tmp_path / "missing.toml", {})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"binary\.toml cannot be read"):
        load(tmp_path / "binary.toml", {})


def test_a_secret_is_not_in_what_is_shown_of_it(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[[agent.tokens]]\nname = "a"\nsecret = "hunter2hunter2"\n')
    assert "hunter2" not in repr(load(path, {}).config)
    path.write_text('[[agent.tokens]]\nname = "a"\nsecret = "hunter2"\n')
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert "at least 8" in str(caught.value) and "hunter2" not in str(caught.value)


def test_the_template_is_right_and_names_every_key() -> None:
    loaded = load(TEMPLATE, {})
    settings = agent_settings(loaded, {})
    assert settings.mode is Mode.ADVISE and settings.pools[0].name == "default"
    text = TEMPLATE.read_text()
    config = loaded.config
    tables = (config.agent, config.pool["default"], config.pool["default"].thresholds, config.sources, config.act)
    for table in (*(type(table) for table in tables), CapacityTable, ScheduleTable, StepTimeTable, TierTable):
        for key in table.model_fields:
            assert key in text, f"{key} is not in the template"


def test_settings_come_out_as_configured(path: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-the-file\n")
    more = f'[[agent.tokens]]\nname = "ops"\nrole = "operate"\nfile = "{tmp_path}/token"\n'
    path.write_text(FILE.replace("[agent]", f'[agent]\nlisten = "127.0.0.1:9400"\n{"data_dir"} = "{tmp_path}"') + more)
    settings = agent_settings(load(path, {}))
    (pool,) = settings.pools
    assert (pool.limits.minimum, pool.limits.maximum, pool.spec.slos[0].ttft) == (2, 6, 1.0)
    assert settings.listen is not None and (settings.listen.host, settings.listen.port) == ("127.0.0.1", 9400)
    assert (settings.tokens[0].secret, settings.tokens[0].role) == ("from-the-file", Role.OPERATE)
    assert "from-the-file" not in repr(settings)


def test_channels_come_out_with_their_secret_and_without_showing_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    path = tmp_path / "fleet.toml"
    path.write_text(
        f'[[alerts.notify]]\nwebhook = "https://hooks.example/T0K3N"\nbearer_token_file = "{tmp_path}/token"\n'
        '[[alerts.notify]]\nalertmanager = "http://am:9093"\nleast = "critical"\n'
        '[[alerts.notify]]\ncommand = ["page-me", "--now"]\ntimeout = "2s"\n'
    )
    settings = agent_settings(load(path, {}))
    hook, manager, command = settings.alerts.notify
    assert (hook.kind, hook.headers) == ("webhook", (("Authorization", "Bearer s3cret"),))
    assert (manager.kind, manager.url, manager.least) == ("alertmanager", "http://am:9093", "critical")
    assert (command.kind, command.command, command.timeout_s) == ("command", ("page-me", "--now"), 2.0)
    assert "s3cret" not in repr(settings) and "T0K3N" not in repr(settings)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('policy = "clever"', "fleet.toml: pool.p.policy: 'clever' is unknown; use one of dynamo-arima"),
        ('policy = "oracle"', "pool.p.policy: 'oracle' knows the future and runs only in `opsconsole simulate"),
        ('[act]\nbaselines = ["kpa", "bound"]', "act.baselines: 'bound' knows the future"),
        ('via = "keda"', "pool.p.via: give the pool's target as well"),
        ("stabilise_down = 1", "stabilise_down 1 s is shorter than the measurement lag 10 s"),
        ('[alerts]\nmute = ["x"]', "alerts.mute: 'x' is unknown"),
        ("[[alerts.notify]]\nleast = 'info'", "give exactly one of webhook, alertmanager or command"),
        ('[[alerts.notify]]\nwebhook = "a"\ncommand = ["b"]', "give exactly one of"),
        ('[[alerts.notify]]\nalertmanager = "am:9093"', "begins with http:// or https://"),
        ('[[alerts.notify]]\ncommand = ["x"]\nleast = "grave"', "alerts.notify.0.least"),
        ('[act]\nmode = "act"', "act.mode: nothing here can be acted on"),
        ('[agent]\nlisten = "9400"', "agent.listen: '9400' is no HOST:PORT"),
        ('[[agent.tokens]]\nname = "a"\nfile = "/no/such"', "/no/such cannot be read"),
    ],
)
def test_what_names_nothing_is_refused_by_key(tmp_path: Path, more: str, words: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f"[pool.p]\n{more}\n")
    with pytest.raises(ConfigError) as caught:
        agent_settings(load(path, {}))
    assert words in str(caught.value)


async def test_sources_are_made_from_every_kind_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(
        '[pool.a]\ntargets = ["h:1"]\n[pool.b]\nselector = "app=b"\n[sources]\ndns = ["name:2"]\nfiles = ["x.json"]\n'
        'prometheus = { url = "http://p:9090" }\nheaders = { X = "1" }\n'
    )
    made = list(sources(load(path, {}), ManualClock()))
    assert [source.name for source in made] == ["scrape", "prometheus"]
    for source in made:
        await source.close()


async def test_pages_are_read_in_as_many_processes_as_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[sources]\ntargets = ["h:1"]\nshards = 2\n')
    (made,) = sources(load(path, {}), ManualClock())
    assert isinstance(made, ShardedSource)
    await made.close()
    path.write_text("[sources]\nshards = 0\n")
    with pytest.raises(ConfigError, match=r"fleet\.toml: sources\.shards: .*greater than or equal to 1"):
        load(path, {})


async def test_the_cluster_says_which_pods_of_a_prometheus_exist(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[sources]\nprometheus = { url = "http://p:9" }\nkubernetes = { selector = "app=m" }\n')
    scrape, prometheus = sources(load(path, {}), ManualClock())
    assert isinstance(scrape, ScrapeSource) and isinstance(prometheus, PrometheusSource)
    assert prometheus._known() is None  # nothing was listed yet: nobody is a ghost
    cluster = scrape._provider
    assert isinstance(cluster, KubeTargets)
    cluster._pods["ns/a"] = {"metadata": {"name": "a", "namespace": "ns"}}
    cluster._listed.set()
    assert prometheus._known() == {"a"}
    for source in (scrape, prometheus):
        await source.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[sources]\nheaders = { "X A" = "1" }\n', r"fleet\.toml: sources\.headers: 'X A' is no name of a header"),
        ('[sources]\nheaders = { X = "a\\nb" }\n', r"fleet\.toml: sources\.headers: the value of X holds the end"),
        ('[sources]\ntimeout = "0s"\n', r"fleet\.toml: sources\.timeout: "),
        ('[sources]\ntargets = ["ftp://x"]\n', r"fleet\.toml: sources\.targets: 'ftp://x' is not an address"),
        ('[pool.a]\ntargets = ["http://[::1"]\n', r"fleet\.toml: pool\.a\.targets: .* is not an address"),
        ('[sources]\ndns = ["ftp://x"]\n', r"fleet\.toml: sources\.dns: 'ftp://x' is not an address"),
        (
            '[sources]\ntargets = ["h:1"]\nbearer_token_file = "/no/such"\n',
            r"fleet\.toml: sources\.bearer_token_file: The secret in /no/such cannot be read",
        ),
        (
            '[sources]\nprometheus = { url = "http://p:9", bearer_token_file = "/no/such" }\n',
            r"fleet\.toml: sources\.prometheus\.bearer_token_file: The secret in /no/such cannot be read",
        ),
        (
            '[sources]\nprometheus = { url = "ftp://p" }\n',
            r"fleet\.toml: sources\.prometheus\.url: 'ftp://p' is not an address: give http://HOST:PORT or HOST:PORT",
        ),
        ('[sources]\nfiles = ["/no/such.json"]\n', r"fleet\.toml: sources\.files: there is no file /no/such\.json"),
        (
            '[sources]\ntargets = ["h:1"]\nca_file = "/no/ca.pem"\n',
            r"fleet\.toml: sources\.ca_file: there is no file /no/ca\.pem",
        ),
        (
            '[sources]\ntargets = ["h:1"]\nca_file = "fleet.toml"\n',
            r"fleet\.toml: sources\.ca_file: no certificate can be read from fleet\.toml",
        ),
        (
            '[sources]\ntargets = ["h:1"]\nclient_cert = "/no/me.pem"\n',
            r"fleet\.toml: sources\.client_cert: no certificate can be read from /no/me\.pem: No such file",
        ),
    ],
)
def test_a_source_that_cannot_be_is_told_by_file_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        validate(path)


def test_no_source_at_all_is_said(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.touch()
    with pytest.raises(ConfigError, match="names no source"):
        list(sources(load(path, {}), ManualClock()))


def test_a_password_in_an_address_is_not_in_what_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(
        '[sources]\ntargets = ["http://u:hunter2@h:1/m", "u:hunter2@h:2", "h:3"]\n'
        'prometheus = { url = "https://u:hunter2@prom/" }\n'
    )
    for form in ("text", "json"):
        shown = CliRunner().invoke(app, ["config", "show", "--config", str(path), "--output", form]).stdout
        assert "hunter2" not in shown and "http://(hidden)@h:1/m" in shown and "h:3" in shown
        assert "https://(hidden)@prom/" in shown and "(hidden)@h:2" in shown


@pytest.mark.parametrize(
    ("address", "url", "headers"),
    [
        ("prometheus:9090", "http://prometheus:9090", ()),
        ("https://h/prom/", "https://h/prom/", ()),
        ("https://u:s3cret@h", "https://h", (("Authorization", "Basic dTpzM2NyZXQ="),)),
    ],
)
async def test_a_prometheus_is_asked_by_its_address_and_the_password_in_it_is_shown_nowhere(
    tmp_path: Path, address: str, url: str, headers: tuple[tuple[str, str], ...]
) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f'[sources]\nprometheus = {{ url = "{address}" }}\n')
    (source,) = sources(load(path, {}), ManualClock())
    assert isinstance(source, PrometheusSource)
    options = source.client._options
    assert (options.url, options.headers) == (url, headers) and "s3cret" not in repr(options)
    await source.close()

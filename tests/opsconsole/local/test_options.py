"""What `up` makes of its options, of the machine, and of loads; each refusal is a sentence."""

from __future__ import annotations

import socket
from pathlib import Path
from random import Random
from typing import Any

import pytest

from opsconsole.bench.bounds import Bounds
from opsconsole.commands import up_options
from opsconsole.errors import UsageError
from opsconsole.local import machine, weights
from opsconsole.local.agent import agent_settings
from opsconsole.local.loads import check_load, draw_load
from opsconsole.local.processes import reserve_port, running_streams, worker_args, worker_environment
from opsconsole.local.settings import Measured, UpSettings, check_data_dir, default_data_dir, load_settings


def asked(folder: Path, **changed: Any) -> dict[str, Any]:
    usual = {
        "output": "text", "host": "127.0.0.1", "api_key": "", "no_tui": True, "seconds": "", "load": "", "seed": 1,
        "workers": "1:2", "devices": "cpu", "model": str(folder), "data_dir": str(folder / "d"), "port": 8000,
        "slo": "", "policy": "reactive", "stabilise": "10s", "drain_deadline": "60s", "engine_arg": [],
        "capture": False, "day": "4m", "start_delay": "0s", "sustained": 0.0,
    }  # fmt: skip
    return {**usual, **changed}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("o")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"workers": "2:1"}, "at most the maximum"),
        ({"workers": "0:1"}, "at least 1"),
        ({"workers": "many"}, "MIN:MAX"),
        ({"output": "xml"}, "text or json"),
        ({"host": "0.0.0.0"}, "--api-key"),
        ({"load": "storm"}, "steady, diurnal, burst"),
        ({"seconds": "90"}, "a number and a unit"),
        ({"slo": "ttft=1"}, "unit"),
        ({"day": "10s"}, "60s or more"),
        ({"stabilise": "1s"}, "shorter than two readings of the workers; give 2s or more"),
        ({"policy": "dice"}, "--policy: 'dice' is unknown; use one of dynamo-arima"),
        ({"policy": "oracle"}, "--policy: 'oracle' knows the future and runs only in `opsconsole simulate backtest`"),
        ({"model": "/no/such/model"}, "does not exist"),
        ({"data_dir": "/tmp/" + "x" * 120}, "too long"),
        ({"data_dir": "/proc/nowhere"}, "cannot be used"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(folder: Path, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        up_options.prepare(asked(folder, **changed))


def test_options_become_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_options, "usable_cores", lambda: 8)
    made = up_options.prepare(asked(folder, workers="2:3", slo="ttft=1s,tpot=80ms", seconds="90s", load="burst"))
    assert (made.settings.minimum, made.settings.maximum, made.settings.threads) == (2, 3, 2)
    assert made.settings.bounds == Bounds(ttft=1.0, tpot=0.08)
    assert (made.options.seconds, made.options.load, made.wants_screen) == (90.0, "burst", False)


def test_without_a_terminal_and_without_a_wish_it_is_a_bounded_demo(folder: Path) -> None:
    made = up_options.prepare(asked(folder, no_tui=False))
    assert (made.options.load, made.options.seconds, made.wants_screen) == ("burst", 90.0, False)
    endless = up_options.prepare(asked(folder, no_tui=True))
    assert (endless.options.load, endless.options.seconds) == (None, None)


def test_workers_are_bounded_by_the_devices(folder: Path) -> None:
    made = up_options.prepare(asked(folder, workers="3:4", devices="0,1"))
    assert (made.settings.minimum, made.settings.maximum) == (2, 2)


def test_settings_survive_the_file_they_travel_in_and_only_the_owner_reads_it(folder: Path) -> None:
    measured = Measured(Bounds(ttft=1.0), 2.5, 0.1, 0.02)
    settings = UpSettings(str(folder), "r", "m", "n", devices=("0",), bounds=Bounds(tpot=0.1), measured=measured)
    settings.save(folder / "up.json")
    assert load_settings(folder / "up.json") == settings
    assert (folder / "up.json").stat().st_mode & 0o077 == 0


def test_the_data_folder_is_private_and_stands_under_the_xdg_state(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    assert default_data_dir() == folder / "opsconsole"
    made = check_data_dir(default_data_dir())
    assert made.stat().st_mode & 0o077 == 0 and (made / "logs").is_dir()
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(folder))
    assert default_data_dir() == folder / ".local" / "state" / "opsconsole"


@pytest.mark.parametrize(
    ("visible", "files", "named", "found"),
    [
        (None, [], None, ()),
        (None, ["nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm"], None, ("0", "1", "10")),
        ("1", ["nvidia0", "nvidia1"], None, ("1",)),
        ("", ["nvidia0"], None, ()),
        ("-1", ["nvidia0"], None, ()),
        (None, ["nvidia0"], "cpu", ()),
        (None, [], "0, 2", ("0", "2")),
    ],
)
def test_devices_are_those_one_may_see(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    files: list[str],
    named: str | None,
    found: tuple[str, ...],
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for name in files:
        (tmp_path / name).touch()
    assert machine.find_devices(named, tmp_path) == found


@pytest.mark.parametrize(("cores", "maximum", "threads"), [(2, 2, 1), (2, 1, 2), (8, 3, 2), (1, 4, 1)])
def test_threads_are_shared_out_for_the_most_workers_there_may_be(cores: int, maximum: int, threads: int) -> None:
    assert machine.threads_per_worker(cores, maximum) == threads


def test_a_worker_is_told_its_threads_its_device_and_its_bounds_and_the_token_is_not_on_its_command_line() -> None:
    settings = UpSettings("/d", "r", "/m.gguf", "n", threads=3, router_token="secret", engine_args=("--chunk", "64"))
    args = worker_args(settings, 7, "ttft=1s,target=95%")
    assert args[:3] == ["serve", "--fd", "7"] and args[-2:] == ["--chunk", "64"]
    assert args[args.index("--threads") + 1] == "3" and args[args.index("--slo") + 1] == "default:ttft=1s,target=95%"
    assert "secret" not in " ".join(args)
    environment = worker_environment(settings, "1")
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["OMP_NUM_THREADS"]) == ("1", "3")
    assert "CUDA_VISIBLE_DEVICES" not in worker_environment(settings, None)


def test_a_workers_port_is_taken_from_the_decision_on_and_refuses_until_it_listens() -> None:
    with reserve_port() as bound:
        place = bound.getsockname()
        for reuse in (0, 1):
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
                with pytest.raises(OSError, match="in use"):
                    other.bind(place)
        with pytest.raises(ConnectionRefusedError), socket.create_connection(place, timeout=5):
            pass


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"), ("localhost", "http://localhost:8000"), ("::1", "http://[::1]:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"), ("::", "http://[::1]:8000"), ("fd00::7", "http://[fd00::7]:8000"),
    ],
)  # fmt: skip
def test_users_are_told_an_address_that_works(host: str, url: str) -> None:
    assert UpSettings("/d", "r", "m", "n", host=host).url == url


def test_streams_are_read_from_the_page_and_unknown_is_not_zero() -> None:
    page = 'vllm:num_requests_running{e="0"} 2.0\nvllm:num_requests_waiting{e="0"} 3\nopsconsole:streams_running 4\n'
    assert running_streams(page) == 5
    assert running_streams("up 1\n") is None
    assert running_streams("vllm:num_requests_running NaN-ish\n") is None


def test_the_agent_decides_by_what_was_measured() -> None:
    measured = Measured(Bounds(ttft=1.0, tpot=0.08, target=0.9), 2.5, 0.1, 0.02)
    settings = agent_settings(UpSettings("/d", "r", "m", "n", minimum=1, maximum=2, measured=measured))
    (pool,) = settings.pools
    assert pool.capacity is not None and pool.capacity.request_rate == 2.5
    assert (pool.spec.slos[0].ttft, pool.spec.slos[0].target) == (1.0, 0.9)
    assert (pool.limits.minimum, pool.limits.maximum, pool.limits.stabilise_down_s) == (1, 2, 10.0)
    assert settings.options.window_s == settings.options.short_s == 10.0
    calm = agent_settings(UpSettings("/d", "r", "m", "n", stabilise_down=300.0))
    assert (calm.options.window_s, calm.options.short_s, calm.options.long_s) == (60.0, 300.0, 3600.0)


def test_built_in_loads_mean_the_same_on_every_machine() -> None:
    for sustained in (2.0, 40.0):
        burst = draw_load("burst", sustained, 500.0, Random(1))
        shares = [
            sum(low <= a.at < high for a in burst) / (high - low) / sustained
            for low, high in ((0, 20), (20, 50), (50, 500))
        ]
        assert shares == pytest.approx([0.5, 1.4, 0.1], rel=0.35)
    assert max(a.at for a in draw_load("burst", 5.0, 30.0, Random(1))) < 30.0
    assert len(draw_load("steady", 10.0, 100.0, Random(2))) == pytest.approx(600, rel=0.15)
    assert len(draw_load("diurnal", 10.0, 240.0, Random(3))) == pytest.approx(0.8 * 2400, rel=0.15)


def test_a_file_of_arrivals_is_a_load_too(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("t_seconds,requests\n" + "".join(f"{t},5\n" for t in range(0, 100, 10)))
    assert check_load(str(trace)) == str(trace)
    assert len(draw_load(str(trace), 5.0, 100.0, Random(1))) == pytest.approx(300, rel=0.2)


def test_the_default_model_is_found_without_importing_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "fake_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="make install"):
        weights.default_weights("fake_weights")
    (package / "model.gguf").touch()
    assert weights.default_weights("fake_weights") == package / "model.gguf"
    with pytest.raises(UsageError, match="--model"):
        weights.default_weights("no_such_package_at_all")


def test_a_model_is_named_by_its_file_or_folder(tmp_path: Path) -> None:
    (tmp_path / "tiny.Q4_1.gguf").touch()
    assert weights.find_model(str(tmp_path / "tiny.Q4_1.gguf")).name == "tiny.Q4_1"
    assert weights.find_model(str(tmp_path)).name == tmp_path.name


def test_a_diurnal_load_is_met_by_forecast_on_its_own_days_unless_another_law_is_named(folder: Path) -> None:
    made = up_options.prepare(asked(folder, load="diurnal", day="2m", policy=""))
    assert (made.settings.policy, made.settings.time_scale, made.options.day) == ("predictive", 720.0, 120.0)
    assert not made.settings.has_past, "what other loads were is no history of this one"
    made = up_options.prepare(asked(folder, load="diurnal", policy="reactive"))
    assert (made.settings.policy, made.settings.time_scale) == ("reactive", 360.0)
    made = up_options.prepare(asked(folder, policy="", start_delay="20s"))
    assert (made.settings.policy, made.settings.time_scale, made.settings.has_past) == ("reactive", 1.0, True)
    assert made.settings.start_delay == 20.0


def test_a_shorter_day_comes_round_sooner() -> None:
    arrivals = draw_load("diurnal", 10.0, 120.0, Random(3), day=60.0)
    by_half_minute = [sum(start <= a.at < start + 30 for a in arrivals) for start in (0, 15, 60, 75)]
    assert by_half_minute[1] > 1.5 * by_half_minute[0] and by_half_minute[3] > 1.5 * by_half_minute[2]

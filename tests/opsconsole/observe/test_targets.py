"""Who is asked: addresses as people write them, names in DNS, and files that come, change, break and go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from opsconsole.clock import ManualClock
from opsconsole.errors import ConfigError
from opsconsole.observe.scrape import canonical_url
from opsconsole.observe.targets import DnsTargets, FileTargets, JoinedTargets, StaticTargets, as_url, target_at


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("10.0.0.7:8000", "http://10.0.0.7:8000/metrics"),
        ("http://host:8000", "http://host:8000/metrics"),
        ("http://host:8000/", "http://host:8000/metrics"),
        ("https://host/v1/metrics", "https://host/v1/metrics"),
        ("[fd00::7]:8000", "http://[fd00::7]:8000/metrics"),
        (" host:80 ", "http://host:80/metrics"),
    ],
)
def test_an_address_means_its_metrics_page(address: str, url: str) -> None:
    assert as_url(address) == url


@pytest.mark.parametrize("address", ["ftp://host/x", "http://", "host:port", "http://host:99999", ""])
def test_what_is_no_address_is_refused_with_words(address: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        as_url(address)


def test_a_replica_is_named_by_its_address_and_never_by_its_password() -> None:
    secret = target_at("http://user:s%40cret@host:8000")
    assert (secret.replica.name, secret.url, secret.replica.url) == ("host:8000", *["http://host:8000/metrics"] * 2)
    assert dict(secret.headers)["Authorization"] == "Basic dXNlcjpzQGNyZXQ="
    assert "cret" not in repr(secret)
    assert target_at("http://host:8000/b/metrics").replica.name == "host:8000/b/metrics"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://Host:80/metrics", "http://host/metrics/"),
        ("https://h:443/m", "https://h/m"),
    ],
)
def test_two_spellings_of_an_address_are_one(one: str, other: str) -> None:
    assert canonical_url(one) == canonical_url(other)


def test_different_queries_are_different_addresses() -> None:
    one, other = "http://h/m?model=a", "http://h/m?model=b"
    assert canonical_url(one) != canonical_url(other)
    assert target_at(one).replica.name != target_at(other).replica.name


async def test_every_address_behind_a_name_is_a_replica() -> None:
    clock = ManualClock()
    answers: list[Sequence[str] | OSError] = [["10.0.0.1", "10.0.0.2"], OSError("SERVFAIL"), ["10.0.0.2", "fd00::3"]]

    def resolver(host: str, port: int) -> Sequence[str]:
        assert (host, port) == ("vllm.svc", 8000)
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    targets = DnsTargets("vllm.svc:8000", clock, every_s=10.0, resolver=resolver)
    first = await targets.targets(clock.now())
    assert [t.url for t in first] == ["http://10.0.0.1:8000/metrics", "http://10.0.0.2:8000/metrics"]
    assert dict(first[0].headers)["Host"] == "vllm.svc:8000"
    assert await targets.targets(clock.now()) == first and len(answers) == 2  # not asked again yet
    await clock.advance(11.0)
    assert await targets.targets(clock.now()) == first  # a failure leaves what was known
    assert targets.status().error_kind == "dns" and targets.status().age == pytest.approx(11.0)
    await clock.advance(11.0)
    assert [t.replica.name for t in await targets.targets(clock.now())] == ["10.0.0.2:8000", "[fd00::3]:8000"]
    assert targets.status().ok
    await targets.close()


async def test_a_file_of_targets_is_read_again_when_it_changes_and_kept_when_it_breaks(tmp_path: Path) -> None:
    path, clock = tmp_path / "targets.json", ManualClock()
    targets = FileTargets(path, clock)
    assert await targets.targets(0.0) == ()
    assert targets.status().error_kind == "gone"
    labels = {"pool": "chat", "node": "n1", "__metrics_path__": "/v1/metrics", "__scheme__": "https", "role": "decode"}
    path.write_text(json.dumps([{"targets": ["a:1", "b:2"], "labels": labels}, {"targets": ["c:3"]}]))
    found = await targets.targets(1.0)
    assert [t.url for t in found] == ["https://a:1/v1/metrics", "https://b:2/v1/metrics", "http://c:3/metrics"]
    assert (found[0].replica.pool, found[0].replica.node, found[0].replica.role) == ("chat", "n1", "decode")
    assert found[2].replica.pool == "default"
    for broken in ("{", '{"targets": 3}', '[{"targets": "a:1"}]', '[{"targets": ["ftp://x"]}]'):
        path.write_text(broken)
        assert await targets.targets(2.0) == found, broken
        assert not targets.status().ok and str(path) in (targets.status().error or "")
    path.write_text("[]")
    assert await targets.targets(3.0) == ()
    assert targets.status().ok


async def test_yaml_files_of_targets_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "targets.yml"
    path.write_text("- targets: [a:1]\n  labels: {job: vllm}\n")
    assert [t.replica.pool for t in await FileTargets(path, ManualClock()).targets(0.0)] == ["vllm"]
    path.write_text("- targets: [a:1\n")
    broken = FileTargets(path, ManualClock())
    assert await broken.targets(0.0) == () and not broken.status().ok


async def test_joined_providers_give_all_targets_and_the_worst_status(tmp_path: Path) -> None:
    both = JoinedTargets([StaticTargets([target_at("a:1")]), FileTargets(tmp_path / "none.json", ManualClock())])
    assert [t.replica.name for t in await both.targets(0.0)] == ["a:1"]
    assert not both.status().ok
    await both.close()


async def test_the_password_of_a_name_in_dns_is_a_header_of_each_replica_and_shown_nowhere() -> None:
    targets = DnsTargets("https://u:s3cret@vllm.svc:8000", ManualClock(), resolver=lambda host, port: ["10.0.0.1"])
    (found,) = await targets.targets(0.0)
    assert found.url == "https://10.0.0.1:8000/metrics"
    assert dict(found.headers) == {"Host": "vllm.svc:8000", "Authorization": "Basic dTpzM2NyZXQ="}
    assert "s3cret" not in repr(found) + repr(targets.status())
    await targets.close()

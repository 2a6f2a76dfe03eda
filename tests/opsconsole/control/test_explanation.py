"""What is printed is what the rules said."""

from __future__ import annotations

import io
import json
import logging

from opsconsole.control.explanation import explain
from opsconsole.control.logs import JsonLines, set_up
from opsconsole.control.words import decision_text, plan_text
from opsconsole.domain.records import DecisionView, JournalEntry, Plan, PlanKind, RuleTrace

VIEW = DecisionView(
    1000.0,
    "chat",
    4,
    3,
    "consolidate",
    "three are enough",
    (
        RuleTrace("queue", "waiting 0 requests", 2, "lowers", "queue is empty"),
        RuleTrace("slo", "", None, "off", "no SLO"),
    ),
    ("r3",),
    {"hpa-queue": 2},
)
SITUATION = {
    "want": 4,
    "lead_s": 61.0,
    "demand": {"request_rate": 2.5},
    "replicas": [{"name": "r0", "state": "ok", "waiting": 1, "kv_usage": 0.25}, {"name": "r1", "state": "stale"}],
}


def test_every_part_is_told() -> None:
    delta = {"in": {"rows": {"set": {"asked": [[1.0]]}}}, "del": ["old"]}
    after = [JournalEntry(1, 1001.0, "outcome", "chat", "scale chat from 4 to 3 done")]
    assert list(explain(VIEW, SITUATION, delta, after)) == [
        "chat: 4 -> 3 (consolidate)",
        "  three are enough",
        "  to go: r3",
        "rules, in the order they were asked:",
        "  queue          lowers, wants 2",
        "                 queue is empty",
        "                 from waiting 0 requests",
        "  slo            off",
        "                 no SLO",
        "others would have said: hpa-queue 2",
        "what was seen: 2 replicas, 4 wanted, lead 61 s",
        "  demand: 2.5 requests/s arrive",
        "  not every live replica answered",
        "  r0               ok         waiting 1, kv_usage 0.25",
        "  r1               stale      nothing known",
        "memory changed: -old, rows.asked",
        "what came of it:",
        "  scale chat from 4 to 3 done",
    ]


def test_a_situation_of_another_version_is_read_as_far_as_it_goes() -> None:
    lines = list(explain(DecisionView(1.0, "chat", 2, 2, "hold", "stale", held=True), {"replicas": None}))
    assert lines[0] == "chat: stays at 2 (hold, held)"
    assert "  demand: unknown" in lines


def test_lines_of_the_journal_read_well() -> None:
    assert decision_text(VIEW) == "chat 4 -> 3 (consolidate): three are enough, r3 to go"
    plan = Plan("p", PlanKind.DRAIN, "chat", replicas=("r1", "r2"), reason="old node")
    assert plan_text(plan) == "drain r1, r2: old node"


def test_a_log_line_is_one_json_object_whatever_its_text_holds() -> None:
    stream = io.StringIO()
    set_up(True, stream)
    log = logging.getLogger("opsconsole.test")
    try:
        log.warning('a "page" said\n%s', "\x1b[31m")
        try:
            raise ValueError("boom")
        except ValueError:
            log.exception("failed")
    finally:
        logging.getLogger("opsconsole").handlers.clear()
        logging.getLogger("opsconsole").propagate = True
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["from"], first["text"]) == ("warning", "test", 'a "page" said\n\x1b[31m')
    assert "ValueError: boom" in second["trace"]
    assert isinstance(JsonLines(), logging.Formatter)

"""What an identifier says of the value behind it: weak evidence, used for parameters, attributes and template holes.

Knows no language. The trap: `max_iterations` is a constant though it contains `iterations`; words that fix a value win.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from opsconsole.lint.frontends.ir import Volatility as V


class Meaning(NamedTuple):
    """What a name suggests: class, rule, word; `growing` for histories, `stable` for text that does not change."""

    volatility: V
    code: str
    word: str
    growing: bool = False
    stable: bool = False


def words(text: str) -> frozenset[str]:
    """A set of words written as one text."""
    return frozenset(text.split())


_FIXING = words("max min limit default total fmt format timeout zone timezone tz version ")
_HISTORY = words("history messages conversation transcript dialog dialogue turns msgs convo memory_messages ")
_STABLE = words(
    "rules instructions instruction policy policies guidelines persona preamble guide manual handbook "
    "boilerplate few_shots fewshot constitution playbook schema "
)
_STABLE_PHRASES = words(
    "system_prompt base_prompt system_message prompt_template static_prompt system_text base_system "
)
_TIME = words("now time timestamp datetime clock utcnow currenttime ")
_DATE = words("date today day weekday ")
_IDS = words("uuid guid nonce traceparent ulid cachebuster ")
_ID_OWNERS = words(
    "request req trace span correlation run message msg invocation call job event session ticket order task "
    "transaction execution "
)
_PEOPLE = words(
    "user username customer tenant account email member patient employee student org organization "
    "organisation company nickname fullname "
)
_PLACES = words("cwd workdir workspace hostname host pid branch tmpdir tempdir sandbox worktree workingdir ")
_COUNTERS = words(
    "iteration iter turn step counter attempt round remaining budget progress percent pct retries count usage "
)
_DOCS = words(
    "context chunks docs documents passages memories memory snippets retrieved facts sources knowledge "
    "passage chunk hits evidence contexts recalled "
)
_INPUT = words("q question query utterance request_text userinput input message userquery msg ")

_PLACE_PHRASES = words(
    "working_dir working_directory git_status tmp_dir temp_dir temp_path work_dir project_path project_root "
    "current_dir current_directory "
)
_INPUT_PHRASES = words("user_input user_message user_prompt user_query user_question user_text user_request")
_DOC_PHRASES = words("search_results retrieved_docs relevant_docs user_memories")
_PEOPLE_PHRASES = words("conversation_id thread_id chat_id first_name full_name display_name")
_COUNTER_PHRASES = words(
    "tokens_used turn_number n_turns num_turns token_count tokens_left turn_index turn_count step_number "
    "iteration_number"
)
_TEXT_WORDS = words("str string iso utc text now line ms ts")


def split(name: str) -> list[str]:
    """Words of an identifier in snake, camel or kebab case."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


@lru_cache(maxsize=8192)
def meaning(name: str) -> Meaning | None:
    """What a name suggests, or None."""
    parts = split(name.rpartition(".")[2] or name)
    if not parts:
        return None
    joined, last, known = "_".join(parts), parts[-1], set(parts)
    if joined in _STABLE_PHRASES or last in _STABLE:
        return Meaning(V.CONST, "", name, stable=True)
    if known & _FIXING:
        return None
    if known & _HISTORY and last in _HISTORY | {"list", "log", "so_far"}:
        return Meaning(V.SESSION, "", name, growing=True)
    return _volatile(name, joined, last, known)


def _volatile(name: str, joined: str, last: str, known: set[str]) -> Meaning | None:
    if (last in ("id", "ids", "hex") and known & _ID_OWNERS) or known & _IDS:
        return Meaning(V.REQUEST if "session" not in known else V.SESSION, "PX103", name)
    if joined in _PLACE_PHRASES or known & _PLACES:
        return Meaning(V.SESSION, "PX105", name)
    if joined in _INPUT_PHRASES:
        return Meaning(V.TURN, "PX109", name)
    if joined in _DOC_PHRASES or known & _DOCS:
        return Meaning(V.TURN, "PX107", name)
    if known & _PEOPLE or joined in _PEOPLE_PHRASES:
        return Meaning(V.USER, "PX104", name)
    if known & _TIME and last in _TIME | _TEXT_WORDS:
        return Meaning(V.REQUEST, "PX101", name)
    if last in _DATE or (known & _DATE and last in _TEXT_WORDS):
        return Meaning(V.DAY, "PX102", name)
    if last in _COUNTERS or joined in _COUNTER_PHRASES:
        return Meaning(V.TURN, "PX106", name)
    return Meaning(V.TURN, "PX109", name) if last in _INPUT else None

"""PX9xx: about the run itself: unused ignores, unreadable records, estimates. Words only."""

from __future__ import annotations

from opsconsole.lint.rules.rule import E_, I_, W_, N, Rule, S

_PLAIN = ("-", "-")

RULES = (
    Rule(
        "PX900",
        "unused-ignore",
        W_,
        S,
        "A `px: ignore` comment silences nothing.",
        "It will hide the next real finding.",
        "# px: ignore[PX101] moved",
        "(removed)",
        "Remove the comment.",
        "Reported only for codes that this run checks.",
    ),
    Rule(
        "PX901",
        "unreadable-record",
        W_,
        N,
        "A record, file or template could not be read; the rest was analysed.",
        "What is not read is not checked.",
        *_PLAIN,
        "Repair or exclude it. More bad records than `max-bad-records` (a share) end the run with exit code 2.",
        "-",
    ),
    Rule(
        "PX902",
        "estimated-tokens",
        I_,
        N,
        "Token counts are estimated from characters.",
        "Good to about a tenth; give `--tokenizer` for exact counts.",
        *_PLAIN,
        "`--tokenizer tokenizer.json` or the URL of an engine with `/tokenize`.",
        "A note, not a finding.",
    ),
    Rule(
        "PX903",
        "too-few-requests",
        I_,
        N,
        "Fewer than three requests share a prompt: too few to tell what changes.",
        "No verdict is made from one or two requests.",
        *_PLAIN,
        "Give a longer log.",
        "A note, not a finding.",
    ),
    Rule(
        "PX905",
        "invalid-configuration",
        E_,
        N,
        "The configuration holds an unknown key, a wrong type or a pattern that is no regular expression.",
        "A setting that is not understood would silently check something else.",
        *_PLAIN,
        "Correct the key or the value; the message names file and line. The run ends with exit code 2.",
        "-",
    ),
    Rule(
        "PX904",
        "truncated-log-prompt",
        I_,
        N,
        "The log cut its prompts (for example by `--max-log-len`).",
        "The head can be compared; what follows the cut is unknown.",
        *_PLAIN,
        "Log whole prompts for the time of the check.",
        "A note, not a finding.",
    ),
)

"""PX3xx: a conversation that is not append-only. Words only."""

from __future__ import annotations

from opsconsole.lint.rules.rule import E_, I_, W_, N, Rule, U

RULES = (
    Rule(
        "PX301",
        "history-rewritten",
        E_,
        N,
        "An earlier message of a conversation changed between turns.",
        "Everything behind the changed message is prefilled again, at every such turn.",
        "turn 2 trims the tool result of turn 1",
        "trim a result when it enters the history, not later",
        "Make the history append-only; do clean-ups in rare, large steps.",
        "One compaction in a long conversation is below the threshold and is not reported.",
    ),
    Rule(
        "PX302",
        "sliding-window-drop",
        W_,
        N,
        "The oldest messages are dropped at each turn.",
        "Each drop moves all later messages, so the history is prefilled again at every turn.",
        "messages = [system, *history[-20:]]",
        "drop the oldest half when the window is full, then append again",
        "Drop blocks rarely instead of one message each turn, or summarise.",
        "No fix: what may be forgotten is the program's decision.",
    ),
    Rule(
        "PX303",
        "reasoning-inconsistent",
        W_,
        N,
        "Reasoning text is present in a turn when it is new and absent in the next request (or the reverse).",
        "The answer that was just cached no longer matches; everything since is computed again.",
        "assistant: <think>...</think>Done  then  assistant: Done",
        "keep it for the whole conversation, or never send it",
        "Strip reasoning before the first time a message is sent, or keep it as the engine's template does.",
        "Some templates strip it on purpose (PX403); then nothing sent can help.",
    ),
    Rule(
        "PX304",
        "system-not-first",
        W_,
        U,
        "A stable system message stands behind messages that change.",
        "Its text would be shared by all requests if it stood first.",
        "messages=[*history, system, user]",
        "messages=[system, *history, user]",
        "Put stable system text first.",
        "A late reminder that is meant to be late costs what it costs; ignore it with a reason.",
    ),
    Rule(
        "PX306",
        "ephemeral-block-removed-next-turn",
        I_,
        N,
        "A block is glued to the newest user turn and removed from it in the next request.",
        "The previous turn is recomputed once each time; small while the block is last, and it grows with the answer.",
        "user: [memory: ...]\\nChapter 1.  then  user: Chapter 1.",
        "keep the block in the turn it was sent with",
        "Persist the block with its turn.",
        "Informational: often the cheaper of two evils.",
    ),
)

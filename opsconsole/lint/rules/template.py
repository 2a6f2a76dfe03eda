"""PX4xx: what a chat template or a request option does to the prefix. Words only."""

from __future__ import annotations

from opsconsole.lint.rules.rule import I_, W_, N, Rule, U

RULES = (
    Rule(
        "PX401",
        "template-calls-clock",
        I_,
        U,
        "The chat template prints the current time (info for a day, error for anything finer).",
        "The clock stands at the head of every prompt rendered by it.",
        '{{ strftime_now("%d %b %Y") }}',
        "{{ date_string }}   (passed by the server, pinned per deployment)",
        "Pass `date_string` through chat_template_kwargs, or edit the template.",
        "Found by rendering under two clocks; a clock behind a branch that no test conversation takes stays unseen.",
    ),
    Rule(
        "PX402",
        "template-moves-content",
        W_,
        N,
        "The template prints something (tools, system text) at a place that moves with each turn.",
        "The previous turn's text is not a prefix of the next turn's.",
        "{% if tools and m == users[-1] %}...{% endif %}",
        "print tools once, before the first message",
        "Use a template that prints tools at the front, where the model was trained for it.",
        "The model may have been trained with this layout; moving tools can cost quality.",
    ),
    Rule(
        "PX403",
        "template-strips-thinking",
        I_,
        N,
        "The template removes reasoning from earlier turns.",
        "The turn just generated changes when the next user turn arrives.",
        "{% if loop.index0 > last_query %}{{ m.reasoning }}{% endif %}",
        "-",
        "Nothing to do in prompts; know that the last answer is prefilled again.",
        "Informational.",
    ),
    Rule(
        "PX404",
        "request-option-in-prefix",
        I_,
        N,
        "A request option (effort, thinking, response_format, tool_choice) is printed near the head of the prompt.",
        "Changing it between requests is a new prefix. A warning where a log shows that it varies.",
        "reasoning_effort: low  then  high, in one conversation",
        "one value per conversation",
        "Keep the option fixed per family, or route by it.",
        "Whether an option enters the prefix depends on the template or vendor.",
    ),
)

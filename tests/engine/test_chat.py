"""Templates of models, in the sandbox."""

from __future__ import annotations

import pytest

from engine.chat import ChatTemplate, ChatTemplateError

CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HELLO = [{"role": "user", "content": "Hi {{ 7 * 7 }}"}]


def test_messages_become_the_models_own_format_and_content_is_data() -> None:
    assert ChatTemplate(CHATML).render(HELLO) == "<|im_start|>user\nHi {{ 7 * 7 }}<|im_end|>\n<|im_start|>assistant\n"
    assert not ChatTemplate(CHATML).render(HELLO, add_generation_prompt=False).endswith("assistant\n")


def test_special_texts_and_filters_are_there() -> None:
    template = ChatTemplate("{{ bos_token }}{{ messages[0] | tojson }}{{ eos_token }}", "<s>", "</s>")
    assert template.render([{"role": "user", "content": "é"}]) == '<s>{"role": "user", "content": "é"}</s>'


def test_a_template_may_refuse_messages() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        template.render(HELLO)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append({}) }}",
        "{% include '/etc/passwd' %}",
        "{{ cycler.__init__.__globals__ }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    with pytest.raises(ChatTemplateError):
        ChatTemplate(source).render(HELLO)


def test_a_template_that_does_not_compile_says_so() -> None:
    with pytest.raises(ChatTemplateError, match="does not compile"):
        ChatTemplate("{% for %}")

from __future__ import annotations

import pytest

from heliograph.query.context.format import (
    builtin_prompt,
    count_prompt_tokens,
    drops_user_prompt,
    show_prompt,
    system_prompt,
)
from heliograph.text.tokens import count_tokens

from ..world import plan


@pytest.mark.parametrize("mode", ["mix", "naive"])
def test_builtin_prompt_holds_context_form_and_instructions(mode: str) -> None:
    text = system_prompt(plan(mode=mode, response_type="One Word", user_prompt="Rhyme $5."), "CONTEXT $x {y}")
    assert "CONTEXT $x {y}" in text
    assert "One Word" in text
    assert "Rhyme $5." in text
    assert "$context_data" not in text


def test_mode_without_a_graph_has_its_own_prompt() -> None:
    assert builtin_prompt(plan(mode="naive")) != builtin_prompt(plan(mode="local"))


def test_empty_form_falls_back_to_paragraphs() -> None:
    assert "Multiple Paragraphs" in system_prompt(plan(response_type=""), "")


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("C={context_data} R={response_type} U={user_prompt}", "C=ctx R=form U=rhyme"),
        ("{{literal}} {context_data}", "{literal} ctx"),
        ("{content_data}!", "ctx!"),
        ("$context_data and ${response_type}", "ctx and form"),
        ('Reply {"a": {"b": 1}} from {context_data}', 'Reply {"a": {"b": 1}} from ctx'),
        ("a stray { brace and {context_data}", "a stray { brace and ctx"),
        ("{unknown} {context_data} {0} {}", "{unknown} ctx {0} {}"),
        ("{context_data.__class__} {context_data}", "{context_data.__class__} ctx"),
        ("{context_data:>99999999} $context_data", "{context_data:>99999999} ctx"),
        ("costs $5 {context_data}", "costs $5 ctx"),
        ("{history}|{context_data}", "user: hi|ctx"),
    ],
)
def test_own_prompt_is_filled_in(template: str, filled: str) -> None:
    made = plan(
        system_prompt=template,
        response_type="form",
        user_prompt="rhyme",
        conversation_history=[{"role": "user", "content": "hi"}],
    )
    assert system_prompt(made, "ctx") == filled


def test_own_prompt_without_a_place_for_the_context_gets_it_at_the_end() -> None:
    assert system_prompt(plan(system_prompt="You are a pirate."), "ctx") == "You are a pirate.\n\nctx"


def test_context_that_looks_like_a_template_is_left_alone() -> None:
    assert system_prompt(plan(system_prompt="{context_data}"), "{user_prompt} $response_type") == (
        "{user_prompt} $response_type"
    )


def test_dropped_instructions_are_noticed() -> None:
    assert drops_user_prompt(plan(system_prompt="{context_data}", user_prompt="x"))
    assert not drops_user_prompt(plan(system_prompt="{context_data} {user_prompt}", user_prompt="x"))
    assert not drops_user_prompt(plan(system_prompt="{context_data}"))
    assert not drops_user_prompt(plan(user_prompt="x"))


def test_prompt_tokens_are_those_without_context() -> None:
    made = plan(system_prompt="one two {context_data} three")
    assert count_prompt_tokens(made) == count_tokens("one two  three")


def test_shown_prompt_ends_with_the_question() -> None:
    assert show_prompt(plan("Who?"), "system") == "system\n\n---User Query---\n\nWho?"

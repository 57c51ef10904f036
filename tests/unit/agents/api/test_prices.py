"""What tokens cost, and tables with typos."""

import pytest

from agents.api.conversation import TokenCounts
from agents.api.prices import PriceTable
from vlm_envs.errors import ConfigError


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "prices.toml"
        path.write_text(text)
        return PriceTable.load(path)

    return write


def test_cached_tokens_have_a_price_of_their_own(table):
    price = table('[models]\n"m" = { prompt = 10.0, cached = 1.0, cache_writes = 12.5, completion = 40.0 }').of("m")
    tokens = TokenCounts(prompt=1_000_000, cached=600_000, cache_writes=200_000, completion=100_000, reasoning=90_000)
    # 0.2 · 10 + 0.6 · 1 + 0.2 · 12.5 + 0.1 · 40
    assert price.usd(tokens) == pytest.approx(9.1)


def test_without_them_they_cost_as_much_as_others(table):
    price = table('[models]\n"m" = { prompt = 10.0, completion = 0.0 }').of("m")
    assert price.usd(TokenCounts(prompt=1_000_000, cached=999_999)) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("model", "prompt"), [("gpt-4.1", 2.0), ("gpt-4.1-2025-04-14", 2.0), ("gpt-4.1-mini-2025-04-14", 0.4)]
)
def test_dated_versions_cost_what_their_model_does(model, prompt):
    assert PriceTable.load().of(model).prompt == prompt


@pytest.mark.parametrize("model", ["tiny", "gpt-4.1-turbo", "claude-sonnet-4-6", "my-gpt-4.1", ""])
def test_an_unknown_price_is_none(model):
    assert PriceTable.load().of(model) is None


def test_a_users_table_lies_over_the_shipped_one(table):
    prices = table('[models]\n"gpt-4.1" = { prompt = 7.0, completion = 7.0 }\n"tiny" = { prompt = 0, completion = 0 }')
    assert prices.of("gpt-4.1").prompt == 7.0
    assert prices.of("tiny").usd(TokenCounts(prompt=5)) == 0.0
    assert prices.of("gpt-4o").prompt == 2.5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[models]\n"m" = { promt = 1.0, completion = 1.0 }', "models.m.promt is not known. Did you mean 'prompt'?"),
        ('[models]\n"m" = { prompt = 1.0 }', "models.m.completion: Field required"),
        ('[models]\n"m" = { prompt = -1.0, completion = 1.0 }', "greater than or equal to 0"),
        ('[models]\n"m" = { prompt = "1", completion = 1.0 }', "valid number"),
        ('[models]\n"m" = { prompt = nan, completion = 1.0 }', "finite number"),
        ('[models]\n"m" = 3', "models.m: "),
        ('[model]\n"m" = { prompt = 1.0, completion = 1.0 }', "Did you mean 'models'?"),
        ("[models", "Cannot read the prices"),
    ],
)
def test_a_table_with_a_mistake_is_explained(text, told, table):
    with pytest.raises(ConfigError, match=r"prices\.toml") as caught:
        table(text)
    assert told in str(caught.value)


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="Cannot read the prices"):
        PriceTable.load(tmp_path / "none.toml")

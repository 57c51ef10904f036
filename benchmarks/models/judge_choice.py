"""Which judge scores a board, as a command line names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from agents.api.config import EndpointConfig
from judges.turn_rewards.shaping import JudgeFor, Section, exact_judge
from vlm_envs.arguments.faults import import_named
from vlm_envs.errors import ConfigError, did_you_mean, require

NOBODY = EndpointConfig(model="NAME", base_url="http://URL")

_BY_MODEL = ("direct", "extraction")


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """A judge of what responses observe and predict.

    Attributes:
        judge: exact (by rule), direct or extraction (a model at an endpoint), or MODULE:FACTORY of your own, which is
            called with an env id and a representation and returns a judge, as judges.scores.Judge is.
        judge_endpoint: The model of a judge that asks one.
    """

    judge: str = "exact"
    judge_endpoint: EndpointConfig = NOBODY

    def __post_init__(self) -> None:
        kinds = ("exact", *_BY_MODEL)
        require(
            self.judge in kinds or ":" in self.judge,
            f"--judge must be {', '.join(kinds)} or MODULE:FACTORY; got {self.judge!r}."
            f"{did_you_mean(self.judge, kinds)}",
        )
        is_missing = NOBODY.model == self.judge_endpoint.model or self.judge_endpoint.base_url == NOBODY.base_url
        require(
            self.judge not in _BY_MODEL or not is_missing,
            f"--judge {self.judge} needs --judge-endpoint.model and --judge-endpoint.base-url.",
        )

    @property
    def label(self) -> str:
        """What a board calls it."""
        return f"{self.judge} {self.judge_endpoint.model}" if self.judge in _BY_MODEL else self.judge

    @contextmanager
    def chosen(self) -> Iterator[JudgeFor | Mapping[Section, JudgeFor]]:
        """Gives the judge, as `judge_episodes` takes it, and lets go of its connection afterwards.

        Raises:
            ConfigError: If one of the user's own cannot be had.
        """
        if self.judge in _BY_MODEL:
            from agents.api.client import ChatClient
            from judges.llm.shaping import Method, llm_judges

            with ChatClient(self.judge_endpoint) as client:
                yield llm_judges(client, cast("Method", self.judge))
        else:
            yield exact_judge if self.judge == "exact" else _own(self.judge)


def _own(name: str) -> JudgeFor:
    """Returns the user's judges, each made once, as judges are told apart by what they are."""
    module, _, attribute = name.partition(":")
    instead = "Run from the folder that holds it, or name that folder in PYTHONPATH."
    factory: Any = getattr(import_named(module, option=f"--judge {name}", instead=instead), attribute, None)
    if not callable(factory):
        raise ConfigError(f"--judge {name}: {module} has no {attribute!r} that could be called.")
    made: dict[tuple[str, str], Any] = {}

    def judge_for(env_id: str, representation: Any) -> Any:
        key = env_id, representation
        if key not in made:
            made[key] = factory(env_id, representation)
            require(hasattr(made[key], "score"), f"--judge {name} must return a judge with score(text, state).")
        return made[key]

    return judge_for

"""Which judge scores a board, as a command line names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, cast

from agents.api.endpoint_config import COMPATIBLE, PROVIDERS, EndpointConfig
from benchmarks.models.judged.graders import Graders
from judges.turn_rewards import JudgeFor, Section, exact_judge
from vlm_envs.errors import ConfigError
from vlm_envs.user_code import import_named
from vlm_envs.validation import did_you_mean, require

NOBODY = EndpointConfig(model="NAME", base_url="http://URL")

_BY_MODEL = ("direct", "extraction")


class AnswerEndpoint(EndpointConfig):
    """A model that grades answers: of a type of its own, so that messages name its options."""


class ZoomEndpoint(EndpointConfig):
    """A model that sees how much has to be magnified, likewise."""


NO_ANSWER_JUDGE = AnswerEndpoint(model=NOBODY.model, base_url=NOBODY.base_url)
NO_ZOOM_JUDGE = ZoomEndpoint(model=NOBODY.model, base_url=NOBODY.base_url)
_UNASKED: tuple[EndpointConfig, ...] = (NO_ANSWER_JUDGE, NO_ZOOM_JUDGE)


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """A judge of what responses observe and predict.

    Attributes:
        judge: exact (by rule), direct or extraction (a model at an endpoint), or MODULE:FACTORY of your own, which is
            called with an env id and a representation and returns a judge, as judges.scores.Judge is.
        judge_endpoint: The model of a judge that asks one.
        answer_judge: A model that grades answers in quarters, as the measure graded, and first reads them out of
            replies that have none in its form; nobody unless its model and base_url are given.
        zoom_judge: A model that sees, and says how much of a picture has to be magnified, as the measure zoom_need:
            results are then also told by stratum, easy, medium and hard. Nobody unless its model and base_url are
            given.
    """

    HINTS: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            f"--judge.{name.replace('_', '-')}": (
                f"The judge's endpoint is set with --judge-endpoint.*: --judge direct --judge-endpoint."
                f"{name.replace('_', '-')} VALUE."
            )
            for name in EndpointConfig.__dataclass_fields__
        }
    )

    judge: str = "exact"
    judge_endpoint: EndpointConfig = NOBODY
    answer_judge: AnswerEndpoint = NO_ANSWER_JUDGE
    zoom_judge: ZoomEndpoint = NO_ZOOM_JUDGE

    def __post_init__(self) -> None:
        kinds = ("exact", *_BY_MODEL)
        provider, _, served = self.judge.partition(":")
        if provider in PROVIDERS:
            raise ConfigError(
                f"--judge {self.judge} names an agent. Use --judge direct {_endpoint_options(provider, served)}."
            )
        require(
            self.judge in kinds or ":" in self.judge,
            f"--judge must be {', '.join(kinds)} or MODULE:FACTORY; got {self.judge!r}."
            f"{did_you_mean(self.judge, kinds)}",
        )
        require(
            self.judge not in _BY_MODEL or _is_named(self.judge_endpoint),
            f"--judge {self.judge} needs --judge-endpoint.model and --judge-endpoint.base-url.",
        )
        for option, endpoint in (("--answer-judge", self.answer_judge), ("--zoom-judge", self.zoom_judge)):
            require(
                endpoint in _UNASKED or _is_named(endpoint),
                f"{option} needs both {option}.model and {option}.base-url; got {endpoint.model} at "
                f"{endpoint.base_url}. Leave its options out where nobody is to be asked.",
            )

    @property
    def label(self) -> str:
        """What a board calls it."""
        own = f"{self.judge} {self.judge_endpoint.model}" if self.judge in _BY_MODEL else self.judge
        further = {"answers": self.answer_judge, "zoom": self.zoom_judge}
        return ", ".join([own, *(f"{what} {each.model}" for what, each in further.items() if each not in _UNASKED)])

    def endpoints(self) -> dict[str, EndpointConfig]:
        """Returns the models that are asked, by option; without those whose replies may all be cached."""
        asked = {"--judge": self.judge_endpoint} if self.judge in _BY_MODEL else {}
        asked |= {"--answer-judge": self.answer_judge, "--zoom-judge": self.zoom_judge}
        return {
            f"{option} {endpoint.model}": endpoint
            for option, endpoint in asked.items()
            if endpoint not in _UNASKED and endpoint.cache_dir is None
        }

    @contextmanager
    def chosen(self) -> Iterator[JudgeFor | Mapping[Section, JudgeFor]]:
        """Gives the judge, as `judge_episodes` takes it, and lets go of its connection afterwards.

        Raises:
            ConfigError: If one of the user's own cannot be had.
        """
        if self.judge in _BY_MODEL:
            from agents.api.client import ChatClient
            from judges.llm.llm_judge import Method, llm_judges

            with ChatClient(self.judge_endpoint) as client:
                yield llm_judges(client, cast("Method", self.judge))
        else:
            yield exact_judge if self.judge == "exact" else _own(self.judge)

    @contextmanager
    def graders(self) -> Iterator[Graders]:
        """Gives who grades answers and pictures, and lets go of their connections afterwards."""
        if self.answer_judge in _UNASKED and self.zoom_judge in _UNASKED:
            yield Graders()
            return
        from agents.api.client import ChatClient
        from judges.llm.llm_graders import LLMAnswerExtractor, LLMAnswerJudge, LLMZoomJudge

        with ExitStack() as opened:
            asked, seeing = (
                None if each in _UNASKED else opened.enter_context(ChatClient(each))
                for each in (self.answer_judge, self.zoom_judge)
            )
            yield Graders(
                extract=None if asked is None else LLMAnswerExtractor(asked),
                grade=None if asked is None else LLMAnswerJudge(asked),
                zoom_need=None if seeing is None else LLMZoomJudge(seeing),
            )


def _endpoint_options(provider: str, served: str) -> str:
    """Returns the options of a judge's endpoint for what an agent's name has after its colon, `MODEL@URL`."""
    model, _, address = served.partition("@")
    options = [f"--judge-endpoint.model {model or 'NAME'}", f"--judge-endpoint.base-url {address or 'URL'}"]
    return " ".join(options + ([] if provider == COMPATIBLE else [f"--judge-endpoint.provider {provider}"]))


def _is_named(endpoint: EndpointConfig) -> bool:
    return endpoint.model != NOBODY.model and endpoint.base_url != NOBODY.base_url


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

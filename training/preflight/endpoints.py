"""Whether the models behind endpoints that a run will ask answer, found out before it leaves anything behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agents.api.config import EndpointConfig
from agents.api.providers.registry import PROVIDERS
from agents.registry import entry_of, make_agent, require_agent
from training.config.curation.curate import CurateConfig
from training.config.judges import VerifierConfig
from training.config.pairs import PairsConfig
from training.config.processes import process_rank
from training.config.run import RunConfig
from training.config.stages import StageRun
from vlm_envs.errors import ConfigError
from vlm_envs.validation import field_name, require


@dataclass(frozen=True, kw_only=True)
class AskedEndpoint:
    """A model behind an endpoint that somebody will ask.

    Attributes:
        option: What it was named by.
        skip: The option by which it is not asked at start-up.
        endpoint: Which, and where.
    """

    option: str
    skip: str
    endpoint: EndpointConfig

    def __str__(self) -> str:
        address = self.endpoint.address
        return f"{self.option}: {self.endpoint.model}{address and f' at {address}'}"


def require_made(name: str, option: str) -> EndpointConfig | None:
    """Refuses an agent that cannot be made; one behind an endpoint is made, which connects to nothing yet.

    Returns:
        Where it is asked, of one behind an endpoint; None of any other.

    Raises:
        ConfigError: If there is no such agent, or it lacks its model, its address or its key; it names the option.
        FileNotFoundError: If its checkpoint is not there.
        EngineUnavailableError: If a package that it needs is not installed.
    """
    try:
        require_agent(name)
        entry = entry_of(name)
        require(
            not entry.part or bool(name.partition(":")[2]),
            f"the agent is made from something: {name.partition(':')[0]}:{entry.part}; got {name!r}.",
        )
        if name.partition(":")[0] not in PROVIDERS:
            return None
        made: Any = make_agent(name)
        made.close()
    except ConfigError as error:
        raise ConfigError(f"{option} {name}: {error}") from error
    endpoint: EndpointConfig = made.config
    return endpoint


def endpoints_of(run: StageRun | PairsConfig) -> list[AskedEndpoint]:
    """Returns the models behind endpoints that a command will ask; none where they are not to be probed.

    Options are called as `fields_named` says.

    Raises:
        ConfigError: If one cannot be asked, as it is named.
    """
    if isinstance(run, CurateConfig):
        return _asked(run, _of_curation(run)) if run.probe_endpoints else []
    if isinstance(run, RunConfig) and run.probe_endpoints:
        return _asked(run, _of_run(run))
    if isinstance(run, PairsConfig) and run.probe_endpoints and run.asks_model:
        return _asked(run, iter([(field_name(run, "endpoint"), run.endpoint)]))
    return []


def _asked(
    run: CurateConfig | RunConfig | PairsConfig, named: Iterator[tuple[str, EndpointConfig | None]]
) -> list[AskedEndpoint]:
    option = field_name(run, "probe_endpoints")
    head, _, _ = option.rpartition("probe-endpoints")
    skip = f"{head}no-probe-endpoints" if head else f"{option}=False"
    return [AskedEndpoint(option=option, skip=skip, endpoint=each) for option, each in named if each is not None]


def _of_curation(config: CurateConfig) -> Iterator[tuple[str, EndpointConfig | None]]:
    """Yields what each model was named by, and where it is; None for one that is behind no endpoint."""
    pointing = config.pointing
    for option, name in (
        (field_name(config, "expert"), config.expert),
        (field_name(pointing, "proposer"), pointing.proposer),
        (field_name(pointing, "pointer"), pointing.pointer),
        (field_name(config, "judge"), config.judge),
    ):
        if name is not None:
            yield f"{option} {name}", _behind(name, option)
    yield field_name(config, "endpoint"), config.endpoint
    yield from _of_verifier(config.verifier)


def _of_run(config: RunConfig) -> Iterator[tuple[str, EndpointConfig | None]]:
    if config.num_iterations > 0 or config.judge.in_evaluations:
        yield field_name(config.judge, "endpoint"), config.judge.endpoint
    yield from _of_verifier(config.judge.verifier)


def _of_verifier(config: VerifierConfig) -> Iterator[tuple[str, EndpointConfig | None]]:
    if config.pointer is not None and config.workers == "local":  # other machines may reach what this one does not
        option = field_name(config, "pointer")
        yield f"{option} {config.pointer}", _behind(config.pointer, option)


def _behind(name: str, option: str) -> EndpointConfig | None:
    """Returns where an agent is asked; None of one that is behind no endpoint, whoever looks after that."""
    return require_made(name, option) if name.partition(":")[0] in PROVIDERS else None


def require_answers(asked: Sequence[AskedEndpoint]) -> None:
    """Asks each model one short question, side by side; of several processes, the main one does.

    Raises:
        ConfigError: If any of them does not answer; it names all that do not, with what may help.
    """
    if not asked or process_rank() != 0:
        return
    from agents.api.probe import faults_of  # and with it the endpoints' own packages, which take a second

    dead = [
        (each, fault) for each, fault in zip(asked, faults_of([each.endpoint for each in asked]), strict=True) if fault
    ]
    if not dead:
        return
    lines = [f"  {each}: {fault}" for each, fault in dead]
    skips = " ".join(dict.fromkeys(each.skip for each, _ in dead))
    models = "1 model that is" if len(dead) == 1 else f"{len(dead)} models that are"
    raise ConfigError(
        f"{models} to be asked behind an endpoint {'does' if len(dead) == 1 else 'do'} not answer:\n"
        + "\n".join(lines)
        + f"\nNothing was begun. Start or mend them; what is only started later is not asked now with {skips}"
    )

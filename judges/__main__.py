"""Command line of the judges: `python -m judges chance VLM/Sokoban-v0`, `… score …` and `… calibrate …`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.api.config import EndpointConfig
from judges.batches import BatchJudge, Claim
from judges.calibration.agreement import Agreement, examples_of, measure_agreement, report
from judges.calibration.chance import ChanceBaseline, measure_chance, start_states
from judges.scores import JudgeScore
from judges.state_text.exact import ExactJudge
from judges.state_text.rules import rules_of
from vlm_envs.arguments.ranges import fields_named, require_at_least, require_between
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.responses.formats import REPRESENTATIONS

if TYPE_CHECKING:
    from agents.api.client import ChatClient

_ENDPOINT = {
    **{name: name for name in ("model", "base_url", "api_key_variable", "cache_dir", "max_parallel", "max_attempts")},
    **{name: name for name in ("timeout_s", "requests_per_minute")},
    "usd_per_million_prompt_tokens": "prompt_price",
    "usd_per_million_completion_tokens": "completion_price",
}
"""Which option each field of an `EndpointConfig` is given by."""

_TABLE = "{:<27} {:<17} {:>6} {:>11} {:>13} {:>9}"


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: command line without the program's name; from the process by default.

    Returns:
        Exit status: 0, or 2 for a mistake in the arguments and for a model that gives nothing to report on.
    """
    options = _parser().parse_args(arguments)
    command = {"chance": _print_chance, "score": _print_score, "calibrate": _print_calibration}[options.command]
    names = {EndpointConfig: _ENDPOINT, argparse.Namespace: {name: name for name in vars(options)}}
    flags = {kind: {field: f"--{name.replace('_', '-')}" for field, name in of.items()} for kind, of in names.items()}
    try:
        with fields_named(flags):
            _check_ranges(options)
            command(options)
    except ModuleNotFoundError as error:
        print(f"judges: {error}. Install what judges need: pip install -e '.[judge]'", file=sys.stderr)
        return 2
    except (VLMEnvsError, ValueError, OSError) as error:
        print(f"judges: {error}", file=sys.stderr)
        return 2
    return 0


def _check_ranges(options: argparse.Namespace) -> None:
    """Refuses numbers that nothing can be measured with, before anything is.

    Raises:
        ConfigError: with the option, its range and what came.
    """
    if options.command != "score":
        require_at_least(options, 0, "seed")
        require_at_least(options, 4 if options.command == "chance" else 2, "num_states")
    if options.command == "calibrate":
        require_between(options, 0, 1, "threshold", includes=(False, True))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m judges", description="Measure and try the judges.")
    commands = parser.add_subparsers(dest="command", required=True)
    chance = commands.add_parser("chance", help="what blind text scores in a world")
    chance.add_argument("env_ids", nargs="+", metavar="env_id", help="such as VLM/FrozenLake-v0")
    chance.add_argument("--representation", choices=REPRESENTATIONS, nargs="+", help="by default all that are judged")
    chance.add_argument("--num-states", type=int, default=200, help="start states to draw (default 200)")
    chance.add_argument("--seed", type=int, default=0, help="reset seed of the first state (default 0)")
    score = commands.add_parser("score", help="score one text against one state")
    score.add_argument("world", help="env id or a world's name")
    score.add_argument("text", help="the text to judge; - reads standard input")
    score.add_argument("--state", required=True, help='state dict as JSON: {"player_position": [3, 2], …}')
    score.add_argument("--representation", choices=REPRESENTATIONS, default="natural_language")
    _add_calibrate(commands.add_parser("calibrate", help="how well a judge agrees with the truth, and its cost"))
    return parser


def _add_calibrate(calibrate: argparse.ArgumentParser) -> None:
    calibrate.add_argument("env_id", help="such as VLM/FrozenLake-v0")
    calibrate.add_argument("--judge", choices=("exact", "llm", "agentic"), default="exact")
    calibrate.add_argument("--representation", choices=REPRESENTATIONS, default="natural_language")
    calibrate.add_argument("--num-states", type=int, default=64, help="start states to draw (default 64)")
    calibrate.add_argument("--seed", type=int, default=0, help="reset seed of the first state (default 0)")
    calibrate.add_argument("--threshold", type=float, default=0.99, help="least score that means right (default 0.99)")
    model = calibrate.add_argument_group("with --judge llm or agentic")
    model.add_argument("--model", help="the judge model's name at the endpoint")
    model.add_argument("--base-url", help="endpoint of chat completions, such as http://127.0.0.1:8000/v1")
    model.add_argument("--method", choices=("direct", "extraction"), default="direct")
    model.add_argument("--skill", choices=("grounding", "world_modeling"), default="grounding")
    model.add_argument(
        "--api-key-variable", default="OPENAI_API_KEY", help="environment variable with the key; '' for no key"
    )
    model.add_argument("--cache-dir", type=Path, help="keep replies here; asking again then costs nothing")
    model.add_argument("--max-parallel", type=int, default=8)
    model.add_argument(
        "--max-attempts", type=int, default=5, help="requests for one reply before it is out (default 5)"
    )
    model.add_argument("--timeout-s", type=float, default=60.0, help="longest time for one reply (default 60)")
    model.add_argument("--requests-per-minute", type=float)
    model.add_argument("--prompt-price", type=float, default=0.0, help="USD per million prompt tokens")
    model.add_argument("--completion-price", type=float, default=0.0, help="USD per million completion tokens")


def _print_chance(options: argparse.Namespace) -> None:
    print(_TABLE.format("world", "representation", "states", "other state", "best constant", "own text"))
    for env_id in options.env_ids:
        for representation in options.representation or rules_of(env_id).representations:
            print(_row(measure_chance(env_id, representation, options.num_states, options.seed)))


def _row(baseline: ChanceBaseline) -> str:
    scores = (f"{score:.3f}" for score in (baseline.other_state, baseline.best_constant, baseline.own_state))
    return _TABLE.format(baseline.world, baseline.representation, baseline.num_states, *scores)


def _print_score(options: argparse.Namespace) -> None:
    text = sys.stdin.read() if options.text == "-" else options.text
    score = ExactJudge(options.world, options.representation).score(text, _state(options.state))
    print(f"F1 {score.f1:.3f} from {score.num_facts_read} facts read ({score.reason})")


def _state(text: str) -> dict[str, Any]:
    """Returns a state from JSON."""
    try:
        state = json.loads(text)
    except ValueError:
        state = None
    if not isinstance(state, dict):
        raise ConfigError(
            "--state takes a world's whole state as a JSON object, the one that its info['state'] holds, such as "
            f"'{{\"player_position\": [3, 2], …}}'; got {text!r}."
        )
    return state


class _FirstAlone:
    """Asks a judge's first question alone: that nobody is there need not be found out hundreds of times."""

    def __init__(self, judge: BatchJudge, client: "ChatClient", options: argparse.Namespace) -> None:
        self._judge, self._client, self._options = judge, client, options

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Score one text."""
        return self._judge.score(text, state)

    def score_many(self, claims: Sequence[Claim]) -> list[JudgeScore]:
        """Score the first claim and, if there was an answer, the others; of no claims there are no scores."""
        first = self._judge.score_many(claims[:1])
        for score in first:
            _require_somebody(self._client, score.reason, self._options)
        return [*first, *self._judge.score_many(claims[1:])]


def _require_somebody(client: "ChatClient", reason: str, options: argparse.Namespace) -> None:
    """Stops where no request so far had an answer of any kind.

    Raises:
        ConfigError: the endpoint is not there, or refuses.
    """
    usage = client.usage
    if usage.num_unavailable == usage.num_questions > 0 and usage.num_unreadable == 0:
        raise ConfigError(
            f"Nothing came from {options.model} at {options.base_url} in {usage.num_requests} attempts ({reason}). Is "
            "the endpoint up, and are --model, --base-url and --api-key-variable right?"
        )


def _require_verdicts(agreement: Agreement, options: argparse.Namespace) -> None:
    """Refuses to report shares of nothing.

    Raises:
        ConfigError: there is not one verdict.
    """
    if agreement.num_judged == 0:
        raise ConfigError(
            f"{options.model} at {options.base_url} gave no verdict on any of {agreement.num_unavailable} texts, so "
            "there is no agreement to report. Does the model keep to the form that its prompt asks for?"
        )


def _print_calibration(options: argparse.Namespace) -> None:
    if options.judge == "agentic":
        _print_agentic_calibration(options)
        return
    described = start_states(options.env_id, options.representation, options.num_states, options.seed)
    examples = examples_of(described)
    title = f"{options.env_id}, {options.representation}, {options.num_states} states, "
    if options.judge == "exact":
        judge = ExactJudge(options.env_id, options.representation)
        agreement = measure_agreement(examples, judge, threshold=options.threshold)
        print(report(agreement, f"{title}exact judge", "none"))
        return
    from agents.api.client import ChatClient
    from judges.llm.judge import DirectJudge, ExtractionJudge

    judge_type = DirectJudge if options.method == "direct" else ExtractionJudge
    with ChatClient(_endpoint(options)) as client:
        model = judge_type(client, options.env_id, options.skill, options.representation)
        agreement = measure_agreement(examples, _FirstAlone(model, client, options), threshold=options.threshold)
        _require_verdicts(agreement, options)
        print(report(agreement, f"{title}{options.model}, {options.method}, {options.skill}", str(client.usage)))


def _print_agentic_calibration(options: argparse.Namespace) -> None:
    """Lets a judge that looks decide on single responses of RewardJudging, right ones and flawed ones."""
    from agents.api.client import ChatClient
    from agents.api.failures import Unavailable
    from judges.agentic.calibration import measure_verdicts
    from judges.agentic.generate import Utterance, chat_generate
    from judges.agentic.judge import AgenticJudge

    with ChatClient(_endpoint(options)) as client:
        generate = chat_generate(client)

        def generate_if_somebody_is_there(utterances: Sequence[Utterance]) -> str | Unavailable:
            reply = generate(utterances)
            if isinstance(reply, Unavailable):
                _require_somebody(client, reply.reason, options)
            return reply

        def first_alone(function: Callable[[Any], Any], items: Iterable[Any], /) -> list[Any]:
            first, *others = items
            return [function(first), *client.map(function, others)]

        judge = AgenticJudge(generate_if_somebody_is_there)
        measured = measure_verdicts(
            judge, options.env_id, num_cases=options.num_states, seed=options.seed, at_once=first_alone
        )
        _require_verdicts(measured, options)
        title = f"{options.env_id}, {options.num_states} single responses, {options.model} with tools"
        print(report(measured, title, str(client.usage)))


def _endpoint(options: argparse.Namespace) -> EndpointConfig:
    if not options.model or not options.base_url:
        raise ConfigError(f"--judge {options.judge} needs --model and --base-url.")
    return EndpointConfig(**{field: getattr(options, name) for field, name in _ENDPOINT.items()})


if __name__ == "__main__":
    sys.exit(main())

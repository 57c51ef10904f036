"""Whether a run's judges have something to read in its worlds, and pay for nothing that these pay for already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from judges.episode_rewards.episode_reward import WorldReward
from judges.state_text.exact_judge import has_rules
from judges.turn_rewards import RepetitionTerm
from training.config.judges import JudgeConfig
from training.config.worlds.spec import WorldSpec
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import QA_FORMATS


def judge_contradictions(judge: JudgeConfig, worlds: Sequence[WorldSpec]) -> Iterator[str]:
    """Yields what judges are asked for that they cannot earn, read or compare in these worlds, or that is paid twice.

    Each is what was expected, what came and which options mend it.
    """
    for number, spec in enumerate(worlds):
        option = f"--worlds.{number}.kwargs.prompt-format"
        wrong = [*_unpaid_episodes(judge, spec, option), *_unearned(judge, spec, option, worlds)]
        yield from (wrong and _unknown_format(spec, option)) or wrong
    yield from _unread_repetition(judge, worlds)
    yield from _structured_claims(judge, worlds)
    yield from _paid_twice(judge, worlds, "answer_reward", "the reward of a right answer")
    yield from _paid_twice(judge, worlds, "format_reward", "a reward of the format")
    reward = judge.reward
    wanted = None if reward is None else reward.compares_with
    if wanted is not None and not any(spec.prompt_format == wanted for spec in worlds):
        yield (
            f"--judge.episode-reward {judge.episode_reward} compares episodes with those of prompt_format={wanted!r}, "
            "and no world here has it: there would never be anything to compare with. Add one, such as "
            f"--worlds.{len(worlds)}.env-id {worlds[0].env_id} --worlds.{len(worlds)}.kwargs.prompt-format {wanted}."
        )


def _unknown_format(spec: WorldSpec, option: str) -> list[str]:
    """Returns what a world says of its format if it has none of this name: whoever mistyped it need hear no more."""
    try:
        with spec.made():
            return []
    except ConfigError as error:
        return [f"{option}: {error}"] if str(error).startswith("prompt_format ") else []


def _unpaid_episodes(judge: JudgeConfig, spec: WorldSpec, option: str) -> Iterator[str]:
    """Yields an episode's reward that the chosen format, which `option` sets, can never earn."""
    reward = judge.reward
    if reward is not None:
        try:
            reward.require_world(spec.prompt_format, spec.kwargs)
        except ConfigError as error:
            yield f"--judge.episode-reward {judge.episode_reward} with {option}: {error}"


def _unearned(judge: JudgeConfig, spec: WorldSpec, option: str, worlds: Sequence[WorldSpec]) -> Iterator[str]:
    """Yields turn rewards that the chosen format, which `option` sets, can never earn, nor any other of the mix."""
    if not has_rules(spec.env_id):
        return  # Nothing to judge by: the world's own reward is what counts.
    judged = [each for each in worlds if has_rules(each.env_id)]
    for weight, task, section in (
        ("grounding_weight", "grounding", "observation"),
        ("worldmodeling_weight", "worldmodeling", "prediction"),
    ):
        if getattr(judge, weight) > 0 and not any(task in each.prompt_format for each in judged):
            flag = f"--judge.{_flag(weight)}"
            yield (
                f"{flag} is {getattr(judge, weight)}, but the format {spec.prompt_format!r} of {spec.env_id} has no "
                f"<{section}>. Use {flag} 0, or {option} with {task} in it."
            )


def _unread_repetition(judge: JudgeConfig, worlds: Sequence[WorldSpec]) -> Iterator[str]:
    """Yields a repetition penalty that finds nothing to read in any judged world.

    Where no world has rules every judge is left out, and a line says so: see `training.preflight.start.without_judges`.
    """
    judged = {number: spec for number, spec in enumerate(worlds) if has_rules(spec.env_id)}
    if not judge.repetition_penalty or not judged:
        return
    if any(set(_sections(spec)) & set(RepetitionTerm.sections) for spec in judged.values()):
        return
    formats = dict.fromkeys(repr(spec.prompt_format) for spec in judged.values())
    yield (
        f"--judge.repetition-penalty is {judge.repetition_penalty}, but it reads "
        f"{' and '.join(f'<{section}>' for section in RepetitionTerm.sections)}, and no format here has either: "
        f"{' and '.join(formats)}. Use --judge.repetition-penalty 0, or "
        f"--worlds.{min(judged)}.kwargs.prompt-format grounding, worldmodeling or grounding_worldmodeling."
    )


def _structured_claims(judge: JudgeConfig, worlds: Sequence[WorldSpec]) -> Iterator[str]:
    """Yields worlds out of whose structured states a model is to extract claims."""
    if judge.method != "extraction":
        return
    structured = []
    for number, spec in enumerate(worlds):
        with spec.made() as world:
            structured += [number] if world.representation == "structured" else []
    if structured:
        yield (
            "--judge.method extraction has a model read claims out of sentences, but the states of "
            f"{', '.join(worlds[number].env_id for number in structured)} are structured: the exact judge reads them "
            "without a mistake. Use --judge.method exact, or "
            + " ".join(f"--worlds.{number}.kwargs.representation natural_language" for number in structured)
            + "."
        )


def _paid_twice(judge: JudgeConfig, worlds: Sequence[WorldSpec], argument: WorldReward, what: str) -> Iterator[str]:
    """Yields worlds that pay for what the episode's reward pays for, too."""
    reward = judge.reward
    if reward is None or argument not in reward.overlapping_rewards:
        return
    asking = {number: spec for number, spec in enumerate(worlds) if spec.prompt_format in QA_FORMATS}
    paid = {number: amount for number, spec in asking.items() if (amount := _pay(spec, argument))}
    if paid:
        yield (
            f"--judge.episode-reward {judge.episode_reward} has {what} in it, and "
            + ", ".join(f"{worlds[number].env_id} pays {amount} for it, too" for number, amount in paid.items())
            + f". Set {argument}=0 among the world's arguments ("
            + " ".join(f"--worlds.{number}.kwargs.{_flag(argument)} 0" for number in paid)
            + ")."
        )


def _pay(spec: WorldSpec, argument: str) -> float:
    """Returns what a world pays, by an argument of its own or by default."""
    paid: float
    if argument in spec.kwargs:
        paid = spec.kwargs[argument]
    else:
        with spec.made() as world:
            paid = getattr(world.task if argument == "answer_reward" else world, argument)
    return paid


def _sections(spec: WorldSpec) -> tuple[str, ...]:
    with spec.made() as world:
        sections: tuple[str, ...] = world.response_format.sections
    return sections


def _flag(name: str) -> str:
    return name.replace("_", "-")

"""What models see of a recipe's world: their vision features of first pictures, and what a probe reads in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.hf.chat import ChatEncoder
from agents.hf.hf_agent import load_checkpoint
from agents.hf.model_families import family_of
from benchmarks.probe.facts import facts_of
from benchmarks.probe.linear import Levels, LinearProbe
from training.cold_start.cold_start_loop import untaught
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.loop.provenance import describe
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import replace_file
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation

UNTAUGHT = "random weights"
UNTOLD: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "VLM/Sokoban-v0": lambda state: {"inner_walls": state.layout.inner_walls},
}
"""By world, from its typed state: what of it pictures show and `info["state"]` leaves out."""
_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Seeing:
    """What a probe reads of one world in the features of several models.

    Attributes:
        recipe: Whose world it is.
        env_id: Its id.
        num_levels: Levels the probe is fitted to, a quarter of them for its penalty; of the split `train`.
        num_measured: Levels it is measured on, of the split `val`.
        skills: By model, by entry of the state: the mean skill over its facts, see `LinearProbe.skill`.
        made_by: Configuration, versions and commit.
    """

    recipe: str
    env_id: str
    num_levels: int
    num_measured: int
    skills: dict[str, dict[str, float]]
    made_by: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Writes it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Seeing:
        """Returns what `save` wrote.

        Raises:
            ConfigError: If it cannot be read, or was written by a version that kept something else.
        """
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            skills = {
                model: {entry: float(skill) for entry, skill in of.items()} for model, of in told["skills"].items()
            }
            if not skills or len({frozenset(of) for of in skills.values()}) > 1:
                raise ValueError("no model, or not the same entries of a state for all of them")
            return cls(**{**told, "skills": skills})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"{path} is no result of a probe that this version reads: {error!r}.") from error


def seeing(config: RunConfig, models: Mapping[str, Path], *, num_levels: int, num_measured: int) -> Seeing:
    """Probes random weights and checkpoints.

    Args:
        config: Whose first world is looked at; random weights are those that its cold start would begin with.
        models: Checkpoints by what they are called.
        num_levels: Levels the probe is fitted to.
        num_measured: Levels it is measured on.

    Raises:
        ConfigError: If the world's first turn shows no picture, or not as many everywhere.
    """
    spec = config.worlds[0]
    observations, states = first_turns(spec, num_levels, num_measured)
    facts = facts_of(states)
    levels = Levels(num_learnt=num_levels - num_levels // 4, num_chosen=num_levels // 4)
    skills = {}
    for name, (model, encoder) in _models(config, models):
        probe = LinearProbe(features_of(model, encoder, observations, spec.env_id), levels)
        skills[name] = {
            entry: round(float(np.mean([max(0.0, probe.skill(values)) for values in of.values()])), 3)
            for entry, of in facts.items()
        }
    made_by = {name: value for name, value in describe(config).items() if name in ("commit", "versions")}
    return Seeing(
        recipe=config.name,
        env_id=spec.env_id,
        num_levels=num_levels,
        num_measured=num_measured,
        skills=skills,
        made_by=made_by,
    )


def first_turns(spec: WorldSpec, num_levels: int, num_measured: int) -> tuple[list[Observation], list[dict[str, Any]]]:
    """Returns what is shown first, and the true state, of levels to train on and then of validation levels.

    States have what `UNTOLD` says of their world, too.
    """
    untold = UNTOLD.get(spec.env_id, lambda state: {})
    observations, states = list[Observation](), list[dict[str, Any]]()
    for split, number in (("train", num_levels), ("val", num_measured)):
        with spec.made(split=split) as world:
            for seed in split_seeds(split, number):
                observation, info = world.reset(seed=seed)
                observations.append(observation)
                states.append(info["state"] | untold(world.unwrapped.state))
    return observations, states


def features_of(model: Any, encoder: ChatEncoder, observations: Sequence[Observation], env_id: str) -> Tensor:
    """Returns the vision features of observations, float32[N, D].

    They are the mean of each picture's tokens, pictures and layers side by side: in a mean a thing and its place are
    told only by tokens that hold both.

    Raises:
        ConfigError: If one shows no picture, or they differ in how many pictures they show, or in their tokens.
    """
    segments = [encoder.encode(observation, is_first=True) for observation in observations]
    shown = {tuple(image.num_tokens for image in segment.images) for segment in segments}
    if len(shown) > 1 or () in shown:
        told = " or ".join(" + ".join(map(str, counts)) or "0" for counts in sorted(shown))
        raise ConfigError(
            f"{env_id} shows {told} visual tokens in its first turn. A probe needs as many in every level, and one at "
            "least: give the world another size of pictures, or leave it out."
        )
    (counts,) = shown
    batches = []
    for start in range(0, len(segments), _BATCH):
        batch = segments[start : start + _BATCH]
        with torch.inference_mode():
            seen = family_of(model).image_features(model, [image for segment in batch for image in segment.images])
        tokens_BTD = torch.cat([seen.tokens_ND, *seen.layers], dim=-1).float().cpu().unflatten(0, (len(batch), -1))
        batches.append(torch.cat([each.mean(1) for each in tokens_BTD.split(counts, dim=1)], dim=-1))
    return torch.cat(batches)


def _models(config: RunConfig, models: Mapping[str, Path]) -> Iterator[tuple[str, tuple[Any, ChatEncoder]]]:
    yield UNTAUGHT, untaught(replace(config, cold_start=replace(config.cold_start, start_from=None)))
    for name, directory in models.items():
        yield name, load_checkpoint(directory)

"""A training run on disk: the files that the trainer writes while it runs and that reports read.

    runs/<name>/
      config.json               resolved configuration, versions, commit
      metrics.jsonl             one object per training iteration
      evaluations.jsonl         one object per evaluation
      trajectories/<slug>.jsonl one object per recorded episode of an evaluation or a training iteration
      images/<aa>/<sha256>.png  every image once, named by the hash of the file

Lines are only ever appended, each in one write that ends with its newline: a run that is killed leaves at most one
incomplete last line, which readers skip. Whole files are written under another name and then renamed.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from vlm_envs.records.json_lines import (
    TEMPORARY,
    BrokenRunDataError,
    MissingRunDataError,
    Record,
    RunExistsError,
    append_line,
    each_line,
    filter_lines,
    parse_object,
    read_lines,
    replace_file,
    to_json,
)
from vlm_envs.trajectory import (
    Observation,
    PaidTerm,
    Trajectory,
    Turn,
    observation_images,
    require_image,
    world_terms,
)
from vlm_envs.validation import did_you_mean, require_choice

PHASES = ("cold_start", "rl")
"""Phases of a run in the order in which they are trained; a metrics line without one belongs to the last."""

STAGES = "stages.json"
"""File that describes a run of stages, next to a folder for each; its `stages` have names, in order."""

_CONFIG, _METRICS, _EVALUATIONS = "config.json", "metrics.jsonl", "evaluations.jsonl"
_OF_BOARDS = "board.json"
_OF_CHECKPOINTS = frozenset({"architectures", "model_type"})
"""Keys that Hugging Face's model configurations have, and those of runs do not."""


class RunWriter:
    """Writes a run's data as it is produced.

    Args:
        directory: The run's own directory, created when the first file is written.
        resume_from_iteration: First iteration that will be written (again) when an interrupted run is
            resumed; data recorded from that iteration on is dropped. None for a new run.
        resume_phase: The phase in which `resume_from_iteration` counts. Metrics of earlier phases are kept,
            those of later ones dropped. Evaluations count iterations of the last phase: resuming in an
            earlier one drops all but those labeled at iteration 0 or less.

    Raises:
        RunExistsError: If the directory already contains a run and this is not a resumption.
        ValueError: If `resume_phase` is unknown.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        resume_from_iteration: int | None = None,
        resume_phase: str = PHASES[-1],
    ) -> None:
        require_choice("resume_phase", resume_phase, PHASES)
        self.directory = Path(directory)
        self._images = ImageStore(self.directory)
        self._started_labels: set[str] = set()
        if resume_from_iteration is not None:
            self._drop_from(resume_from_iteration, PHASES.index(resume_phase))
        elif holds_run(self.directory):
            raise RunExistsError(
                f"Expected an unused run directory, but {self.directory} already contains a run. "
                "Choose another name, or pass resume_from_iteration to resume it."
            )

    def config(self, config: Mapping[str, Any]) -> None:
        """Writes the resolved configuration, versions, and commit, replacing an earlier one."""
        text = json.dumps(to_json(config), indent=2, allow_nan=False) + "\n"
        replace_file(self.directory / _CONFIG, text.encode())

    def metrics(self, metrics: Mapping[str, Any]) -> None:
        """Appends an iteration's metrics by name, with `iteration` and `phase`. Infinities and NaN become null."""
        append_line(self.directory / _METRICS, metrics)

    def evaluation(self, evaluation: Mapping[str, Any]) -> None:
        """Appends the results of one evaluation.

        Args:
            evaluation: `label`, `iteration`, `env_id`, `split`, `num_episodes`, `num_levels`,
                `num_successes`, `success`, `success_low`, `success_high`, `reward`, `format_rate`,
                `temperature`, and any other results. Without `num_levels`, every episode counts as a separate
                level.
        """
        append_line(self.directory / _EVALUATIONS, evaluation)

    def evaluated(self, label: str) -> dict[str, float]:
        """Returns the success of the worlds with results under a label, by their names in the mix."""
        lines = read_lines(self.directory / _EVALUATIONS)
        return {str(line.get("world")): float(line["success"]) for line in lines if line.get("label") == label}

    def drop_evaluation(self, label: str) -> None:
        """Drops the results under a label; its episodes are replaced when it is evaluated again."""
        filter_lines(self.directory / _EVALUATIONS, lambda line: line.get("label") != label)

    def trajectories(
        self,
        label: str,
        trajectories: Sequence[Trajectory],
        notes: Notes | None = None,
        limit: int | None = None,
    ) -> None:
        """Records episodes of an evaluation or of a training iteration, including images.

        The first call for a label starts a new file, so that an evaluation repeated after a resumption
        replaces the interrupted one; further calls, for further worlds, append to it.

        Args:
            label: The evaluation's label, or `training_label` of an iteration.
            trajectories: N episodes.
            notes: N lists with a note on each turn; None for no notes.
            limit: Maximum number of episodes to record, from the start; None for all.

        Raises:
            ValueError: If there are not as many notes as turns.
        """
        path = self.directory / "trajectories" / f"{slug(label)}.jsonl"
        if path.name not in self._started_labels:
            self._started_labels.add(path.name)
            replace_file(path, b"")
        known: Notes = (
            [[TurnNotes()] * len(trajectory.turns) for trajectory in trajectories] if notes is None else notes
        )
        for trajectory, turn_notes in list(zip(trajectories, known, strict=True))[:limit]:
            append_line(path, episode_record(trajectory, turn_notes, self._images.save))

    def _drop_from(self, iteration: int, phase: int) -> None:
        """Drops the data recorded from an iteration of a phase on."""
        is_last_phase = phase == len(PHASES) - 1
        before = iteration if is_last_phase else 1  # evaluations count iterations of the last phase

        def keep_metrics(line: Record) -> bool:
            return (_phase_index(line), line.get("iteration", 0)) < (phase, iteration)

        def keep_evaluation(line: Record) -> bool:
            made_at = line.get("iteration", 0)
            # An evaluation between two iterations comes before the checkpoint of the same number; the last
            # one after
            between = made_at == iteration and str(line.get("label")) == validation_label(iteration)
            return bool(made_at < before or (is_last_phase and between))

        filter_lines(self.directory / _METRICS, keep_metrics)
        dropped = filter_lines(self.directory / _EVALUATIONS, keep_evaluation)
        folder = self.directory / "trajectories"
        kept = {slug(line["label"]) for line in read_lines(self.directory / _EVALUATIONS) if "label" in line}
        for name in {slug(line["label"]) for line in dropped if "label" in line} - kept:
            (folder / f"{name}.jsonl").unlink(missing_ok=True)
        for path in folder.glob("training-*.jsonl"):
            trained = _trained_iteration(path.stem)
            if trained >= iteration or not is_last_phase:
                path.unlink()


def holds_run(directory: Path) -> bool:
    """Returns whether a directory contains any file of a run."""
    return any((directory / name).exists() for name in (_CONFIG, _METRICS, _EVALUATIONS))


class RunReader:
    """Reads a run's data, also while the run is being written.

    Args:
        directory: The run's directory.

    Raises:
        MissingRunDataError: If the run does not exist.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        if not (self.directory / _CONFIG).is_file():
            if (self.directory / _OF_BOARDS).is_file():
                page = self.directory / "index.html"
                raise MissingRunDataError(f"{self.directory} is a board, not a run. Its episodes are shown by {page}.")
            raise MissingRunDataError(
                f"Expected a run directory with a {_CONFIG}; {self.directory} "
                f"{'has none' if self.directory.is_dir() else 'does not exist'}. "
                "python -m training writes runs/<name>; RecordEpisodes of vlm_envs.records.recording writes any."
            )

    @property
    def config(self) -> Record:
        """The resolved configuration, versions, and commit.

        Raises:
            MissingRunDataError: If the file is a checkpoint's, which has the same name.
        """
        path = self.directory / _CONFIG
        found = parse_object(path.read_bytes(), str(path))
        if found.keys() >= _OF_CHECKPOINTS:
            raise MissingRunDataError(
                f"{self.directory} is a checkpoint, not a run: its {_CONFIG} describes a model. Name the directory of "
                "a run, such as runs/frozenlake_tiny."
            )
        return found

    def metrics(self) -> list[Record]:
        """Returns the metrics of every iteration, in the order in which they were written; empty before the first."""
        return read_lines(self.directory / _METRICS)

    def evaluations(self) -> list[Record]:
        """Returns every evaluation, in the order in which they were made."""
        return read_lines(self.directory / _EVALUATIONS)

    def trajectory_labels(self) -> list[str]:
        """Returns the labels with recorded episodes: evaluations in their order, then training, then others by name."""
        recorded = {path.stem for path in (self.directory / "trajectories").glob("*.jsonl")}
        labels = {slug(line["label"]): str(line["label"]) for line in self.evaluations() if "label" in line}
        others = recorded - labels.keys()
        training = sorted((name for name in others if _trained_iteration(name) >= 0), key=_trained_iteration)
        return [
            *(label for name, label in labels.items() if name in recorded),
            *(training_label(_trained_iteration(name)) for name in training),
            *sorted(others.difference(training)),
        ]

    def trajectories(self, label: str) -> list[Record]:
        """Returns the recorded episodes of an evaluation; raises `MissingRunDataError` if its label has none."""
        return read_lines(self._recorded(label))

    def each_trajectory(self, label: str) -> Iterator[tuple[str, Record | BrokenRunDataError]]:
        """Yields the location and content of each of these episodes, or the error for one that cannot be read."""
        return each_line(self._recorded(label))

    def _recorded(self, label: str) -> Path:
        path = self.directory / "trajectories" / f"{slug(label)}.jsonl"
        if not path.is_file():
            known = self.trajectory_labels()
            raise MissingRunDataError(
                f"No trajectories labeled {label!r} in {self.directory}; recorded: "
                f"{', '.join(map(repr, known)) or 'none'}.{did_you_mean(label, known)}"
            )
        return path

    def image(self, name: str) -> bytes:
        """Returns the PNG file of an image. See `ImageStore.load`."""
        return ImageStore(self.directory).load(name)


def validation_label(iteration: int) -> str:
    """Returns the label of the evaluation on validation levels after this many iterations."""
    return f"iteration {iteration}"


def training_label(iteration: int) -> str:
    """Returns the label under which episodes of a training iteration are recorded."""
    return f"training {iteration}"


def is_training_label(label: str) -> bool:
    """Returns whether a label is one that `training_label` returns."""
    return _trained_iteration(slug(label)) >= 0


def _trained_iteration(name: str) -> int:
    """Returns the iteration of a slug of `training_label`; -1 for another label's."""
    found = re.fullmatch(r"training-(\d+)", name)
    return int(found[1]) if found else -1


def slug(label: str) -> str:
    """Returns a label as a file name: `"Iteration 20"` becomes `"iteration-20"`.

    Raises:
        ValueError: If no character of the label can be used.
    """
    name = re.sub(r"[^a-z0-9._]+", "-", label.lower()).strip("-._")
    if not name:
        raise ValueError(f"A label needs at least one letter or digit, such as 'before'; got {label!r}.")
    return name


def _phase_index(line: Record) -> int:
    phase = line.get("phase", PHASES[-1])
    return PHASES.index(phase) if phase in PHASES else len(PHASES) - 1


class ImageStore:
    """The folder `images` of a run or a board.

    Args:
        directory: Directory of the run or the board; created when the first image is saved.
        sync: Whether saved images must also survive a power failure.
    """

    def __init__(self, directory: Path, *, sync: bool = False) -> None:
        self._folder = directory / "images"
        self._sync = sync

    def save(self, image: npt.NDArray[np.uint8]) -> str:
        """Writes an image, uint8[H, W, 3], unless it already exists, and returns its name."""
        return self.add(_encoded(image))

    def add(self, png: bytes) -> str:
        """Writes a PNG file unchanged unless it already exists, and returns its name."""
        name = hashlib.sha256(png).hexdigest()
        path = self._path(name)
        if not path.exists() or path.stat().st_size != len(png):
            replace_file(path, png, sync=self._sync)
        return name

    def restore(self, name: str, image: npt.NDArray[np.uint8]) -> bytes:
        """Writes a missing image, drawn again as uint8[H, W, 3], and returns its PNG file.

        Raises:
            BrokenRunDataError: If its file does not have the given name; nothing is written.
        """
        png = _encoded(image)
        if hashlib.sha256(png).hexdigest() != name:
            raise BrokenRunDataError(f"the image drawn now, encoded by Pillow {PIL.__version__}, is not {name}")
        replace_file(self._path(name), png)  # without sync: an image lost again can be drawn again
        return png

    def clean(self) -> None:
        """Removes incomplete files left by a killed process. No other process may be writing."""
        for path in self._folder.glob(f"*/.*{TEMPORARY}"):
            path.unlink(missing_ok=True)

    def holds(self, name: str) -> bool:
        """Returns whether there is an image with that name."""
        return self._path(name).is_file()

    def load(self, name: str) -> bytes:
        """Returns the PNG file of an image.

        Args:
            name: Its SHA-256, as episodes name it.

        Raises:
            MissingRunDataError: If the image does not exist.
            BrokenRunDataError: If the name is not valid.
        """
        path = self._path(name)
        if not path.is_file():
            raise MissingRunDataError(f"Expected image {name} at {path}; was the folder copied without images/?")
        return path.read_bytes()

    def _path(self, name: str) -> Path:
        """Returns the path of an image; a name that is not a hash never becomes a path."""
        if not re.fullmatch(r"[0-9a-f]{64}", name):
            raise BrokenRunDataError(f"The name of an image must be 64 hexadecimal digits; got {name!r}.")
        return self._folder / name[:2] / f"{name}.png"


def _encoded(image: npt.NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(require_image(image)).save(buffer, format="PNG")
    return buffer.getvalue()


OF_PROVIDER = ("stop_detail", "summary", "request", "raw")
"""Fields that only turns of agents behind an API have."""


@dataclass(frozen=True, kw_only=True)
class TurnNotes:
    """Scores and values that judges and the trainer assign to one turn.

    Attributes:
        judge_terms: Terms of judges and episode rewards.
        scores: Judges' scores of its sections, from 0 to 1, before weights.
        credit: The algorithm's credit: `value` of the prefix before its first token, mean `advantage` of its
            tokens; empty if none were estimated.
    """

    judge_terms: tuple[PaidTerm, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    credit: Mapping[str, float] = field(default_factory=dict)


Notes = Sequence[Sequence[TurnNotes]]


def episode_record(
    trajectory: Trajectory,
    notes: Sequence[TurnNotes],
    save_image: Callable[[npt.NDArray[np.uint8]], str],
) -> Record:
    """Returns an episode as it is stored: text, numbers, and the names of images.

    Args:
        trajectory: The episode.
        notes: A note on each turn.
        save_image: Stores an image, uint8[H, W, 3], and returns its name.

    Returns:
        The record. `reward` is the world's own; `reward_terms` lists all terms, including those of judges. `state` and
        `state_text` describe the state the agent saw, `state_text_after` the one its actions led to; the same holds
        for `optimal_actions_before` and `optimal_actions_left`. `credit` contains the tokens' mean log-probability,
        `logprob`, if the agent provided them. `system` exists only if a turn shows one, `level` only if the episode
        began on a given level, `cluster` only if other levels share its content (an image or a document). For agents
        behind an API, turns have `raw`, their provider's reply; `stop_detail`, if a limit of the model ended the
        response; `summary`, if one was written before the turn; and the first turn has `request`. Only lenient
        episodes have `reading`; in them, turns without an action have `unread`, which explains why none could be read,
        and `expects_observation` is true if the format has an `<observation>`.
    """
    records = [_turn_record(turn, said, save_image) for turn, said in zip(trajectory.turns, notes, strict=True)]
    return {
        "env_id": trajectory.env_id,
        "world": trajectory.world,
        "seed": trajectory.seed,
        "start_state_hash": trajectory.start_state_hash,
        "success": trajectory.success,
        "total_reward": trajectory.total_reward,
        "metrics": trajectory.turns[-1].info.get("metrics") or {},
        "policy_version": trajectory.policy_version,
        "turns": records,
        "final": _shown(trajectory.final_observation, save_image),
        **({"level": trajectory.level} if trajectory.level else {}),
        **_cluster_of(trajectory),
        **_reading_of(trajectory),
    }


def start_of(trajectory: Trajectory) -> Record:
    """Returns the part of an episode's record that `vlm_envs.statistics.success_rates` reads."""
    start = {"seed": trajectory.seed, "start_state_hash": trajectory.start_state_hash}
    return start | _cluster_of(trajectory)


def _cluster_of(trajectory: Trajectory) -> Record:
    cluster = trajectory.turns[-1].info.get("cluster")
    return {"cluster": cluster} if cluster else {}


def _shown(observation: Observation, save_image: Callable[[npt.NDArray[np.uint8]], str]) -> Record:
    images = [save_image(image) for image in observation_images(observation)]
    system = {"system": observation["system"]} if observation.get("system") else {}
    return {"text": observation.get("text", ""), "images": images, **system}


def _turn_record(turn: Turn, said: TurnNotes, save_image: Callable[[npt.NDArray[np.uint8]], str]) -> Record:
    info = turn.info
    return {
        **_shown(turn.observation, save_image),
        "response": turn.response_text,
        "stop_reason": turn.stop_reason,
        "sections": info.get("sections") or {},
        "actions": info.get("actions") or (),
        "reward": turn.reward,
        "reward_terms": (*turn.reward_terms, *said.judge_terms),
        "scores": said.scores,
        "credit": {**_mean_logprob(turn), **said.credit},
        "state": turn.state,
        "state_text": turn.state_text,
        "state_text_after": info.get("state_text"),
        "parse_error": info.get("parse_error"),
        "worker_error": info.get("worker_error"),
        "agent_error": info.get("agent_error"),
        "thoughts": turn.thoughts,
        "usage": turn.usage,
        "model": turn.model,
        "terminated": turn.terminated,
        "truncated": turn.truncated,
        "action_effective": info.get("action_effective"),
        "optimal_actions_before": turn.optimal_actions_left,
        "optimal_actions_left": info.get("optimal_actions_left"),
        "state_hash": info.get("state_hash"),
        **({"context_full": True} if info.get("context_full") else {}),
        **{name: value for name in OF_PROVIDER if (value := getattr(turn, name))},
        **({"unread": info["unread"]} if _is_lenient(turn) and info.get("unread") else {}),
    }


def recorded_terms(turn: Mapping[str, Any]) -> tuple[PaidTerm, ...]:
    """Returns all reward terms of a recorded turn: the world's, then judges', then an episode reward's."""
    terms = turn.get("reward_terms", ())
    if isinstance(terms, Mapping):
        return _terms_by_name(terms, turn.get("shaping") or {})
    return tuple(PaidTerm(**{**term, "value": _number(term["value"])}) for term in terms)


def _terms_by_name(rewards: Mapping[str, Any], shaping: Mapping[str, Any]) -> tuple[PaidTerm, ...]:
    """Returns the terms of early records: values by name, judges' terms apart, neither sources nor weights."""
    sources = {name: f"episode:{name.partition('/')[0]}" if "/" in name else "judge" for name in shaping}
    return (
        *world_terms({name: _number(value) for name, value in rewards.items()}),
        *(
            PaidTerm(name=name, value=_number(shaping[name]), source=source, weight=None)
            for name, source in sources.items()
        ),
    )


def _number(recorded: float | None) -> float:
    return math.nan if recorded is None else float(recorded)  # JSON has no NaN


def episode_keys(episodes: Iterable[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Returns the key of each episode: world, seed, and the number of earlier episodes with both.

    Equal keys in two evaluations denote the same level, which makes the episodes a pair. Keys are distinct
    within one list.
    """
    counts: Counter[tuple[str, int]] = Counter()
    keys = []
    for episode in episodes:
        level = (world_of(episode), int(episode["seed"]))
        keys.append((*level, counts[level]))
        counts[level] += 1
    return keys


def world_of(record: Mapping[str, Any]) -> str:
    """Returns the name of the world of an episode or an evaluation in its run; older runs recorded only env ids."""
    return str(record.get("world") or record.get("env_id", ""))


def levels_of(evaluation: Mapping[str, Any]) -> str:
    """Returns the kind of levels of an evaluation: `"held-out test levels"`, or `"levels"` without a split."""
    split = evaluation.get("split")
    kinds = {None: "", "train": "training ", "val": "held-out val ", "test": "held-out test "}
    return f"{kinds.get(split, f'{split} ')}levels"


def _reading_of(trajectory: Trajectory) -> Record:
    if not any(map(_is_lenient, trajectory.turns)):
        return {}
    expects_observation = any("observation" in turn.seen_sections for turn in trajectory.turns)
    return {"reading": "lenient", **({"expects_observation": True} if expects_observation else {})}


def _is_lenient(turn: Turn) -> bool:
    return turn.info.get("reading") == "lenient"


def _mean_logprob(turn: Turn) -> dict[str, float]:
    """Returns the mean log-probability of the sampled tokens, in nats per token."""
    return {"logprob": float(np.mean(turn.sampler_logprobs))} if len(turn.sampler_logprobs) else {}

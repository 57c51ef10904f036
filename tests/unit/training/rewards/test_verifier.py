"""Models that Argos verifies with, from a run's configuration to what an episode earns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.agent import Response
from agents.oracle import OracleAgent
from agents.perception.likelihood import HFLikelihood, LikelihoodQuery
from agents.rollout import rollout
from judges.episode_rewards.argos import reasoning_quality
from judges.episode_rewards.exact_models import seen_masks
from tests.unit.agents.perception.checkpoints import save_detector, save_segmenter
from tests.unit.judges.awaited import awaited
from tests.unit.judges.episodes import with_response, with_state
from training.config.judge_config import JudgeConfig, VerifierConfig
from training.curation.curation_config import CurateConfig
from training.curation.curation_loop import curation_judge, filter_rollouts
from training.rewards.turn_scores import TurnScorer
from training.rewards.verifier import Verifier
from vlm_envs.errors import ConfigError, EngineUnavailableError

SETTINGS = ("side_px=400", "target_px=(16, 40)", "answer_kinds=('choice', 'number')", "prompt_format=points")
CHOSEN = CurateConfig(settings=SETTINGS, num_samples=2, num_rollouts=1)
(WORLD,) = CHOSEN.specs


@pytest.fixture(scope="module")
def trajectories():
    with WORLD.make_vector(2, split="train") as worlds:
        return rollout(OracleAgent(), worlds, [0, 1], env_ids=[WORLD.env_id] * 2)


def argos(**directories) -> JudgeConfig:
    verifier = VerifierConfig(**{name: str(path) for name, path in directories.items()})
    return JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward="argos", verifier=verifier)


def looking(config):
    """What finds masks in an episode, one question after the other."""
    ask = Verifier(config).models["picture_masks"]

    async def look(picture, label):
        return ask([(picture, label)])[0]

    def masks(episode):
        found = seen_masks(look, episode)
        return None if found is None else awaited(found)

    return masks


def qualities(model, trajectories):
    """What the likelihood model should have made of each episode, asked by hand."""
    for trajectory in trajectories:
        (turn,) = trajectory.turns
        reasoning = turn.response_text.split("</think>")[0].removeprefix("<think>")
        options = turn.info["state"]["options"]
        asked = "\n".join([turn.info["state"]["question"], *(f"{'ABCD'[i]}. {o}" for i, o in enumerate(options))])
        query = LikelihoodQuery(
            question=asked,
            reasoning=reasoning.strip(),
            answer=turn.info["state"]["answer"],
            images=turn.observation["images"],
        )
        yield reasoning_quality(model.log_probs([query])[0])


def test_a_checkpoint_pays_for_reasoning(tiny_directory, trajectories):
    plain = TurnScorer(argos()).score(trajectories)
    scored = TurnScorer(argos(likelihood=tiny_directory)).score(trajectories)
    expected = list(qualities(HFLikelihood.from_pretrained(tiny_directory), trajectories))
    assert all(0.0 < quality < 0.5 for quality in expected), "an untrained model is not convinced"
    for before, after, quality in zip(plain, scored, expected, strict=True):
        (raw,) = (turn.reward for turn in before.trajectory.turns)
        assert before.turn_rewards == pytest.approx([raw + 1.0])
        # Accuracy 1, grounding 1 where there is something to point at, and the quality
        terms = after.turns[-1].rewards
        parts = [1.0, 1.0, quality] if "argos/grounding" in terms else [1.0, quality]
        assert after.turn_rewards == pytest.approx([raw + np.mean(parts)], abs=1e-5)
        assert terms["argos/reasoning"] == pytest.approx(quality / len(parts), abs=1e-5)


def test_scenes_keep_exact_masks_and_single_pictures_get_the_detectors(tmp_path, trajectories):
    directories = save_detector(tmp_path / "detector"), save_segmenter(tmp_path / "segmenter")
    masks = looking(VerifierConfig(detector=str(directories[0]), segmenter=str(directories[1])))
    scene = trajectories[0]
    assert masks(scene)("no word a scene knows", None, None) is None
    other = with_state(scene, sample_id="vstar:7")
    (picture,) = scene.turns[0].observation["images"]
    assert masks(other)("red mug", None, None).shape == picture.shape[:2]
    for images in ((), (picture, picture)):
        first = replace(other.turns[0], observation={"text": "", "images": images})
        assert masks(replace(other, turns=(first,))) is None


def test_a_point_in_a_video_is_looked_for_in_its_frame(monkeypatch, trajectories):
    class Masker:
        """Sees one thing, where the picture is bright."""

        @staticmethod
        def mask(picture, label):
            return picture[..., 0] > 100

    monkeypatch.setattr(
        "agents.perception.grounding_dino_sam.GroundingDinoSam.from_pretrained", lambda *_, **__: Masker
    )
    masks = looking(VerifierConfig(detector="one", segmenter="other"))
    dark, bright = np.zeros((4, 6, 3), np.uint8), np.full((4, 6, 3), 255, np.uint8)
    video = with_state(trajectories[0], sample_id="video_r1:7", times_s=[0.0, 2.0, 4.0])
    frames = replace(video.turns[0], observation={"text": "", "images": (dark, bright, dark)})
    mask = masks(replace(video, turns=(frames, *video.turns[1:])))
    seen = {asked: mask("mug", *asked).any() for asked in ((1, None), (2, None), (None, 1.2), (None, 9.0), (2, 0.0))}
    assert seen == {(1, None): False, (2, None): True, (None, 1.2): True, (None, 9.0): False, (2, 0.0): True}
    assert not mask("mug", 4, None).any() and mask("mug", 0, None).shape == (4, 6), "no such frame: no such thing"
    assert mask("mug", None, None) is None


def test_masks_come_in_one_batch_and_siblings_share_them(monkeypatch, trajectories):
    asked = []

    class Masker:
        """Sees everything everywhere, but no kites."""

        @staticmethod
        def mask(picture, label):
            asked.append(label)
            return None if label == "kite" else np.full(picture.shape[:2], label == "mug")

    monkeypatch.setattr(
        "agents.perception.grounding_dino_sam.GroundingDinoSam.from_pretrained", lambda *_, **__: Masker
    )
    batches, ask = [], Verifier._asked

    def counted(self, method, questions, units):
        batches.append([[questions[place][1] for place in unit] for unit in units])
        return ask(self, method, questions, units)

    monkeypatch.setattr(Verifier, "_asked", counted)

    def pointing(episode, *labels):
        points = " ".join(f'<points x1="50" y1="50" alt="{label}">{label}</points>' for label in labels)
        answer = episode.turns[-1].info["state"]["answer"]
        written = with_response(episode, f"<think>I see {points}.</think><answer>{answer}</answer>")
        (turn,) = with_state(written, sample_id="vstar:7").turns
        images = tuple(image.copy() for image in turn.observation["images"])  # as another world draws the same
        return replace(written, turns=(replace(turn, observation={"text": "", "images": images}),))

    first, second = trajectories
    episodes = [pointing(first, "mug", "cup"), pointing(first, "mug"), pointing(second, "mug"), pointing(first, "kite")]
    scored = TurnScorer(argos(detector="one", segmenter="other")).score(episodes)
    assert batches == [[["mug", "cup", "kite"], ["mug"]]], "all at once, a picture's together"
    assert sorted(asked) == ["cup", "kite", "mug", "mug"], "a picture's label once"
    # Accuracy 1 beside half of the points, all, all, and 0 for a label that nobody can tell about
    totals = [sum(each.turns[-1].rewards.values()) for each in scored]
    assert totals == pytest.approx([0.75, 1.0, 1.0, 0.5])


def test_a_pointing_agent_is_asked_where_the_detector_finds_nothing(tmp_path, monkeypatch, trajectories):
    asked = []

    class Pointer:
        def start(self, worlds):
            assert worlds.num_envs == 1

        def respond(self, rows, observations):
            asked.extend(each["text"] for each in observations)
            return [Response(text='<point x="50" y="50" alt="bar">bar</point>') for _ in rows]

    monkeypatch.setattr("training.rewards.verifier.make_agent", lambda name: Pointer())
    monkeypatch.setattr(
        "agents.perception.grounding_dino_sam.GroundingDino.boxes", lambda self, picture, label: torch.zeros(0, 4)
    )
    one, other = save_detector(tmp_path / "detector"), save_segmenter(tmp_path / "segmenter")
    config = VerifierConfig(detector=str(one), segmenter=str(other), pointer="compatible:molmo@http://127.0.0.1:1/v1")
    chart = with_state(trajectories[0], sample_id="video_r1:7")
    (picture,) = chart.turns[0].observation["images"]
    seen = []
    monkeypatch.setattr(
        "agents.perception.grounding_dino_sam.Sam.mask_at",
        lambda self, picture, points_N2: seen.append(points_N2.tolist()) or np.ones(picture.shape[:2], bool),
    )
    masks = Verifier(config).models["picture_masks"]
    for _ in range(2):
        (mask,) = masks([(picture, "tallest bar")])
        assert mask.unpacked().all()
    height, width = picture.shape[:2]
    assert seen == [[[width / 2, height / 2]]] * 2 and asked == ["Point at: tallest bar"], "one label, one question"


def test_curation_asks_the_same_models(tiny_directory, trajectories):
    groups = [[trajectory] for trajectory in trajectories]
    plain = CHOSEN
    strict = replace(CHOSEN, verifier=VerifierConfig(likelihood=str(tiny_directory)), threshold=0.95)
    # (1 + 1 + quality) / 3 stays below 0.95 with a model that is not convinced
    for chosen, num_good in ((plain, 2), (strict, 0)):
        with curation_judge(chosen) as judge:
            found = filter_rollouts(groups, chosen, judge, drops_trivial=False)
        assert found.curated.num_good_rollouts == num_good
        assert found.rejections == ({} if num_good else {"threshold": 2})


def test_without_models_nothing_is_loaded():
    assert Verifier(VerifierConfig()).models == {}


def test_what_cannot_be_used_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="give both detector and segmenter, or neither; got a and None"):
        VerifierConfig(detector="a")
    with pytest.raises(EngineUnavailableError, match="No checkpoint"):
        Verifier(VerifierConfig(likelihood=str(tmp_path)))
    with pytest.raises(EngineUnavailableError, match="No weights"):
        Verifier(VerifierConfig(detector=str(tmp_path), segmenter=str(tmp_path)))


def test_settings_of_actors_have_a_range():
    with pytest.raises(ConfigError, match="workers must be one of 'local', 'ray'; got 'process'"):
        VerifierConfig(likelihood="a", workers="process")
    for wrong in ({"num_workers": 0}, {"num_gpus": -1.0}, {"timeout_s": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            VerifierConfig(likelihood="a", workers="ray", **wrong)


def test_paths_are_whole_where_somebody_in_another_folder_reads_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = VerifierConfig(likelihood="models/a", workers="ray", num_workers=3)
    assert config.absolute() == replace(config, likelihood=str(tmp_path / "models" / "a"))

"""What a verifier in actors makes of episodes and of runs is what one in the trainer's own process makes of them."""

import os
import re
import shutil
import signal
import sys
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import psutil
import pytest

from agents.oracle import OracleAgent
from agents.rollout import rollout
from tests.ray.processes import CHECKOUT, model_actors, wait_until
from tests.ray.runs import lines, training
from tests.unit.agents.perception.checkpoints import save_detector, save_segmenter
from tests.unit.judges.episodes import with_response, with_state
from tests.unit.models import save_tiny
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.config.judge_config import JudgeConfig, VerifierConfig
from training.config.world_spec import WorldSpec
from training.rewards.turn_scores import TurnScorer
from vlm_envs.errors import EngineUnavailableError, WorkerError

CHECKPOINT = CHECKOUT / "training" / "recipes" / "checkpoints" / "frozenlake_tiny"
POINTS = ((50, "red mug"), (9, "kite"))
LIKELY = """
import math
from judges.asking import BatchedModel
from judges.episode_rewards.reward_registry import register
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.scores import Reward

def build(models):
    likelihoods = BatchedModel(models.likelihoods)
    async def likely(episode):
        said = await likelihoods(episode, "What next?", "", episode.turns[-1].response_text[:40])
        if said is None:
            return Reward.unavailable("no answer")
        return Reward(terms={"likely": math.exp(sum(said) / len(said))})
    return EachByItself(likely)

register(EpisodeReward(name="likely", build=build, models=frozenset({"likelihoods"})))
"""


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Tiny models of random weights."""
    root = tmp_path_factory.mktemp("models")
    save_tiny(root / "likelihood")
    save_detector(root / "detector"), save_segmenter(root / "segmenter")
    return root


@pytest.fixture(scope="module")
def episodes():
    """Right answers about pictures of which nothing is known, each with points; the first two are of one picture."""
    kwargs = {"side_px": 400, "target_px": (16, 40), "answer_kinds": ("choice", "number"), "prompt_format": "points"}
    spec = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=kwargs)
    with spec.make_vector(12, split="train") as worlds:
        played = rollout(OracleAgent(), worlds, [0, 0, *range(1, 11)], env_ids=[spec.env_id] * 12)
    points = " ".join(f'<points x1="{place}" y1="{place}" alt="{name}">{name}</points>' for place, name in POINTS)
    pointing = [each.turns[-1].response_text.replace("<think>", f"<think>{points} ", 1) for each in played]
    return [
        with_state(with_response(each, text), sample_id=f"v:{number}")
        for number, (each, text) in enumerate(zip(played, pointing, strict=True))
    ]


def scorer(directories, **where):
    models = {name: str(directories / name) for name in ("likelihood", "detector", "segmenter")}
    nothing = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0}
    return closing(
        TurnScorer(JudgeConfig(**nothing, episode_reward="argos", verifier=VerifierConfig(**models, **where)))
    )


def paid(scored):
    return [(each.episode_available, each.turns[-1].rewards) for each in scored]


@pytest.mark.parametrize("num_workers", [1, 3])
def test_rewards_are_those_of_models_in_this_process_bit_by_bit(directories, episodes, num_workers):
    with scorer(directories) as here, scorer(directories, workers="ray", num_workers=num_workers) as there:
        expected = paid(here.score(episodes))
        assert paid(there.score(episodes)) == expected
        evaluation = there.for_evaluation()
        assert paid(evaluation.score(episodes)) == expected
        evaluation.close()
        assert len(model_actors(psutil.Process())) == num_workers, "which are not the evaluation's to close"
        assert there.metrics()["verifier/questions"] > 24, "likelihoods and masks, twice"
        assert here.metrics() == {}
    assert all({"argos/grounding", "argos/reasoning"} <= set(terms) for _, terms in expected)
    assert len({terms["argos/reasoning"] for _, terms in expected}) > 6


def test_an_actor_that_is_stopped_and_one_that_is_killed_cost_no_episode(directories, episodes):
    with scorer(directories) as here, scorer(directories, workers="ray", num_workers=2, timeout_s=1.0) as there:
        expected = paid(here.score(episodes))
        first, second = model_actors(psutil.Process())
        os.kill(first.pid, signal.SIGSTOP)
        os.kill(second.pid, signal.SIGKILL)
        found = paid(there.score(episodes))
        assert there.metrics()["verifier/lost_workers"] >= 2
    for (is_known, terms), (_, others) in zip(found, expected, strict=True):
        assert is_known and terms == pytest.approx(others, abs=1e-5)


def test_an_episode_that_no_actor_can_answer_about_is_masked_alone(directories, episodes):
    (turn,) = episodes[3].turns
    no_picture = replace(turn, observation={"text": "", "images": (np.zeros((9, 9), np.float32),)})
    broken = replace(episodes[3], turns=(no_picture,))
    with scorer(directories, workers="ray", num_workers=2) as there:
        scored = there.score([*episodes[:3], broken, *episodes[4:]])
        assert [each.episode_available for each in scored] == [number != 3 for number in range(12)]
        assert there.metrics()["verifier/unanswered"] == 1


def test_models_that_are_gone_are_told_at_the_start_and_later(tmp_path, directories, episodes):
    shutil.copytree(directories, tmp_path / "models")
    with scorer(tmp_path / "models", workers="ray") as there:
        shutil.rmtree(tmp_path / "models" / "likelihood")
        os.kill(model_actors(psutil.Process())[0].pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"No worker .*No checkpoint"):
            there.score(episodes)
    with pytest.raises(EngineUnavailableError, match=r"could not load .*: WeightsUnavailableError: No checkpoint"):
        scorer(tmp_path / "models", workers="ray")


def test_the_reward_of_ones_own_in_the_documents_is_spread(tmp_path, monkeypatch, episodes):
    (block,) = re.findall(r"```python\n(.*?)```", (CHECKOUT / "docs" / "scale.md").read_text(), flags=re.DOTALL)
    (tmp_path / "own_reasons.py").write_text(block.replace("num_workers=8", "num_workers=2"))
    monkeypatch.syspath_prepend(str(tmp_path))
    nothing = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0}
    scorer = TurnScorer(JudgeConfig(**nothing, episode_reward="own_reasons:reasons"))
    because, not_so = (with_response(episodes[0], text) for text in ("because", "so"))
    for each in (scorer, scorer.for_evaluation()):
        scored = each.score([because, not_so])
        assert [one.turns[-1].rewards for one in scored] == [{"reasons/reason": 1.0}, {"reasons/reason": 0.0}]
    # Those of a test before may take a moment to be gone
    assert wait_until(lambda: len(model_actors(psutil.Process())) == 2), "the evaluation's are the same"
    sys.modules["own_reasons"].actors().close()


LONG = pytest.mark.timeout(900)  # programs that wait for each other; a busy machine takes its time


@pytest.fixture
def run(tmp_path):
    """Starts runs under a reward that asks a likelihood model about every episode."""
    (tmp_path / "own_likely.py").write_text(LIKELY)
    shutil.copytree(CHECKPOINT, tmp_path / "model")

    def start(name, workers, *words, **more):
        settings = {
            "judge.episode-reward": "own_likely:likely",
            "judge.verifier.likelihood": str(tmp_path / "model"),
            "judge.verifier.workers": workers,
            "eval-every": "0",
            "num-eval-episodes": "0",
        }
        return training(tmp_path / "runs", name, *words, paths=(tmp_path,), **settings | more)

    return start


def finished(started):
    told, _ = started.communicate(timeout=280)
    return started.returncode, told


@LONG
def test_a_run_whose_models_are_on_ray_is_that_of_models_in_its_own_process(run, tmp_path):
    for workers in ("local", "ray"):
        more = {"judge.verifier.num-workers": "2"} if workers == "ray" else {}
        status, told = finished(run(workers, workers, **more))
        assert status == 0, told
    local, ray = (tmp_path / "runs" / name for name in ("local", "ray"))
    weights = [(each / "latest" / "model" / "model.safetensors").read_bytes() for each in (local, ray)]
    assert weights[0] == weights[1]
    logged = lines(ray)
    asked = [{name: line.pop(name) for name in list(line) if name.startswith("verifier/")} for line in logged]
    assert logged == lines(local)
    assert asked[-1] == {"verifier/questions": 8, "verifier/unanswered": 0, "verifier/lost_workers": 0}


@LONG
def test_a_run_goes_on_when_actors_are_killed_stops_when_none_is_left_and_is_resumed(run, tmp_path):
    started = run("ray", "ray", **{"num-iterations": "500", "judge.verifier.num-workers": "2"})
    directory, until = tmp_path / "runs" / "ray", time.monotonic() + 240

    def num_done():
        return len(lines(directory)) if (directory / "metrics.jsonl").exists() else 0

    while num_done() < 1 and started.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    done = num_done()
    for actor in model_actors(psutil.Process(started.pid)):  # who is asked when all questions fit into one unit?
        os.kill(actor.pid, signal.SIGKILL)
        if wait_until(lambda: any(line.get("verifier/lost_workers") for line in lines(directory)), timeout_s=20):
            break
    assert lines(directory)[-1]["verifier/lost_workers"] >= 1
    assert num_done() > done and started.poll() is None
    shutil.move(tmp_path / "model", tmp_path / "elsewhere")
    for actor in model_actors(psutil.Process(started.pid)):
        os.kill(actor.pid, signal.SIGKILL)
    status, told = finished(started)
    assert status == 2, told
    assert "No worker" in told and "No checkpoint" in told and "saved as of" in told, told
    done = load_checkpoint_state(directory / "latest")["iteration"]
    assert done >= 1
    shutil.move(tmp_path / "elsewhere", tmp_path / "model")
    more = {"num-iterations": str(done + 1), "judge.verifier.num-workers": "None"}
    status, told = finished(run("ray", "local", "--resume", **more))
    assert status == 0, told
    assert load_checkpoint_state(directory / "latest")["iteration"] == done + 1

"""Agents are made by name; a wrong name, part or setting is told with its remedy, before anything costly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agents.agent import LearningAgent, Response
from agents.hf.sampling_config import SamplingConfig
from agents.oracle import OracleAgent
from agents.registry import AGENTS, AgentEntry, make_agent, make_learning_agent, require_agent, setting_names, usage
from agents.rollout import rollout
from tests.unit.episodes import play
from training.config.world_spec import WorldSpec
from vlm_envs import env_ids, make
from vlm_envs.errors import ConfigError, EngineUnavailableError, VLMEnvsError
from vlm_envs.responses.parsing import parse_response

CHECKOUT = Path(__file__).parents[3]


class Unasked(OracleAgent):
    """Takes no rows."""

    def respond(self, observations):
        return []


class Named(OracleAgent):
    """Takes its arguments by name only."""

    def respond(self, *, rows, observations):
        return []


class NoMethod(OracleAgent):
    """Has something else in place of a method."""

    start = None


class Unstarted(OracleAgent):
    """Is started without worlds."""

    def start(self):
        pass


def said(agent, seeds=range(3), **kwargs):
    return [turn.response_text for episode in play(agent, seeds, **kwargs) for turn in episode.turns]


def test_settings_are_passed_on():
    assert all(episode.success for episode in play(make_agent("oracle"), range(3), max_turns=(3,)))
    assert said(make_agent("oracle", mistake_rate=1.0, seed=1)) != said(make_agent("oracle"))
    assert setting_names("oracle") == ("mistake_rate", "suboptimal_rate", "tells_plan", "seed")


def test_random_is_repeated_by_its_seed():
    assert said(make_agent("random", seed=1)) == said(make_agent("random", seed=1))
    assert said(make_agent("random", seed=1)) != said(make_agent("random", seed=2))


@pytest.mark.parametrize("env_id", env_ids())
@pytest.mark.sample(5)
def test_random_can_play_every_world(env_id):
    try:
        world = make(env_id).unwrapped
        world.reset(seed=0)
    except (VLMEnvsError, ImportError) as error:
        pytest.skip(f"{env_id} cannot run here: {error}")
    response = make_agent("random").write(world)
    parsed = parse_response(response, world.turn_format, world.task.grammar, world.max_actions_per_turn)
    assert parsed.error is None, response
    world.step(response)
    world.close()


def test_a_checkpoint_is_named_by_its_directory(tiny_directory, tiny):
    sampling = SamplingConfig(max_new_tokens=4)
    named = make_agent(f"hf:{tiny_directory}", sampling=sampling, seed=1, device="cpu")
    model, encoder = tiny
    in_memory = make_learning_agent("hf", model=model, encoder=encoder, sampling=sampling, seed=1)
    assert isinstance(named, LearningAgent)
    assert said(named) == said(in_memory)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("orcale", {}, f"Unknown agent 'orcale'. Did you mean 'oracle'\\? Agents: {', '.join(map(usage, AGENTS))}; "),
        ("HF:x/y", {}, r"Did you mean 'hf:x/y'\?"),
        ("agents", {}, r"Did you mean 'hf:agents'\?"),
        ("oracle:3", {}, "takes nothing after a colon"),
        ("hf:", {}, "the part after the colon: hf:DIR"),
        ("hf", {}, "takes a checkpoint directory, hf:DIR"),
        ("oracle", {"mistakerate": 1}, r"has no setting 'mistakerate'; it has mistake_rate, .* Did you mean 'mistake"),
        ("random", {"sampling": 1}, "has no setting 'sampling'; it has seed"),
        ("HF:DIR", {}, r"^The agent 'HF:DIR': cannot import 'HF': .* Did you mean 'hf:DIR'\?"),
        ("agents.oracle:OracleAgnt", {}, r"agents\.oracle has no 'OracleAgnt'\. Did you mean 'OracleAgent'\?"),
        ("agents.oracle:World", {}, r"^The agent 'agents\.oracle:World' cannot be made: "),
        ("builtins:object", {}, r"^The agent 'builtins:object' has no policy_version; see agents\.agent\.Agent"),
        (
            f"{__name__}:Unasked",
            {},
            r"needs respond\(rows, observations\): ",
        ),
        (f"{__name__}:Named", {}, r"needs respond\(rows, observations\): "),
        (f"{__name__}:NoMethod", {}, r"needs start\(worlds\): None is not a callable"),
        (f"{__name__}:Unstarted", {}, r"Unstarted' needs start\(worlds\): too many"),
        (3, {}, r"'hf:DIR'; got 3\."),
    ],
)
def test_what_is_no_agent_is_explained(name, settings, message, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    with pytest.raises(ConfigError, match=message):
        make_agent(name, **settings)


def test_a_directory_that_is_not_there_is_explained_before_torch_is_imported():
    program = (
        "import sys\nfrom agents.registry import make_agent, require_agent\nmake_agent('oracle', seed=1)\n"
        "try:\n    require_agent('hf:nowhere')\nexcept FileNotFoundError as error:\n    print(error)\n"
        "print('torch' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=280, check=True
    ).stdout.splitlines()
    assert shown[0].startswith("No checkpoint at nowhere: expected a directory with config.json")
    assert shown[1] == "False"


def test_a_package_that_is_not_installed_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "agents.hf.hf_agent", raising=False)
    with pytest.raises(EngineUnavailableError, match=r"'hf' needs the package torch.*pip install -e '\.\[train\]'"):
        make_agent("hf")


def test_who_does_not_learn_is_no_learning_agent():
    with pytest.raises(ConfigError, match="'oracle' cannot learn"):
        make_learning_agent("oracle")


def test_a_new_agent_is_one_entry(monkeypatch):
    monkeypatch.setitem(AGENTS, "same", AgentEntry(factory="agents.oracle:OracleAgent", summary="x"))
    require_agent("same")
    assert said(make_agent("same")) == said(make_agent("oracle"))


def test_an_agent_of_ones_own_is_named_by_its_module():
    assert said(make_agent("agents.oracle:OracleAgent", mistake_rate=1.0)) == said(
        make_agent("oracle", mistake_rate=1.0)
    )


def test_a_person_is_shown_what_is_asked_and_writes_actions_or_whole_responses(monkeypatch, capsys):
    typed = iter(["Up", "<answer>Up</answer>"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    (episode,) = play(make_agent("human"), [0])
    assert [turn.response_text for turn in episode.turns] == ["<answer>Up</answer>"] * 2
    assert episode.turns[0].observation["text"].splitlines()[0] in capsys.readouterr().out


class AsyncWalker:
    """The simplest agent: a version and an async method."""

    policy_version = -1

    def __init__(self, *, move: str = "Right"):
        self._move = move

    async def respond(self, row, observation):
        return Response(text=f"<answer>{self._move}</answer>")


class ForgotItsArguments(AsyncWalker):
    async def respond(self, row):
        return Response(text="")


def test_an_agent_of_ones_own_may_be_one_async_method():
    agent = make_agent(f"{__name__}:AsyncWalker", move="Down")
    spec = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"prompt_format": "no_think"})
    with spec.make_vector(2, split="train") as worlds:
        played = rollout(agent, worlds, [1, 2], env_ids=[spec.env_id] * 2)
    assert {turn.info["actions"] for each in played for turn in each.turns} == {("Down",)}
    with pytest.raises(ConfigError, match=r"respond\(row, observation\)"):
        make_agent(f"{__name__}:ForgotItsArguments")

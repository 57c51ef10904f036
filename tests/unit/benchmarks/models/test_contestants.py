import pytest

from agents.oracle import RandomAgent
from benchmarks.models.play.contestants import contestants
from vlm_envs.errors import ConfigError


def test_a_title_is_what_the_board_says_and_nothing_else():
    plain, titled = (contestants([text], references=False)[0] for text in ("random,seed=3", "random,seed=3,as=a (b) c"))
    assert (plain.label, titled.label) == ("random,seed=3", "a (b) c")
    assert plain.digest == titled.digest and plain.identity == titled.identity


@pytest.mark.parametrize("pace", ["max_wait_s=60", "max_attempts=2", "api_key_variable=MY_KEY", "timeout_s=9"])
def test_pace_makes_no_other_agent(pace, monkeypatch):
    monkeypatch.setenv("MY_KEY", "a-key-of-mine")
    name = "compatible:tiny@http://127.0.0.1:9/v1"
    plain, paced = (contestants([text], references=False)[0] for text in (name, f"{name},{pace}"))
    assert (plain.label, plain.digest) == (paced.label, paced.digest)
    plain.close(), paced.close()


def test_one_agent_with_two_settings_may_have_two_titles():
    labels = [each.label for each in contestants(["random,as=one", "random,seed=1,as=two"])]
    assert labels == ["one", "two", "lazy", "oracle"]  # random is there already


@pytest.mark.parametrize("text", ["random,as=", "random,as= ", "random,as=a\nb", "random,as=a,as=b"])
def test_a_title_is_one_printable_name(text):
    with pytest.raises(ConfigError, match="as="):
        contestants([text])


def test_two_agents_need_two_titles():
    with pytest.raises(ConfigError, match="twice"):
        contestants(["random,as=one", "lazy,as=one"])


def test_two_names_of_one_agent_are_refused():
    with pytest.raises(ConfigError, match=r"--agent b is the same as a\. Leave one of them out") as refused:
        contestants(["random,as=a", "random,as=b"])
    assert "\n" not in str(refused.value)


def test_a_model_that_moved_is_the_same_model(monkeypatch):
    monkeypatch.setattr(RandomAgent, "identity", {"name": "weights"}, raising=False)
    monkeypatch.setattr("benchmarks.models.play.contestants.make_agent", lambda name, **settings: RandomAgent())
    with pytest.raises(ConfigError, match="--agent lazy is the same as random"):
        contestants(["random", "lazy"], references=False)


def test_a_runs_directory_stands_for_its_model(tmp_path, tiny_directory):
    model = tmp_path / "run" / "latest" / "model"
    model.parent.mkdir(parents=True)
    model.symlink_to(tiny_directory)
    (tmp_path / "run" / "config.json").write_text("{}")
    [named] = contestants([f"hf:{tmp_path / 'run'},temperature=0.5"], references=False)
    assert named.label == f"hf:{model},temperature=0.5"
    assert str(named.agent.directory) == str(model)
    with pytest.raises(ConfigError, match="twice"):
        contestants([f"hf:{tmp_path / 'run'}", f"hf:{model}"], references=False)

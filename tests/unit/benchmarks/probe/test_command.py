"""`python -m benchmarks probe`, on few levels."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from benchmarks.__main__ import main  # noqa: E402
from benchmarks.probe.command import lines  # noqa: E402
from benchmarks.probe.seeing import UNTAUGHT, Seeing, features_of, first_turns  # noqa: E402
from training.config.world_spec import WorldSpec  # noqa: E402
from vlm_envs.errors import ConfigError  # noqa: E402
from vlm_envs.splits import split_seeds  # noqa: E402

CHECKOUT = Path(__file__).parents[4]


def probe(tmp_path, *words):
    return main(["probe", "--results", str(tmp_path), *words])


@pytest.mark.soak
def test_random_weights_the_start_and_another_checkpoint_are_told_side_by_side(tmp_path, tiny_directory, capsys):
    few = ("--num-levels", "96", "--num-measured", "48", "--models", str(tiny_directory))
    assert probe(tmp_path, "--add", "frozenlake_tiny", *few) == 0
    seen = Seeing.load(tmp_path / "frozenlake_tiny.json")
    assert list(seen.skills) == [UNTAUGHT, "start", tiny_directory.name]
    assert set(seen.skills["start"]) == {"player_position", "target_position", "hole_positions"}
    assert seen.skills["start"]["player_position"] > 0.5, "where the player is is no secret"
    told = capsys.readouterr().out
    assert probe(tmp_path) == 0 and capsys.readouterr().out == told, "without --add the files are shown"
    assert told.count("| VLM/FrozenLake-v0 |") == 3 and tiny_directory.name in told.splitlines()[0]


def test_the_page_has_the_table_that_the_files_make():
    found = [Seeing.load(path) for path in sorted((CHECKOUT / "docs" / "probes").glob("*.json"))]
    assert "\n".join(lines(found)) in (CHECKOUT / "docs" / "training-results.md").read_text(), (
        "paste what python -m benchmarks probe prints"
    )


def test_walls_are_asked_for_although_the_state_does_not_tell_them():
    _, states = first_turns(WorldSpec(env_id="VLM/Sokoban-v0"), 2, 2)
    with WorldSpec(env_id="VLM/Sokoban-v0").made(split="train") as world:
        world.reset(seed=next(iter(split_seeds("train", 1))))
        assert states[0]["inner_walls"] == world.unwrapped.state.layout.inner_walls
    assert len({each["inner_walls"] for each in states}) > 1


def test_a_world_that_shows_nothing_is_refused_with_the_reason(tiny):
    model, encoder = tiny
    observations, _ = first_turns(WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"obs_mode": "text"}), 2, 2)
    with pytest.raises(ConfigError, match="shows 0 visual tokens in its first turn"):
        features_of(model, encoder, observations, "VLM/FrozenLake-v0")


def test_pictures_keep_their_order_and_their_number_is_the_same(tiny):
    model, encoder = tiny
    (first, second), _ = first_turns(WorldSpec(env_id="VLM/FrozenLake-v0"), 1, 1)
    clips = [
        {"text": "", "images": (one["image"], other["image"])} for one, other in ((first, second), (second, first))
    ]
    there, back = features_of(model, encoder, clips, "clips")
    width = len(there) // 2
    assert not torch.allclose(there[:width], there[width:], atol=1e-3), "they are two pictures"
    assert torch.allclose(there, torch.cat([back[width:], back[:width]]), atol=1e-5)
    with pytest.raises(ConfigError, match=r"16 or 16 \+ 16 visual tokens"):
        features_of(model, encoder, [first, clips[0]], "clips")


SEEN = Seeing(recipe="a", env_id="A", num_levels=32, num_measured=32, skills={"start": {"door": 0.5}})


def test_a_result_comes_back_from_its_file(tmp_path):
    SEEN.save(tmp_path / "a.json")
    assert Seeing.load(tmp_path / "a.json") == SEEN


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "KeyError('skills')"),
        ('{"skills": {"start": {"door": 0.5}}}', "missing 4 required keyword-only arguments"),
        ('{"recipe": "a", "skil', "JSONDecodeError"),
        ("[]", "TypeError"),
        (json.dumps(asdict(SEEN) | {"skills": {}}), "no model"),
        (json.dumps(asdict(SEEN) | {"skills": {"start": {"door": "wide"}}}), "'wide'"),
        (json.dumps(asdict(SEEN) | {"skills": {"start": {"door": 1}, "end": {}}}), "not the same entries"),
    ],
)
def test_a_result_that_cannot_be_read_is_named(tmp_path, capsys, text, told):
    SEEN.save(tmp_path / "a.json")
    (tmp_path / "b.json").write_text(text)
    assert probe(tmp_path) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {tmp_path / 'b.json'} is no result of a probe that this version reads: ")
    assert told in said


def test_checkpoints_that_nothing_would_be_shown_are_refused(tmp_path, capsys):
    SEEN.save(tmp_path / "a.json")
    assert probe(tmp_path, "--models", "runs/a", "runs/b") == 2
    assert "error: --models runs/a runs/b would do nothing" in capsys.readouterr().err


def test_a_wrong_name_and_an_empty_folder_say_what_there_is(tmp_path, capsys):
    assert probe(tmp_path, "--add", "sokoban_tony") == 2
    assert "Did you mean 'sokoban_tiny'" in capsys.readouterr().err
    assert probe(tmp_path) == 2
    assert "--add sokoban_tiny" in capsys.readouterr().err

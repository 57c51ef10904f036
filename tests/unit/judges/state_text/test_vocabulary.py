"""Vocabularies are data: weights from the paper, checked when written, enough to judge a world of one's own."""

import subprocess
import sys

import pytest

from judges.state_text.exact_judge import RULES, ExactJudge, GridRules
from judges.state_text.vocabulary import VOCABULARIES, Category, ObjectVocabulary, world_name


def test_weights_are_the_papers():
    weights = {world: {c.name: c.weight for c in vocabulary.categories} for world, vocabulary in VOCABULARIES.items()}
    assert weights == {"Sokoban": {"box": 0.5, "target": 0.5}, "FrozenLake": {"goal": 0.7, "holes": 0.3}}


@pytest.mark.parametrize("name", ["Sokoban", "VLM/Sokoban-v0", "VLM/Sokoban-v12", "vlm_envs:VLM/Sokoban-v0"])
def test_ids_and_names_name_the_same_world(name):
    assert world_name(name) == "Sokoban"


@pytest.mark.parametrize("word", ["is", "as", "this", "has", "us"])
def test_small_words_are_no_plurals(word):
    assert VOCABULARIES["Sokoban"].kind_of(word) is None


def test_weights_must_be_shares_and_references_point_back():
    key = Category(name="key", kind="key", state_key="key_position", weight=0.9)
    with pytest.raises(ValueError, match="sum to 1"):
        ObjectVocabulary(categories=(key,), words={}, symbols={})
    door = Category(name="door", kind="door", state_key="door_position", weight=1.0, relative_to=("key",))
    with pytest.raises(ValueError, match="Reorder"):
        ObjectVocabulary(categories=(door,), words={}, symbols={})


def test_a_new_world_is_one_scene(monkeypatch):
    key = Category(name="key", kind="key", state_key="key_position", weight=1.0)
    words = {"player": "player", "key": "key"}
    vocabulary = ObjectVocabulary(categories=(key,), words=words, symbols={".": (), "k": ("key",), "p": ("player",)})
    monkeypatch.setitem(RULES, "KeyRoom", GridRules(vocabulary))
    state = {"player_position": (0, 0), "key_position": (0, 2)}
    texts = {
        "natural_language": "The key is at the same row and to the right of the player.",
        "symbolic": "p.k\n...",
        "structured": "{player_position: (0, 0), key_position: (0, 2)}",
    }
    for representation, text in texts.items():
        assert ExactJudge("VLM/KeyRoom-v0", representation).score(text, state).value == 1.0


def test_the_judges_load_neither_torch_nor_their_siblings():
    rooms = "{'torch', 'transformers', 'agents', 'training'}"
    code = f"import sys, judges; print(sorted({rooms} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=280)
    assert done.stdout.strip() == "[]"

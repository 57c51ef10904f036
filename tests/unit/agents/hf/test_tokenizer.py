"""What tells answers apart is one token wherever it stands, in worlds that ask questions."""

from __future__ import annotations

from agents.hf.tiny_vlm import build_tokenizer, file_name_parts, telling_words

SCENES, REPORTS, GRIDS = ("VLM/RewardJudging-v0",), ("VLM/DocQA-v0",), ("VLM/FrozenLake-v0",)


def tokens(tokenizer, text):
    return [tokenizer.decode([each]).strip() for each in tokenizer(text)["input_ids"]]


def test_colours_kinds_and_coordinates_stay_whole():
    words = telling_words(SCENES)
    tokenizer = build_tokenizer(["The only red hat there is red. What else? [12, 7, 112, 90]"] * 80, words=words)
    for text in ("A red hat.", "Two red hats, red, all of them", "The only red hat there is red."):
        assert {"red", "hat"} <= set(tokens(tokenizer, text))
    assert "hat" not in tokens(tokenizer, "What else?")
    assert {"12", "7", "112", "90"} <= set(tokens(tokenizer, "[12, 7, 112, 90]"))


def test_names_are_cut_alike_in_questions_and_calls():
    tokenizer = build_tokenizer([], words=telling_words(REPORTS), parts=file_name_parts(REPORTS))
    for text in ("names Kasimir Vance? Give", '"query": "that names Kasimir Vance Give"'):
        assert {"Kasimir", "Vance"} <= set(tokens(tokenizer, text))
    assert {"harrowgate_mills_", "growers_cooperative_", "2018"} <= set(
        tokens(tokenizer, "harrowgate_mills_growers_cooperative_2018.pdf")
    )


def test_colours_sides_and_round_coordinates_of_a_table_stay_whole():
    words = telling_words(("VLM/PrimitiveSkillPlace-v0",))
    told = "Put the red cube on the left target. pick(-50,150,20)"
    tokenizer = build_tokenizer([told] * 80, words=words)
    assert {"red", "left", "50", "150", "20"} <= set(tokens(tokenizer, told))


def test_other_worlds_have_no_such_words():
    assert telling_words(GRIDS) == file_name_parts(GRIDS) == ()

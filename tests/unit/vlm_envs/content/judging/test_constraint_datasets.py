"""Rows of MM-IFEval whose constraints nobody could judge by are broken rows."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from tests.unit.vlm_envs.content.judging.test_judging_datasets import instruction, write
from vlm_envs.content.judging.judging_datasets import judging_dataset


def judged_by(**judge: Any) -> dict[str, Any]:
    """A row that every response would pass, were it read."""
    return {"constraints": [{"key": "k", "value": "Be short.", "judge": {"method": "rule_based"} | judge}]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (judged_by(verify_funcs=None), "expected a list of at least one call as 'verify_funcs'; got"),
        (judged_by(verify_funcs=5), "expected a list of at least one call as 'verify_funcs'; got"),
        (judged_by(verify_funcs=[]), "expected a list of at least one call as 'verify_funcs'; got"),
        (judged_by(verify_funcs={}), "expected a list of at least one call as 'verify_funcs'; got"),
        (judged_by(), "expected a list of at least one call as 'verify_funcs'; got"),
        (judged_by(method=None), "expected a text such as 'rule_based' as 'method' of a 'judge'; got"),
        ({"image": ["images/1.png", "images/2.png"]}, "expected one image"),
    ],
)
def test_an_instruction_that_no_rule_judges_is_a_broken_row_and_no_right_response(tmp_path, changes, said):
    rows = [instruction("Anything at all.", **changes), instruction("A cat sleeps.", id="m2")]
    with pytest.warns(UserWarning, match="1 of 2 rows of mm_ifeval"):
        source = judging_dataset("mm_ifeval", write(tmp_path, "mm_ifeval.jsonl", rows))
    assert source.num_samples("test") == 1
    assert source.broken_rows[0].startswith("mm_ifeval.jsonl, line 1: ") and said in source.broken_rows[0]


def test_a_constraint_without_words_cannot_be_added_to_an_instruction(tmp_path):
    whole, wordless = (instruction("A cat sleeps.", id=name, instruction="Describe.") for name in ("m1", "m2"))
    del whole["question"], wordless["question"]
    wordless["constraints"][0]["value"] = None
    with pytest.warns(UserWarning, match=r"line 2: .*'instruction' needs the text of each constraint as its 'value'"):
        source = judging_dataset("mm_ifeval", write(tmp_path, "mm_ifeval.jsonl", [whole, wordless]))
    assert source.num_samples("test") == 1

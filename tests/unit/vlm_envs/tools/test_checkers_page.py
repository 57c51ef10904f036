"""The reference lists every check, and the programs on the page about judges do what they say."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from vlm_envs.tools.instruction_checkers import CHECKERS

DOCS = Path(__file__).parents[4] / "docs"
TABLE = (DOCS / "reference" / "instruction-checkers.md").read_text(encoding="utf-8")
JUDGES = (DOCS / "judges.md").read_text(encoding="utf-8")
PAGE = JUDGES.partition("\n## Instruction checkers\n")[2].partition("\n## ")[0]


def test_every_check_is_listed_with_its_arguments():
    rows = dict(re.findall(r"^\| `(check_\w+)` \| (.*?) \|", TABLE, flags=re.MULTILINE))
    assert {name: re.findall(r"`(\w+)`", arguments) for name, arguments in rows.items()} == {
        name: list(checker.arguments.model_fields) for name, checker in CHECKERS.items()
    }


def test_programs_run_and_say_what_the_page_says(capsys):
    first, second = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(compile(first, "docs/judges.md", "exec"), names)
    shown = re.findall(r"^(\S+) +# (False|\".*?\")", first, flags=re.MULTILINE)
    assert [(expression, repr(eval(expression, names)).replace("'", '"')) for expression, _ in shown] == shown
    assert len(shown) == 4
    exec(compile(second, "docs/judges.md", "exec"), names)
    assert capsys.readouterr().out.startswith("Describe ")

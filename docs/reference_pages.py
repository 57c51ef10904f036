"""Generates docs/reference: examples, and tables of options, metrics, agents, rewards, checkers, and datasets.

`docs.pages` writes them; each table comes from the code or the data file that holds what it lists.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

CHECKOUT = Path(__file__).parent.parent

NOTICE = "*`make pages` generates this page.*"

_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n(?: {8}.*)?)*)", re.MULTILINE)
"""An entry under `Attributes:` or `Args:` of a docstring, as `inspect.cleandoc` leaves it."""

_COLUMN = re.compile(r'^(\w+) = "(\w+)"  # (.+)$', re.MULTILINE)


def reference_pages() -> dict[str, str]:
    """Returns the text of each page by name, without the suffix."""
    return {
        name: "\n\n".join((f"# {title}", NOTICE, *parts())) + "\n" for name, (title, parts) in REFERENCE_PAGES.items()
    }


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table; line breaks in cells become spaces."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


# --- Options --------------------------------------------------------------------------------------


def _options() -> Iterator[str]:
    from training.algorithms.shipped import SHIPPED
    from training.config.run_config import RunConfig
    from training.curation.curation_config import CurateConfig
    from training.sft.sft_config import SFTConfig
    from training.stages.stages_config import Stage

    yield (
        "Commands take these options, and `--help-all` lists them with the defaults of a recipe; the defaults below "
        "are those of the configuration classes. A flag such as `--resume` has a counterpart, `--no-resume`."
    )
    yield "## Reinforcement learning"
    yield "`python -m training RECIPE`; `--worlds.0` is the first world of a mix."
    yield from _tables_of(RunConfig, "--", skipped=("algorithm",))
    for name, algorithm in SHIPPED.items():
        yield f"### `--algorithm {name}`"
        yield from _tables_of(algorithm, "--algorithm.")
    yield "## Fine-tuning"
    yield "`python -m training sft`"
    yield from _tables_of(SFTConfig, "--")
    yield "## Curation"
    yield "`python -m training curate`"
    yield from _tables_of(CurateConfig, "--", skipped=("worlds",))
    yield "## Staged runs"
    yield "Options of a stage have its name in front, such as `--stages.sft.num-epochs`. In Python, a `Stage` has:"
    yield table(["field", "default", "meaning"], [_field_row(Stage, field, "") for field in dataclasses.fields(Stage)])


def _tables_of(
    config: type, prefix: str, skipped: Sequence[str] = (), shown: dict[type, str] | None = None
) -> Iterator[str]:
    """Yields a table of a configuration's own options, then one of each group's; `shown` has the groups so far."""
    shown = {} if shown is None else shown
    hints = typing.get_type_hints(config)
    groups, rows = list[tuple[str, type]](), list[list[str]]()
    for field in dataclasses.fields(config):
        if field.name in skipped:
            continue
        option = prefix + field.name.replace("_", "-")
        kind, is_list = _dataclass_in(hints[field.name])
        if kind is None:
            rows.append(_field_row(config, field, prefix))
        else:
            groups.append((f"{option}.0." if is_list else f"{option}.", kind))
    if rows:
        yield table(["option", "default", "meaning"], rows)
    for group, kind in groups:
        name = f"`{group.rstrip('.')}`"
        if kind in shown:
            yield f"{name} has the options of {shown[kind]}."
            continue
        shown[kind] = name
        yield f"### {name}" if prefix == "--" else f"{name}:"
        yield from _tables_of(kind, group, shown=shown)


def _dataclass_in(hint: Any) -> tuple[type | None, bool]:
    """Returns the dataclass in a hint, alone, in a union with None, or in a tuple, and whether it is in a tuple."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint, False
    found = [kind for argument in get_args(hint) if (kind := _dataclass_in(argument)[0])]
    return (found[0], get_origin(hint) is tuple) if len(found) == 1 else (None, False)


def _field_row(config: type, field: dataclasses.Field[Any], prefix: str) -> list[str]:
    name = prefix + (field.name.replace("_", "-") if prefix else field.name)
    return [f"`{name}`", _default(field, typing.get_type_hints(config)[field.name]), _meaning(config, field.name)]


def _default(field: dataclasses.Field[Any], hint: Any) -> str:
    choices = [value for value in get_args(hint) if isinstance(value, str)] if get_origin(hint) is Literal else []
    if field.default is not dataclasses.MISSING:
        default = f"`{field.default}`" if field.default not in ("", ()) else "none"
    else:
        default = "" if field.default_factory is dataclasses.MISSING else "none"
    others = ", ".join(f"`{choice}`" for choice in choices if choice != field.default)
    return f"{default}; or {others}" if others else default


def _meaning(config: type, name: str) -> str:
    """Returns a field's entry in the docstring of its class or a base class."""
    return next((found[name] for kind in config.__mro__ if name in (found := _entries(kind, "Attributes"))), "")


def _entries(thing: Any, section: str) -> dict[str, str]:
    """Returns the entries of a section of a docstring by name."""
    import inspect

    _, _, text = inspect.cleandoc(thing.__doc__ or "").partition(f"\n{section}:\n")
    text = re.split(r"\n(?=\w+:\n)", text)[0]
    return {name: " ".join(meaning.split()) for name, meaning in _ATTRIBUTE.findall(text)}


# --- Others ---------------------------------------------------------------------------------------


def _agents() -> Iterator[str]:
    from agents.api.api_agent import APIAgent
    from agents.api.endpoint_config import PROVIDERS
    from agents.registry import AGENTS

    yield "Names that `--agent` of `python -m benchmarks` and `python -m agents play` take:"
    yield table(
        ["agent", "plays", "key"],
        [
            [
                f"`{name}:{entry.part}`" if entry.part else f"`{name}`",
                entry.summary,
                f"`{PROVIDERS[name].api_key_variable}`" if name in PROVIDERS else "",
            ]
            for name, entry in AGENTS.items()
        ]
        + [["`MODULE:FACTORY`", "an agent of your own", ""]],
    )
    yield "## Settings of models behind an API"
    yield "Write them after the agent, separated by commas: `openai:gpt-5-mini,reasoning=low`."
    settings = _entries(APIAgent, "Args")
    yield table(
        ["setting", "meaning"],
        [[f"`{name}`", meaning] for name, meaning in settings.items() if name not in ("provider", "model")],
    )
    yield "## Limits of a model"
    yield (
        "A request that exceeds a limit is answered with an error. These codes and phrases, from "
        "`agents/api/limits.toml`, make it the model's own empty answer rather than an error of the provider; a code "
        "of another error wins over a phrase."
    )
    limits = tomllib.loads((CHECKOUT / "agents" / "api" / "limits.toml").read_text(encoding="utf-8"))
    yield table(
        ["limit", "`code` or `type`", "patterns in the message"],
        [
            [
                f"`{limit}`",
                ", ".join(f"`{code}`" for code in limits["codes"][limit]),
                ", ".join(f"`` {pattern} ``" for pattern in limits["phrases"][limit]),
            ]
            for limit in limits["codes"]
        ],
    )


def _board_columns() -> Iterator[str]:
    yield (
        "`python -m benchmarks export BOARD --to csv` writes one row per episode. Unknown values are empty. If an "
        "episode was retried after an error, the last try counts; tokens and costs include all tries."
    )
    path = CHECKOUT / "benchmarks" / "models" / "measures" / "export_columns.toml"
    rows = [[f"`{name}`", kind, meaning] for name, kind, meaning in _COLUMN.findall(path.read_text(encoding="utf-8"))]
    rows += [
        ["`metric.NAME`", "number", "what the world measures at the end"],
        ["`judged.NAME`", "number", "a judge's score of the episode"],
    ]
    yield table(["column", "type", "meaning"], rows)


def _boards() -> Iterator[str]:
    from benchmarks.models.board.board import Board
    from benchmarks.models.measures.measures import rows

    yield "[Measure a model](../benchmarks.md#the-board-that-ships) describes how the boards were made."
    for definition in sorted((CHECKOUT / "docs" / "boards").glob("*/board.json")):
        board = Board(definition.parent)
        yield f"## {definition.parent.name}"
        yield table(
            ["world", "agent", "solved", "95% interval"],
            [
                [
                    f"`{row.world.partition(':')[0]}`",
                    row.agent,
                    f"{row.success:.3f}",
                    "{:.3f} to {:.3f}".format(*row.interval),
                ]
                for row in sorted(
                    rows(board.lines(), board.record["worlds"]), key=lambda row: (row.world, -row.success)
                )
            ],
        )


def _datasets() -> Iterator[str]:
    yield (
        "Names for the argument `dataset`; `folder` is where your copy is. "
        "[Your own data](../question-answering.md#your-own-data) has rules that hold for all."
    )
    files = {
        "VLM/ZoomQA-v0": ("vlm_envs/qa/datasets/image_datasets.py", "DATASETS"),
        "VLM/VideoQA-v0": ("vlm_envs/qa/datasets/video_r1.py", ""),
        "VLM/DocQA-v0": ("vlm_envs/qa/datasets/document_datasets.py", "DOCUMENT_DATASETS"),
        "VLM/RewardJudging-v0": ("vlm_envs/content/judging/judging_datasets.py", "_KINDS"),
    }
    for env_id, (path, registry) in files.items():
        yield f"## `{env_id}`"
        for name, text in _dataset_texts(path, registry):
            yield f"### `{name}`"
            yield text.strip()


def _dataset_texts(path: str, registry: str) -> Iterator[tuple[str, str]]:
    """Yields the name of each dataset of a registry and the docstring of its entry or of the function that reads it."""
    tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
    texts = _texts(tree)
    if not registry:  # a module of one dataset, which its docstring describes
        yield Path(path).stem, ast.get_docstring(tree) or ""
        return
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not isinstance(value, ast.Dict) or getattr(targets[0], "id", None) != registry:
            continue
        for key, entry in zip(value.keys, value.values, strict=True):
            names = [found.id for found in ast.walk(entry) if isinstance(found, ast.Name) and found.id in texts]
            yield ast.literal_eval(key or ast.Constant("")), texts[names[0]]


def _texts(tree: ast.Module) -> dict[str, str]:
    """Returns the docstrings of a module's functions, and of its names that strings follow; imported ones, too."""
    texts = dict[str, str]()
    for node, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
            texts[node.name] = text
        elif isinstance(node, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts |= {name.id: str(after.value.value) for name in node.targets if isinstance(name, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.endswith("high_resolution"):
            texts |= _texts(ast.parse(Path(CHECKOUT, *node.module.split(".")).with_suffix(".py").read_text("utf-8")))
    return texts


def _examples() -> Iterator[str]:
    shown = "".join(page.read_text(encoding="utf-8") for page in (CHECKOUT / "docs").glob("*.md"))
    for path in sorted((CHECKOUT / "examples").glob("*.py")):
        if f"`examples/{path.name}`:\n\n```python\n" in shown:
            continue
        text = path.read_text(encoding="utf-8")
        yield f"## {path.stem}"
        yield f"`examples/{path.name}`:\n\n```python\n{text}```"
    for path in sorted((CHECKOUT / "examples").glob("*.toml")):
        yield f"## {path.name}"
        yield f"```toml\n{path.read_text(encoding='utf-8')}```"


def _instruction_checkers() -> Iterator[str]:
    from vlm_envs.tools.instruction_checkers import CHECKERS

    yield "[Instruction checkers](../judges.md#instruction-checkers) explains the definitions `arm` and `mm_ifengine`."
    yield table(
        ["check", "arguments", "what it checks"],
        [
            [f"`{name}`", ", ".join(f"`{field}`" for field in checker.arguments.model_fields), checker.description]
            for name, checker in CHECKERS.items()
        ],
    )


def _metrics() -> Iterator[str]:
    from vlm_envs.records import report_panels

    yield (
        "What `metrics.jsonl`, TensorBoard, and the report show of each iteration. "
        "[Metrics to watch](../training.md#metrics-to-watch) explains those that matter most. "
        "Names with a prefix, such as `score/observation`, may end in `/WORLD` in a mix."
    )
    path = Path(report_panels.__file__).parent / "report" / "metrics.toml"
    listed: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = [[f"`{name}`", title, hint, group] for name, (group, title, hint, *_) in listed["metrics"].items()]
    rows += [[f"`{name}/…`", "", hint, group] for name, (group, hint) in listed["prefixes"].items()]
    yield table(["metric", "in the report", "unit", "group"], rows)


def _recipes() -> Iterator[str]:
    from training.recipes.listing import recipe_lines

    yield "`python -m training list` prints:"
    yield "```text\n" + "\n".join(line.rstrip() for line in recipe_lines()) + "\n```"


def _reward_constants() -> Iterator[str]:
    from judges.episode_rewards.reward_registry import SHIPPED, as_markdown

    yield (
        "`--judge.reward-set NAME=VALUE` (training) and `--reward-set NAME=VALUE` (curation) change a constant. "
        "[Episode rewards](../rewards.md#episode-rewards) explains the rewards."
    )
    yield as_markdown(SHIPPED)


REFERENCE_PAGES: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "agents": ("Agents", _agents),
    "board-columns": ("Columns of an exported board", _board_columns),
    "boards": ("Results of the boards", _boards),
    "datasets": ("Datasets", _datasets),
    "examples": ("Examples", _examples),
    "instruction-checkers": ("Instruction checkers", _instruction_checkers),
    "metrics": ("Metrics", _metrics),
    "options": ("Training options", _options),
    "recipes": ("Recipes", _recipes),
    "reward-constants": ("Constants of the episode rewards", _reward_constants),
}
"""Name without suffix to title and parts."""

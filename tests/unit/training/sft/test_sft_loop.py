"""Fine-tuning: what it trains on, how it resumes, and which files it writes."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from agents.hf.checkpoint import learnt_with, model_in
from agents.hf.hf_agent import load_checkpoint, load_encoder
from agents.registry import make_agent
from tests.soak.test_killed_runs import KILLED_AT
from tests.unit.families import SAVERS
from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from tests.unit.training.test_run import differing
from training.__main__ import main
from training.checkpoints.checkpoint_state import load_checkpoint_state, load_for_training
from training.config.update_config import AdamWConfig, LoRAConfig, MemoryConfig, SupervisedSteps
from training.engines.optimizer import Optimizer
from training.errors import MemoryExhaustedError
from training.loop.loggers import RunConsole
from training.sft.sft_config import DataSource, SFTConfig
from training.sft.sft_loop import fine_tune
from training.sft.sft_rows import read_data_set, row_batches
from training.update.supervised_steps import SupervisedLearner
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunExistsError
from vlm_envs.records.run_data import RunReader

CHECKOUT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Twelve conversations of one to three turns, each with a picture of its own."""
    folder = tmp_path_factory.mktemp("data")
    lines = []
    for number in range(12):
        image = np.random.default_rng(number).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(image).save(folder / f"{number}.png")
        turns = [
            turn
            for again in range(1 + number % 3)
            for turn in (
                {"role": "user", "content": f"{'<image>' if again == 0 else ''}Where to, {number + again}?"},
                {"role": "assistant", "content": ("Up", "Down", "Left", "Right")[(number + again) % 4]},
            )
        ]
        lines.append(json.dumps({"messages": turns, "images": [f"{number}.png"]}) + "\n")
    (folder / "rows.jsonl").write_text("".join(lines))
    return folder / "rows.jsonl"


def settings(model: Path, data: Path, output: Path, **changes) -> SFTConfig:
    fields = {
        "name": "tuned",
        "num_epochs": 2.0,
        "batch_size": 3,
        "learning_rate": 1e-2,
        "eval_share": 0.2,
        "eval_every": 3,
        "checkpoint_every": 2,
        "num_threads": 1,
    }
    return SFTConfig(model=str(model), data=(str(data),), output=str(output), **fields | changes)


def words(config: SFTConfig) -> list[str]:
    apart = ("data", "memory", "lora", "betas", "decay_exempt")
    plain = {name: value for name, value in config.to_dict().items() if name not in apart}
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in plain.items() if value is not None]
    lora = [] if config.lora.rank is None else ["--lora.rank", str(config.lora.rank)]
    data = [word for each in config.data for word in ("--data", each)]
    return ["sft", *(word for pair in pairs for word in pair), *data, *lora]


def lines_of(directory: Path) -> list[dict[str, object]]:
    return [{k: v for k, v in line.items() if k != "elapsed_s"} for line in RunReader(directory).metrics()]


def learner(model, data, encoder, **changes):
    steps = SupervisedSteps(
        num_steps=4, learning_rate=1e-2, warmup_steps=0, final_learning_rate_ratio=1.0, adamw=AdamWConfig(),
        max_grad_norm=1e9, max_nonfinite_steps=2, checkpoint_every=0,
    )  # fmt: skip
    rows = read_data_set(DataSource(path=str(data)), encoder, 4096).rows
    return SupervisedLearner(model, steps, what="test", **changes), next(row_batches(iter(rows), 12, encoder))


def test_a_run_learns_what_it_is_shown_and_its_model_is_a_checkpoint_like_any(tiny_directory, data, tmp_path, capsys):
    directory = fine_tune(settings(tiny_directory, data, tmp_path, num_epochs=6.0))
    said = capsys.readouterr().out
    assert "10 rows to train on (weight 1), 2 held out; left out: 0 broken, 0 longer than the context" in said
    assert f"Model:  {directory / 'latest' / 'model'}" in said
    lines = lines_of(directory)
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 20 and losses[-1] < 0.5 * losses[0], "60 rows by 3"
    assert [line["iteration"] for line in lines if "eval_loss" in line] == [0, 2, 5, 8, 11, 14, 17, 19]
    assert lines[0]["eval_loss"] > lines[-1]["eval_loss"]
    assert lines[-1]["epoch"] == 6.0
    model = directory / "latest" / "model"
    assert (model / "tokenizer.json").read_bytes() == (tiny_directory / "tokenizer.json").read_bytes()
    assert make_agent(f"hf:{model}").policy_version == 0
    loaded, _ = load_for_training(model, run_config(model=str(model)))
    start, _ = load_checkpoint(tiny_directory)
    assert any(not torch.equal(a, b) for a, b in zip(loaded.parameters(), start.parameters(), strict=True))
    saved = RunReader(directory).config
    assert saved["trained_with"] == "supervised fine-tuning" and saved["data_sets"][0]["num_rows"] == 10
    assert json.loads((model / "provenance.json").read_text()) == {"run": "tuned", "num_steps_done": 20}


def test_a_tuned_model_says_what_its_start_had_learnt_with(tiny_directory, data, tmp_path):
    shutil.copytree(tiny_directory, tmp_path / "start")
    (tmp_path / "start" / "provenance.json").write_text('{"worlds": [{"env_id": "VLM/SVG-v0"}]}')
    directory = fine_tune(settings(tmp_path / "start", data, tmp_path, num_epochs=0.1, eval_share=0.0))
    (world,) = learnt_with(model_in(directory)).worlds
    assert world.env_id == "VLM/SVG-v0"


IN_A_STEP, IN_A_SAVE = (
    "training.update.supervised_steps:SupervisedLearner.step:4",
    "training.checkpoints.checkpoint_state:torch.save:2",
)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("rank", "moments"),
    [pytest.param(None, [IN_A_STEP, IN_A_SAVE], id="weights"), pytest.param(4, [IN_A_STEP], id="adapters")],
)
def test_a_run_that_is_killed_anywhere_comes_to_the_same(tiny_directory, data, tmp_path, rank, moments):
    config = settings(tiny_directory, data, tmp_path, name="straight", lora=LoRAConfig(rank=rank))
    assert main(words(config)) == 0
    killed = replace(config, name="killed")
    for number, moment in enumerate(moments):
        child = subprocess.run(
            [sys.executable, "-c", KILLED_AT, moment, *(words(killed) if number == 0 else resumed(killed))],
            cwd=CHECKOUT, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert child.returncode == -signal.SIGKILL, child.stderr
        assert load_checkpoint_state(tmp_path / "killed" / "latest")["iteration"] == (2, 4)[number]
    assert main(resumed(killed)) == 0
    states = [load_checkpoint_state(tmp_path / name / "latest") for name in ("straight", "killed")]
    assert differing(*states) == []
    models = [tmp_path / name / "latest" / "model" / "model.safetensors" for name in ("straight", "killed")]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert lines_of(tmp_path / "straight") == lines_of(tmp_path / "killed")
    assert len(lines_of(tmp_path / "killed")) == 8, "one before, and 7 steps of 20 rows by 3"


def resumed(config: SFTConfig) -> list[str]:
    return ["sft", "--resume", "--output", config.output, "--name", config.name]


@pytest.mark.parametrize("number", quick([signal.SIGINT, signal.SIGTERM], signal.SIGINT))
@pytest.mark.soak
def test_ctrl_c_saves_and_a_longer_run_goes_on(tiny_directory, data, tmp_path, capsys, monkeypatch, number):
    config = settings(tiny_directory, data, tmp_path, checkpoint_every=0)
    advance = RunConsole.advance

    def interrupted(self, step, metrics, shown):
        if step == 2:
            os.kill(os.getpid(), number)
        advance(self, step, metrics, shown)

    with monkeypatch.context() as patched:
        patched.setattr(RunConsole, "advance", interrupted)
        assert main(words(config)) == 130
    told = f"python -m training sft --output {tmp_path} --name tuned --resume"
    assert f"Interrupted after 3 of 7 steps; saved. Resume with `{told}`" in capsys.readouterr().err
    assert main([*told.split()[3:], "--num-epochs", "1"]) == 0
    assert main([*resumed(config), "--num-epochs", "0.5"]) == 2
    assert "has done 4 steps, more than the requested 2" in capsys.readouterr().err
    assert main([*resumed(config), "--num-epochs", "2"]) == 0
    assert main(resumed(config)) == 0
    assert "All 7 steps are done." in capsys.readouterr().out
    assert [each["at"] for each in RunReader(tmp_path / "tuned").config["resumed"]] == [3, 4, 7]


def test_a_run_goes_on_with_its_own_data_and_settings_only(tiny_directory, data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["training/__main__.py", "sft"])
    own = tmp_path / "own.jsonl"
    own.write_text(data.read_text().replace('["', f'["{data.parent}/'))
    config = settings(tiny_directory, own, tmp_path, num_epochs=1.0)
    fine_tune(config)
    with pytest.raises(RunExistsError, match="Add --resume"):
        fine_tune(config)
    assert main([*resumed(config), "--batch-size", "4"]) == 2
    assert "--batch-size: the run has 3, requested is 4" in capsys.readouterr().err
    assert main([*resumed(config), "--data", str(own)]) == 0, "its own data, said again"
    own.write_text(own.read_text() + own.read_text().splitlines()[0] + "\n")
    assert main(resumed(config)) == 2
    assert "own.jsonl has changed since the run" in capsys.readouterr().err
    assert main(["frozenlake_tiny", *resumed(config)[1:]]) == 2
    assert "is not a run of a recipe; it was started with: python -m training sft" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["--data", "nowhere.jsonl"], "--data nowhere.jsonl does not exist. Expected the directory"),
        (["--data", "."], "has no trajectories/curated.jsonl"),
        (["--data", "broken.jsonl"], "none of 1 rows is usable: 1 are broken"),
        ([], "--data PATH"),
        (["--data", "broken.jsonl", "--model", "nowhere"], "No checkpoint at nowhere"),
        (["--data", "broken.jsonl", "--max-context-tokens", "9999999"], "--max-context-tokens must be at most"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_left_behind(
    tiny_directory, tmp_path, monkeypatch, capsys, changes, told
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.jsonl").write_text('{"messages": []}\n')
    assert main(["sft", "--model", str(tiny_directory), *changes]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_the_loss_is_of_answers_that_are_learnt_alone(tiny, data, tmp_path):
    model, encoder = tiny
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    for row in rows:
        row["images"] = [str(data.parent / name) for name in row["images"]]
        row["messages"] += [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "No.", "loss": False}]
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain, batch = learner(copy.deepcopy(model), data, encoder)
    _, with_more = learner(copy.deepcopy(model), tmp_path / "more.jsonl", encoder)
    expected = [
        encoder.encode_response(answer["content"]).tolist() for row in rows for answer in row["messages"][1:-2:2]
    ]
    learnt = with_more.input_ids_BT[with_more.response_mask_BT].tolist()
    assert learnt == batch.input_ids_BT[batch.response_mask_BT].tolist() == [token for ids in expected for token in ids]
    assert plain.mean_loss([with_more]) == pytest.approx(plain.mean_loss([batch]), abs=1e-5)
    assert len(batch.images) == 12, "a picture is in its row once, however many turns there are"


@pytest.mark.parametrize("memory", [MemoryConfig(), MemoryConfig(prefix_sharing="off"), MemoryConfig(packing="on")])
def test_micro_batches_and_packing_change_no_gradient(tiny, data, memory):
    model, encoder = tiny
    whole, batch = learner(copy.deepcopy(model), data, encoder, memory=MemoryConfig(prefix_sharing="off"))
    parts, _ = learner(copy.deepcopy(model), data, encoder, memory=memory, micro_batch_tokens=200)
    assert len(list(parts._parts(batch))) > 1
    assert parts.step(0, batch)["loss"] == pytest.approx(whole.step(0, batch)["loss"], abs=1e-5)
    for one, two in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-3, atol=1e-5)
    assert parts.mean_loss([batch]) == pytest.approx(parts.mean_loss([batch, batch]))


def test_conversations_without_pictures_are_learnt_from_too(tiny_directory, data, tmp_path):
    rows = [
        {"messages": [{"role": "user", "content": f"Say {word}."}, {"role": "assistant", "content": word}]}
        for word in ("Up", "Down", "Left")
    ]
    (tmp_path / "words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = {"eval_share": 0.0, "batch_size": 1, "num_epochs": 4.0}
    directory = fine_tune(settings(tiny_directory, tmp_path / "words.jsonl", tmp_path, **changes))
    losses = [line["loss"] for line in lines_of(directory)]
    assert len(losses) == 12 and sum(losses[-3:]) < 0.5 * sum(losses[:3])
    mixed = settings(tiny_directory, data, tmp_path, name="mixed", num_epochs=1.0)
    sizes = [
        line["num_rows"]
        for line in RunReader(
            fine_tune(replace(mixed, data=(f"{data}=0.5", f"{tmp_path / 'words.jsonl'}=2"), eval_share=0.0))
        ).config["data_sets"]
    ]
    assert sizes == [12, 3]
    assert len([line for line in lines_of(tmp_path / "mixed") if "loss" in line]) == 4, "6 and 6 rows by 3"


def test_adapters_alone_are_trained_and_merged_in_what_is_saved(tiny_directory, data, tmp_path):
    directory = fine_tune(settings(tiny_directory, data, tmp_path, lora=LoRAConfig(rank=4)))
    start, after = (load_file(each / "model.safetensors") for each in (tiny_directory, directory / "latest" / "model"))
    assert start.keys() == after.keys()
    changed = {name for name in start if not torch.equal(start[name], after[name])}
    assert changed and all("language_model.layers" in name and name.endswith("proj.weight") for name in changed)


def test_a_base_that_has_changed_takes_no_adapters(tiny_directory, data, tmp_path, capsys):
    base = tmp_path / "base"
    model, encoder = load_checkpoint(tiny_directory)
    model.save_pretrained(base)
    encoder.save_processor(base)
    config = settings(base, data, tmp_path, num_epochs=1.0, lora=LoRAConfig(rank=4))
    fine_tune(config)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    model.save_pretrained(base)
    assert main([*resumed(config), "--num-epochs", "2"]) == 2
    assert (
        f"The base model of --lora.rank is the checkpoint {base}, which has other weights now"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(("dtype", "rank"), quick([("float32", 4), ("bfloat16", None)], ("float32", 4)))
def test_what_fails_leaves_the_last_whole_step(tiny_directory, data, tmp_path, capsys, monkeypatch, dtype, rank):
    config = settings(tiny_directory, data, tmp_path, checkpoint_every=0, dtype=dtype, lora=LoRAConfig(rank=rank))
    real, calls = Optimizer.step, []

    def failing(self):
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError("none left")
        return real(self)

    with monkeypatch.context() as patched:
        patched.setattr(Optimizer, "step", failing)
        with pytest.raises(MemoryExhaustedError, match=r"none left\. Lower --micro-batch-tokens"):
            fine_tune(config)
    assert "MemoryError after 3 of 7 steps: the model is saved in" in capsys.readouterr().err
    fine_tune(config, resume=True)
    straight = fine_tune(replace(config, name="straight"))
    models = [each / "latest" / "model" / "model.safetensors" for each in (tmp_path / "tuned", straight)]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert differing(*(load_checkpoint_state(each / "latest") for each in (tmp_path / "tuned", straight))) == []


@pytest.mark.parametrize("family", quick(SAVERS, "smolvlm"))
def test_every_family_is_fine_tuned(family, data, tmp_path):
    SAVERS[family](tmp_path / "base")
    directory = fine_tune(settings(tmp_path / "base", data, tmp_path, num_epochs=1.0, learning_rate=1e-3))
    losses = [line["loss"] for line in lines_of(directory) if "loss" in line]
    assert len(losses) == 4 and np.isfinite(losses).all()
    load_encoder(directory / "latest" / "model")


def test_several_processes_are_refused(tiny_directory, data, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="one process, but 2 were launched"):
        fine_tune(settings(tiny_directory, data, tmp_path))

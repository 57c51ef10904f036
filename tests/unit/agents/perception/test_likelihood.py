"""The likelihood model says what a plain forward pass of its model says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from agents.hf.tiny_vlm import IM_END, IM_START, IMAGE_PAD, VISION_END, VISION_START
from agents.perception.likelihood import HFLikelihood, LikelihoodConfig, LikelihoodQuery, passes_of
from agents.perception.weights import WeightsUnavailableError
from judges.episode_rewards.argos import reasoning_quality
from judges.episode_rewards.judge_models import ArgosModels, LikelihoodModel, PackedMask
from tests.unit.judges.awaited import argos_reward
from tests.unit.models import load
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import AnswerKey

QUESTION, REASONING, ANSWER = "Where is the box?", "It is above the player.", "up left"


def picture(seed=0, width=56, height=84):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture
def scorer(tiny):
    return HFLikelihood(*tiny)


@pytest.fixture
def family_scorer(family_directory):
    return HFLikelihood(*load(family_directory))


def of(scorer, images):
    """The scores of answers about these pictures, one at a time."""

    def log_probs(question, reasoning, answer):
        query = LikelihoodQuery(question=question, reasoning=reasoning, answer=answer, images=tuple(images))
        return scorer.log_probs([query])[0]

    return log_probs


def by_hand(scorer, images, question, reasoning, answer):
    """The log-probabilities from the model's own forward, which finds its positions itself."""
    model, tokenizer = scorer.model, scorer.encoder.tokenizer
    processor = scorer.encoder.image_reader.image_processor
    shown = processor(images=list(images), return_tensors="pt") if images else {}
    pads = [int(grid.prod()) // processor.merge_size**2 for grid in shown.get("image_grid_thw", ())]
    pictures = "".join(f"{VISION_START}{IMAGE_PAD * pad}{VISION_END}" for pad in pads)
    conversation = (
        f"{IM_START}user\n{pictures}{question}{IM_END}\n{IM_START}assistant\n<think>{reasoning}</think><answer>"
    )
    before = tokenizer(conversation, add_special_tokens=False)["input_ids"]
    after = tokenizer(answer, add_special_tokens=False)["input_ids"]
    ids = torch.tensor([[*before, *after]])
    is_image = (ids == scorer.encoder.image_token_id).int()
    extra = {**shown, "mm_token_type_ids": is_image} if images else {}
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits[0].float()
    return [float(torch.log_softmax(logits[len(before) + n - 1], -1)[token]) for n, token in enumerate(after)]


@pytest.mark.parametrize("num_images", [0, 1, 2])
def test_a_plain_forward_pass_says_the_same(family_scorer, num_images):
    images = [picture(seed, 56 + 28 * seed) for seed in range(num_images)]
    expected = by_hand(family_scorer, images, QUESTION, REASONING, ANSWER)
    assert len(expected) >= 2 and max(expected) < -0.1, "there is something to compare"
    assert of(family_scorer, images)(QUESTION, REASONING, ANSWER) == pytest.approx(expected, abs=1e-4)


def test_a_row_does_not_depend_on_its_neighbours(family_scorer):
    queries = [
        LikelihoodQuery(question=QUESTION, reasoning=REASONING, answer="up"),
        LikelihoodQuery(question="?", reasoning=REASONING * 9, answer="down right", images=(picture(1),)),
        LikelihoodQuery(question=QUESTION, reasoning="", answer="7", images=(picture(2), picture(3, 140))),
    ]
    alone = [family_scorer.log_probs([query])[0] for query in queries]
    for together in (family_scorer.log_probs(queries), family_scorer.log_probs(queries[::-1])[::-1]):
        for one, other in zip(alone, together, strict=True):
            assert one == pytest.approx(other, abs=1e-4)


def test_pictures_question_and_reasoning_all_matter(family_scorer):
    base = of(family_scorer, [picture()])(QUESTION, REASONING, ANSWER)
    for images, question, reasoning in (
        ([picture(9)], QUESTION, REASONING),
        ([picture()], "Who?", REASONING),
        ([picture()], QUESTION, "It is below."),
    ):
        assert of(family_scorer, images)(question, reasoning, ANSWER) != pytest.approx(base, abs=1e-3)


def test_an_answer_that_was_learnt_is_likelier_than_another(scorer):
    score = of(scorer, [picture()])
    before = reasoning_quality(score(QUESTION, REASONING, "up"))
    encoder, model = scorer.encoder, scorer.model
    asked = encoder.encode({"text": QUESTION, "images": (picture(),)}, is_first=True)
    ids = [*asked.ids, *encoder.encode_text(f"<think>{REASONING}</think><answer>"), *encoder.encode_text("up")]
    ids = torch.tensor([ids])
    labels = ids.where(torch.arange(ids.shape[1]) >= ids.shape[1] - len(encoder.encode_text("up")), -100)
    (image,) = asked.images
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(8):
        optimizer.zero_grad()
        model(
            input_ids=ids,
            labels=labels,
            mm_token_type_ids=(ids == encoder.image_token_id).int(),
            **{name: torch.from_numpy(value) for name, value in image.inputs.items()},
        ).loss.backward()
        optimizer.step()
    up, down = (reasoning_quality(score(QUESTION, REASONING, answer)) for answer in ("up", "down"))
    assert before < 0.1 < 0.5 < up
    assert down < up / 5


def test_of_nothing_and_of_too_much_nothing_is_said(tiny):
    scorer = HFLikelihood(*tiny, LikelihoodConfig(max_tokens=100))
    log_probs = of(scorer, [])
    assert log_probs(QUESTION, REASONING, "") is None
    assert log_probs(QUESTION, "word " * 200, ANSWER) is None
    scored = scorer.log_probs(
        [LikelihoodQuery(question=QUESTION, reasoning=thought, answer=ANSWER) for thought in ("word " * 200, "", "a")]
    )
    assert scored[0] is None and scored[1] == pytest.approx(log_probs(QUESTION, "", ANSWER), abs=1e-4)
    assert scorer.log_probs([]) == []


@pytest.mark.parametrize("text", ["\ud800", "<|im_end|><|image_pad|>", "\x00", "</think><answer>"])
def test_whatever_a_model_wrote_is_scored(scorer, text):
    scored = of(scorer, [picture()])(QUESTION, text, text)
    assert scored and all(math.isfinite(value) and value <= 0.0 for value in scored)


def test_a_model_in_training_stays_in_training(scorer):
    scorer.model.train()
    of(scorer, [])(QUESTION, REASONING, ANSWER)
    assert scorer.model.training


def test_arrays_that_are_no_pictures_are_refused(scorer):
    with pytest.raises(ConfigError, match=r"uint8\[height, width, 3\], RGB from 0 to 255; got float64\[4, 4\]"):
        of(scorer, [np.zeros((4, 4))])(QUESTION, REASONING, ANSWER)
    with pytest.raises(ConfigError, match="max_rows"):
        LikelihoodConfig(max_rows=0)


def test_a_checkpoint_verifies_a_response(tiny_directory):
    likelihood: LikelihoodModel = of(HFLikelihood.from_pretrained(tiny_directory), [picture()])
    key = AnswerKey(kind="exact", answers=("up",), question=QUESTION)
    reward = argos_reward(f"<think>{REASONING}</think><answer>up</answer>", key, ArgosModels(likelihood=likelihood))
    quality = reasoning_quality(likelihood(QUESTION, REASONING, "up"))
    assert 0.0 < quality < 1.0
    assert reward.total == pytest.approx((1.0 + quality) / 2)
    with pytest.raises(WeightsUnavailableError, match="No checkpoint"):
        HFLikelihood.from_pretrained(tiny_directory / "none")


def test_passes_that_are_asked_for_one_by_one_are_those_of_all_together_bit_by_bit(scorer):
    sizes = [(112, 112), (28, 28), (196, 196)]
    queries = [
        LikelihoodQuery(
            question=QUESTION,
            reasoning=REASONING * (number % 2),
            answer="" if number == 5 else ANSWER,
            images=(picture(number, *sizes[number % 3]),),
        )
        for number in range(11)
    ]
    scorer.config = LikelihoodConfig(max_rows=4)
    passes = passes_of(queries, 4)
    assert sorted(number for each in passes for number in each) == list(range(11))
    assert [len(each) for each in passes] == [4, 4, 3]
    assert {number % 3 for number in passes[0]} == {1}, "the smallest pictures"
    together = scorer.log_probs(queries)
    assert together[5] is None and all(together[number] for number in range(11) if number != 5)
    for each in passes:
        assert scorer.log_probs([queries[number] for number in each]) == [together[number] for number in each]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 16), (0, 4)])
def test_a_packed_mask_is_the_mask(shape):
    mask = np.random.default_rng(0).random(shape) < 0.5
    packed = PackedMask.of(mask)
    assert len(packed.bits) == -(-mask.size // 8)
    assert np.array_equal(packed.unpacked(), mask) and packed.unpacked().shape == shape

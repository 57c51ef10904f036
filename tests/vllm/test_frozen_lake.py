"""The tiny VLM behind a real server plays as it does in this process: token by token what it reads, then what it does.

Where two tokens are as likely as each other, rounding decides between them. Only such ties may part the two, and a part
of these tests is to tell a tie from a difference.
"""

import copy
import io

import numpy as np
import pytest
import torch
from PIL import Image

from agents.event_loop import run_blocking
from agents.hf.hf_agent import load_checkpoint
from agents.hf.row_passes import row_hidden_states
from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from agents.rollout import rollout
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from tests.vllm.boards import GREEDY, HF, MAX_TOKENS, WORLD, played, responses
from tests.vllm.server import CHECKPOINT
from vlm_envs.splits import split_seeds
from vlm_envs.vector.make_vec import world_vector

NUM_LEVELS = 64
SAMPLING = SamplingConfig(temperature=0, max_new_tokens=MAX_TOKENS)
TIE = 1e-3
"""Largest difference between the log-probabilities of two tokens that rounding may decide between."""


@pytest.fixture(scope="module")
def tiny():
    model, encoder = load_checkpoint(CHECKPOINT, dtype="float32")
    return model, encoder


def conversation(encoder, shown, said):
    """Returns the tokens of a conversation as `hf:DIR` has them, and its pictures, up to the opening of an answer."""
    ids, images = [], []
    for index, observation in enumerate(shown):
        segment = encoder.encode(observation, is_first=index == 0)
        ids += [*segment.ids.tolist(), *(encoder.encode_response(said[index]).tolist() if index < len(said) else [])]
        images += segment.images
    return ids, images


@torch.no_grad()
def lead(tiny, ids, images, one, other):
    """Returns by how much, in log-probability, one answer leads another at the first token in which they differ.

    Both have to be the best two there; infinite where they are not.
    """
    model, encoder = tiny
    first, second = (encoder.encode_response(text).tolist() for text in (one, other))
    num_shared = next(k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    row = torch.tensor([[*ids, *first[:num_shared]]])
    hidden = row_hidden_states(model, row, torch.ones_like(row), images)
    logprobs = torch.log_softmax(model.lm_head(hidden[0, -1]), dim=-1)
    differing = [first[num_shared], second[num_shared]]
    if set(logprobs.topk(2).indices.tolist()) != set(differing):
        return float("inf")
    return abs(float(logprobs[differing[0]] - logprobs[differing[1]]))


@pytest.mark.timeout(1500)
def test_greedy_play_through_every_interface_is_that_of_the_checkpoint(server, reach, tiny, tmp_path):
    agents = [f"{agent},{GREEDY}" for agent in reach(server).values()]
    boards = played(tmp_path / "board", [HF, *agents], NUM_LEVELS)
    here = boards.pop(f"hf:{CHECKPOINT}")
    assert len(here) == NUM_LEVELS and len(boards) == 3
    num_solved = sum(episode["success"] for episode in here.values())
    assert 0 < num_solved < NUM_LEVELS  # Else success could agree by luck
    images = Board(tmp_path / "board").images
    for agent, there in boards.items():
        ties = []
        assert sorted(there) == sorted(here)
        for seed, episode in there.items():
            assert episode["error"] == ""
            ours, theirs = responses(here[seed]), responses(episode)
            parting = next(
                (turn for turn, pair in enumerate(zip(ours, theirs, strict=False)) if len({*pair}) > 1), None
            )
            if parting is None:
                assert theirs == ours and episode["total_reward"] == here[seed]["total_reward"]
                continue
            shown = [observation(turn, images) for turn in episode["turns"][: parting + 1]]
            ids, pictures = conversation(tiny[1], shown, ours[:parting])
            assert lead(tiny, ids, pictures, ours[parting], theirs[parting]) < TIE, (agent, seed, parting)
            ties.append(seed)
        num_there = sum(episode["success"] for episode in there.values())
        assert abs(num_there - num_solved) <= len(ties)
        print(f"{agent}: {num_there} of {NUM_LEVELS} solved, hf:DIR {num_solved}; {len(ties)} parted by a tie")


def test_a_tie_is_told_from_a_difference(tiny):
    model, encoder = copy.deepcopy(tiny[0]), tiny[1]
    (episode,) = play(make_agent(f"hf:{CHECKPOINT}", sampling=SAMPLING), [next(split_seeds("test", 1))])
    said = episode.turns[0].response_text
    ids, images = conversation(encoder, [episode.turns[0].observation], [])
    before, _, answer = said.partition("<answer>")
    other = f"{before}<answer>{'Left' if answer.startswith('Down') else 'Down'}"
    assert lead((model, encoder), ids, images, said, other) > TIE
    token, rival = (
        encoder.encode_text(f"{text}")[len(encoder.encode_text(f"{before}<answer>"))] for text in (said, other)
    )
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.lm_head.weight.data[rival] = model.lm_head.weight.data[token]
    assert lead((model, encoder), ids, images, said, other) == 0.0


@pytest.mark.parametrize("system_prompt", ["", "You play."])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_the_server_reads_what_the_checkpoint_reads_token_by_token(path, system_prompt, server, reach, tiny):
    """System prompt, pictures' places and sizes, line breaks, earlier answers: all of a whole conversation."""
    encoder = tiny[1]
    agent = make_agent(reach(server)[path], temperature=0, max_tokens=MAX_TOKENS, system_prompt=system_prompt)
    requests = recorded(agent)
    seeds = list(split_seeds("test", 8))
    (episode,) = next(each for seed in seeds if len((each := play(agent, [seed]))[0].turns) > 1 or requests.clear())
    shown = [turn.observation for turn in episode.turns]
    said, usages = [turn.response_text for turn in episode.turns], [turn.usage for turn in episode.turns]
    compare(server, path, encoder, system_prompt, requests, shown, said, usages)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_several_pictures_and_none_have_their_places(path, server, reach, tiny):
    requests = recorded(agent := make_agent(reach(server)[path], temperature=0, max_tokens=9))
    draw = np.random.default_rng(0).integers
    large, small = draw(0, 256, (84, 112, 3), np.uint8), draw(0, 256, (28, 30, 3), np.uint8)
    shown = [
        {"text": " Two pictures.\n", "images": (large, small)},
        {"text": "None.\n\nAnd a line.", "images": ()},
        {"text": "One — “quoted”, 3 × 4.", "image": small},
    ]
    agent.begin(0)
    answers = [run_blocking(agent.respond(0, each)) for each in shown]
    agent.close()
    assert [answer.error for answer in answers] == [""] * 3
    said, usages = [answer.text for answer in answers], [answer.usage for answer in answers]
    compare(server, path, tiny[1], "", requests, shown, said, usages)


def compare(server, path, encoder, system_prompt, requests, shown, said, usages):
    """Asserts that every request of a conversation is, to the server, the tokens that `hf:DIR` has, and counted so."""
    system = f"<|im_start|>system\n{system_prompt}<|im_end|>\n" if system_prompt else ""
    prefix = encoder.tokenizer.encode(system) if system else []
    assert len(requests) == len(said)
    for turn, request in enumerate(requests):
        ours, pictures = conversation(encoder, shown[: turn + 1], said[:turn])
        theirs = server.post(f"{path}/render", request)
        assert theirs["token_ids"] == [*prefix, *ours]
        num_pads = [picture.num_tokens for picture in pictures]
        assert [each["length"] for each in theirs["features"]["mm_placeholders"]["image"]] == num_pads
        # Pictures are counted as the tokens they are
        assert usages[turn]["prompt_tokens"] == len(prefix) + len(ours)


def recorded(agent):
    """Returns a list that an agent's requests will be put into, as they go over the wire."""
    requests, endpoint = [], agent.client._endpoint
    send = endpoint.send

    def record(request, **how):
        requests.append({**request, **request.get("extra_body", {})})
        requests[-1].pop("extra_body", None)
        return send(request, **how)

    endpoint.send = record
    return requests


def play(agent, seeds):
    spec = WorldSpec.parse(WORLD)
    with world_vector(spec.env_id, len(seeds), **spec.kwargs, split="test") as worlds:
        return rollout(agent, worlds, seeds, env_ids=[spec.env_id] * len(seeds))


def observation(turn, images):
    """Returns what a turn on a board showed."""
    return {"text": turn["text"], "image": np.asarray(Image.open(io.BytesIO(images.load(turn["images"][0]))))}

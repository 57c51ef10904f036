"""Directories of Grounding DINO and SAM in the layout they are published in, with small random weights."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import (
    BertConfig,
    BertTokenizer,
    GroundingDinoConfig,
    GroundingDinoForObjectDetection,
    SamConfig,
    SamModel,
    SwinConfig,
)

WORDS = ("red", "mug", "kite", "the", "sep")
MAX_TEXT_TOKENS = 16
SAM_SIDE_PX = 64


def save_detector(directory: Path) -> Path:
    """Writes a Grounding DINO whose tokenizer has BERT's ids for what the model looks for: 101, 102, 1012, 1029."""
    torch.manual_seed(0)
    config = GroundingDinoConfig(
        backbone_config=SwinConfig(
            image_size=64,
            embed_dim=8,
            depths=[1, 1, 1, 1],
            num_heads=[1, 1, 2, 2],
            window_size=4,
            out_features=["stage2", "stage3", "stage4"],
        ),
        text_config=BertConfig(
            vocab_size=1100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        ),
        d_model=32,
        num_queries=12,
        encoder_layers=1,
        decoder_layers=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        max_text_len=MAX_TEXT_TOKENS,
    )
    GroundingDinoForObjectDetection(config).save_pretrained(directory)
    special = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 1012: ".", 1029: "?"}
    vocabulary = [special.get(number, f"[unused{number}]") for number in range(1050)] + list(WORDS)
    (directory / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizer(str(directory / "vocab.txt")).save_pretrained(directory)
    _write_processor(
        directory,
        {
            "do_convert_annotations": True,
            "do_pad": True,
            "format": "coco_detection",
            "image_processor_type": "GroundingDinoImageProcessor",
            "size": {"longest_edge": 128, "shortest_edge": 96},
        },
    )
    return directory


def save_segmenter(directory: Path) -> Path:
    """Writes a SAM that looks at 64 x 64 pixels."""
    torch.manual_seed(0)
    config = SamConfig(
        vision_config={
            "hidden_size": 16,
            "output_channels": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": SAM_SIDE_PX,
            "patch_size": 16,
            "window_size": 2,
            "global_attn_indexes": [1],
            "num_pos_feats": 8,
            "mlp_dim": 32,
            "initializer_range": 0.02,
        },
        prompt_encoder_config={
            "hidden_size": 16,
            "image_size": SAM_SIDE_PX,
            "patch_size": 16,
            "mask_input_channels": 4,
        },
        mask_decoder_config={
            "hidden_size": 16,
            "mlp_dim": 32,
            "num_attention_heads": 2,
            "iou_head_hidden_dim": 16,
        },
    )
    SamModel(config).save_pretrained(directory)
    _write_processor(
        directory,
        {
            "do_convert_rgb": True,
            "do_pad": True,
            "image_processor_type": "SamImageProcessor",
            "pad_size": {"height": SAM_SIDE_PX, "width": SAM_SIDE_PX},
            "processor_class": "SamProcessor",
            "size": {"longest_edge": SAM_SIDE_PX},
        },
    )
    return directory


def _write_processor(directory: Path, fields: dict[str, object]) -> None:
    common = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
        "resample": 2,
        "rescale_factor": 0.00392156862745098,
    }
    (directory / "preprocessor_config.json").write_text(json.dumps(common | fields), encoding="utf-8")

"""Datasets of questions about images, and the registry of all image and video datasets.

The expected layout of each is described at its entry.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from vlm_envs.qa.datasets.dataset_images import IMAGE_COLUMNS, StoredImage, TableImage, without_marks
from vlm_envs.qa.datasets.dataset_rows import (
    LabelledBox,
    LabelledPoint,
    Row,
    category,
    is_coordinate,
    is_letter,
    json_object,
    plain_text,
    read_json_file,
    read_rows,
    split_question,
)
from vlm_envs.qa.datasets.dataset_source import Copy, Dataset, DatasetSource, PictureRow, Rows, opened, rows_by
from vlm_envs.qa.datasets.dataset_splits import content_split
from vlm_envs.qa.datasets.high_resolution import HRBENCH, VSTAR
from vlm_envs.qa.datasets.video_r1 import MAX_FRAMES, video_r1
from vlm_envs.responses.answers import AnswerKey, AnswerKind
from vlm_envs.responses.numbers import read_number
from vlm_envs.splits import SPLITS
from vlm_envs.tools.data_files import FileRoot

_GQA_SPLITS = {"train_": "train", "val_": "val", "testdev_": "test"}
_GQA_QUESTIONS = "_questions.json"
_GQA_GRAPHS = ("train_sceneGraphs.json", "val_sceneGraphs.json")


def _gqa_files(root: FileRoot) -> list[str]:
    """Returns the question files: the balanced one of each split, or all if there is none."""
    files: list[str] = []
    for start in _GQA_SPLITS:
        names = [name for name in root.names(_GQA_QUESTIONS) if name.startswith(start)]
        balanced = f"{start}balanced{_GQA_QUESTIONS}"
        files += [balanced] if balanced in names else names
    return files


def _gqa_rows(copy: Copy) -> Rows:
    graphs: dict[str, Any] = {}
    for name in copy.root.existing(sorted(_GQA_GRAPHS)):
        graphs.update(json_object(read_json_file(copy.root, name), name))
    for name in copy.files:
        (split,) = (split for start, split in _GQA_SPLITS.items() if name.startswith(start))
        questions = json_object(read_json_file(copy.root, name), name)
        rows = (
            Row({"question": fields}, f"{name}, question {number}", key=f"{name.removesuffix(_GQA_QUESTIONS)}/{number}")
            for number, fields in questions.items()
        )
        yield from read_rows(rows, partial(_gqa_row, copy, graphs, split))


def _gqa_row(copy: Copy, graphs: Mapping[str, Any], split: str, asked: Row) -> PictureRow:
    row = asked.item(asked.fields["question"])
    question, image, full = row.text("question"), row.text("imageId"), row.fields.get("fullAnswer")
    types = row.fields.get("types")
    structural = types.get("structural") if isinstance(types, dict) else None
    return PictureRow(
        key=asked.key,
        where=row.where,
        split=split,
        answer=row.answer_key("exact", row.text("answer"), question=question),
        category=category(structural) if isinstance(structural, str) else "other",
        images=(copy.image(f"images/{image}.jpg"),),
        boxes=_gqa_boxes(row, graphs[image]) if image in graphs else (),
        facts=full.strip() if isinstance(full, str) else "",
    )


def _gqa_boxes(row: Row, graph: object) -> tuple[LabelledBox, ...]:
    """Returns the things that words of the question, answer, and full answer refer to, without duplicates."""
    things = row.item(row.item(graph).fields.get("objects"), "scene graph").fields
    annotations = row.fields.get("annotations")
    named: dict[str, None] = {}
    for part in ("question", "answer", "fullAnswer"):
        words = annotations.get(part) if isinstance(annotations, dict) else None
        for numbers in words.values() if isinstance(words, dict) else ():
            named.update(dict.fromkeys(str(numbers).split(",")))
    found = [row.item(things[number], f"thing {number}") for number in named if number in things]
    return tuple(
        (thing.text("name"), thing.box([thing.fields.get(side) for side in "xywh"], corners=False)) for thing in found
    )


GQA = Dataset(
    expected="a folder with files such as train_balanced_questions.json and a folder images",
    files=_gqa_files,
    rows=_gqa_rows,
    has_boxes=True,
)
"""GQA: questions made from scene graphs, with boxes of the things in question.

Layout: files such as `train_balanced_questions.json`, `val_balanced_questions.json` and
`testdev_balanced_questions.json`, each an object from a question's number to its fields: `imageId`,
`question`, `answer`, `fullAnswer`, `types` (with `structural`) and `annotations` (from words to numbers of
things); `train_sceneGraphs.json` and `val_sceneGraphs.json`, each an object from an image's number to its
`objects` with `name`, `x`, `y`, `w`, `h`; a folder `images` with `<imageId>.jpg`. Without scene graphs there
is no evidence. The file name determines the split: train, val, or test for `testdev`; files without answers
are omitted. The download contains each split twice, balanced and complete (`val_all_questions.json`). The
balanced file is used if it exists, because scores are reported on it and the other one repeats its questions.

Loading its nearly one million balanced training questions takes about a minute and five gigabytes of memory,
extrapolated from a tenth as many synthetic ones.

Not tested on the original data.
"""


_VSR_FILES = {"train.jsonl": "train", "dev.jsonl": "val", "test.jsonl": "test"}
_VSR_FOLDERS = ("images/", "", "images/train2017/", "images/val2017/", "train2017/", "val2017/", "trainval2017/")


def _vsr_row(copy: Copy, row: Row) -> PictureRow:
    caption, label, image = row.text("caption"), row.fields.get("label"), row.text("image")
    if label not in (0, 1):
        row.broken("0 or 1 as 'label'", label)
    question = f'Is this statement about the picture true? "{caption}"'
    return PictureRow(
        key=row.key,
        where=row.where,
        split=_VSR_FILES[row.file],
        answer=row.answer_key("exact", *(("yes", "true") if label else ("no", "false")), question=question),
        category=category(row.text("relation")),
        images=tuple(copy.image(start + image) for start in _VSR_FOLDERS),
        facts=caption if label else f'It is not so that "{caption}"',
    )


VSR = Dataset(
    expected=f"a folder with {', '.join(_VSR_FILES)} and a folder images",
    files=lambda root: root.existing(_VSR_FILES),
    rows=rows_by(_vsr_row),
)
"""VSR: is a statement about spatial relations in a photograph true?

Layout: `train.jsonl`, `dev.jsonl` and `test.jsonl`, each line with `image` (a file name), `caption`, `label`
(0 or 1) and `relation`; the images in an adjacent folder `images`, or in one of COCO's folders inside it. The
files define the splits.

Tested with all published statements of both variants, random and zero-shot, but without the images.
"""


def _treevgr_row(copy: Copy, row: Row) -> PictureRow:
    image, problem = row.image(), row.text("problem")
    if not isinstance(image, str):
        row.broken("the name of an image file as 'images'", image)
    row.check_media(problem)
    if not (question := without_marks(problem)):
        row.broken("a question as 'problem'", problem)
    answer = _treevgr_answer(row, question)
    things = [row.item(thing) for thing in row.get("target_instances", list)]
    return PictureRow(
        key=row.key,
        where=row.where,
        split=copy.split_by(image),
        answer=answer,
        category="choice" if answer.kind == "choice" else "open",
        images=(copy.image(image),),
        boxes=tuple((_treevgr_label(thing), thing.box(thing.fields.get("bbox"), corners=True)) for thing in things),
    )


def _treevgr_answer(row: Row, question: str) -> AnswerKey:
    """Returns the key of a choice if there are options or the answer is a letter, else one for a judge."""
    options, value = row.option_texts(), row.fields.get("answer")
    answer = plain_text(value) if options and isinstance(value, int | float) else row.text("answer")
    if options:
        return row.choice_key(answer, options, question)
    if not is_letter(answer):
        return row.answer_key("semantic", answer, question=question)
    asked, stated = split_question(question)
    is_among = stated and answer.strip("().") in string.ascii_uppercase[: len(stated)]
    return row.choice_key(answer, stated, asked) if is_among else row.choice_key(answer, (), question)


def _treevgr_label(thing: Row) -> str:
    name = thing.fields.get("name")
    return (name.strip() if isinstance(name, str) else "") or "target"


TREEVGR = Dataset(
    expected="a folder with a .parquet or .jsonl table of problem, answer, images and target_instances",
    files=lambda root: [*root.names(".jsonl"), *root.names(".parquet")],
    rows=rows_by(_treevgr_row),
    is_benchmark=False,
    has_boxes=True,
)
"""TreeVGR-RL: questions of V*'s training set and of VisDrone, with boxes of the things in question (iVGR, table 11).

Layout, as users of the dataset describe it: one table `vstar30k_visdrone6k_x1y1x2y2.parquet` with the columns
`problem` (the question after a mark `<image>`; options may be lettered lines at its end), `answer` (a letter
for VisDrone, words for V*), `images` (one path each) and `target_instances` (each with `name` and `bbox`: x1,
y1, x2, y2 in pixels); the images at those paths below the table's folder. Tables with the same columns as
JSON lines are also read, and those with a column `options`, a list of texts or numbers, where the answer is a
letter or one of them. Rows with videos or audio are broken. Splits are decided by a hash of the image's path,
so the questions of an image stay together.

Answers in words need a judge; without one, only the same words are right. Reading parquet needs pyarrow, the
extra `parquet`.

Not tested on the original data.
"""


_TALLYQA_CATEGORIES = {True: "count_simple", False: "count_complex"}


def _tallyqa_row(copy: Copy, row: Row) -> PictureRow:
    question, image, simple = row.text("question"), row.text("image"), row.fields.get("issimple")
    # There is a test file, so rows that the hash assigns to test are used for training
    train_or_val = "val" if content_split(image) == "val" else "train"
    return PictureRow(
        key=row.key,
        where=row.where,
        split="test" if row.file == "test.json" else train_or_val,
        answer=row.answer_key("number", str(row.whole("answer")), question=question),
        category=_TALLYQA_CATEGORIES[simple] if isinstance(simple, bool) else "count",
        images=tuple(copy.image(name) for name in (image, f"images/{image}")),
    )


TALLYQA = Dataset(
    expected="a folder with train.json or test.json and the folders of their images",
    files=lambda root: root.existing(("train.json", "test.json")),
    rows=rows_by(_tallyqa_row),
)
"""TallyQA: counting questions, simple ones and complex ones that involve relations or attributes.

Layout: `train.json` and `test.json`, each a list of objects with `image` (a path such as
`train2014/COCO_….jpg` or `VG_100K/….jpg`), `question`, `answer` (an integer) and, in the test file,
`issimple`; the images' folders next to them or in a folder `images`. The test file is the test split. A hash
of the image's name selects 10% of the other rows for val, so that the questions of an image stay together.

Not tested on the original data.
"""


_PIXMO_SPLITS = {"train": "train", "validation": "val", "test": "test"}
_PIXMO_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", "")


def _pixmo_files(root: FileRoot) -> list[str]:
    folders = {"": root} | (
        {"data/": FileRoot(Path(root.folder, "data"))} if Path(root.folder, "data").is_dir() else {}
    )
    tables = (
        f"{start}{name}"
        for start, folder in folders.items()
        for name in sorted([*folder.names(".parquet"), *folder.names(".jsonl")])
    )
    return [name for name in tables if _pixmo_split(name) in _PIXMO_SPLITS]


def _pixmo_split(name: str) -> str:
    """Returns the prefix of a file name, such as `validation`."""
    return PurePosixPath(name).name.split("-")[0].split(".")[0]


def _pixmo_row(copy: Copy, row: Row) -> PictureRow:
    label, count = row.text("label"), row.whole("count")
    return PictureRow(
        key=row.key,
        where=row.where,
        split=_PIXMO_SPLITS[_pixmo_split(row.file)],
        answer=row.answer_key("number", str(count), question=f"How many {label} are there in the picture?"),
        category="count",
        images=(_pixmo_image(copy, row),),
        points=_pixmo_points(row, label),
        facts=f"Number of {label} in the picture: {count}.",
    )


def _pixmo_image(copy: Copy, row: Row) -> StoredImage:
    if row.has("image"):
        names = [row.text("image")]
    else:
        sha256 = row.text("image_sha256")
        own = PurePosixPath(str(row.fields.get("image_url") or "").split("?")[0]).suffix.lower()
        names = [f"images/{sha256}{ending}" for ending in dict.fromkeys((own, *_PIXMO_ENDINGS))]
    found = next((name for name in names if copy.has(name)), None)
    if found is None:
        row.broken(f"a file {names[0]}, downloaded from its image_url", "none")
    return copy.image(found)


def _pixmo_points(row: Row, label: str) -> tuple[LabelledPoint, ...]:
    points = given = row.fields.get("points")
    if isinstance(points, list) and all(isinstance(point, dict) for point in points):
        points = {axis: [point.get(axis) for point in points] for axis in "xy"}
    columns, rows = (points.get(axis) for axis in "xy") if isinstance(points, dict) else (None, None)
    if not isinstance(columns, list) or not isinstance(rows, list) or len(columns) != len(rows):
        row.broken("equally many x and y in 'points'", given)
    if not all(map(is_coordinate, [*columns, *rows])):
        row.broken("numbers in 'points'", given)
    return tuple((label, (float(x), float(y))) for x, y in zip(columns, rows, strict=True))


PIXMO_COUNT = Dataset(
    expected="a folder with tables such as train-00000-of-00001.parquet, or a folder data of them, and a folder images",
    files=_pixmo_files,
    rows=rows_by(_pixmo_row),
    has_boxes=True,
)
"""PixMo-Count: counting things of a kind in photographs from the web, with a point on each.

Layout: tables `train-*.parquet`, `validation-*.parquet` and `test-*.parquet` (or the same columns as
`.jsonl`), next to the images or in a folder `data`, with the columns `image_url`, `image_sha256`, `count` (an
integer), `label` (the counted kind as a plural, such as `people`) and `points` (`x` and `y`, two lists of the
same length, in pixels of the image; a list of objects with `x` and `y`, as in PixMo-Points, is also read).
The file names define the splits.

The dataset contains URLs in place of images. Downloaded images are expected as `images/<image_sha256>`, with
the extension of the URL, another common one, or none; or at the path in an additional column `image`. Labels
have no singular, so every point has the plural label. Hosts re-encode images, so hashes are not compared.
Rows without an image are omitted, as are points outside it.

Not tested on the original data.
"""


_FOLDER_FILES = ("questions.jsonl", "questions.json", "questions.csv", "questions.parquet")
_FOLDER_KINDS: tuple[AnswerKind, ...] = tuple(
    kind for kind in get_args(AnswerKind) if kind not in ("choice", "verdict")
)


def _folder_row(copy: Copy, row: Row) -> PictureRow:
    image = row.image()
    stored: StoredImage | TableImage
    if isinstance(image, TableImage):
        stored, content = image, image.digest
    elif isinstance(image, str) and copy.has(image):
        stored, content = copy.image(image), image
    else:
        row.broken("the name of an image file in the folder as 'image'", image)
    return PictureRow(
        key=str(row.number + 1),
        where=row.where,
        split=row.one_of("split", SPLITS) or copy.split_by(content),
        answer=_folder_answer(row),
        category=category(row.text("category")) if row.fields.get("category") else "image",
        images=(stored,),
    )


def _folder_answer(row: Row) -> AnswerKey:
    question = row.text("question")
    row.check_media(question)
    question, answers, options = without_marks(question), row.answer_texts(), row.option_texts()
    if options:
        if len(answers) > 1:
            row.broken("one answer of a row with options", list(answers))
        return row.choice_key(answers[0], options, question)
    are_numbers = all(read_number(answer) is not None for answer in answers)
    kind: Any = row.one_of("kind", _FOLDER_KINDS) or ("number" if are_numbers else "exact")
    return row.answer_key(kind, *answers, question=question)


IMAGE_FOLDER = Dataset(
    expected=f"a folder of images with one of {', '.join(_FOLDER_FILES)}, one question per row",
    files=lambda root: root.existing(_FOLDER_FILES)[:1],
    rows=rows_by(
        _folder_row,
        columns=(*IMAGE_COLUMNS, "question", "answer", "options", "kind", "category", "split", *string.ascii_uppercase),
        other_names=dict.fromkeys(("choices", "candidates", "alternatives"), "options") | {"label": "answer"},
    ),
    is_benchmark=False,
)
"""A folder of images with a table of questions: the layout for your own data.

The folder contains the images and `questions.jsonl` (one object per line), `questions.json` (a list of
objects), `questions.csv` (UTF-8, commas, a header), or `questions.parquet`, with the columns `image` (a file
in the folder, or in parquet the image itself), `question`, `answer` (a text, a number, or a list of accepted
ones), and, for questions with options, `options` (a list of texts or numbers, in CSV written as JSON) or the
columns `A`, `B`, and so on. The answer of a row with options is a letter, the text of an option, or both.

`kind` selects how other answers are compared: `number` (the default for numbers), `exact` (the default for
texts), `anls`, `list`, or `semantic`. `category` and `split` are also optional. Rows without `split` are
split by a hash of the image's name or content, so the questions of an image stay together. Other columns are
ignored and reported once; a row with a misnamed column, such as `choices` for `options`, is broken. For
boxes, use the columns of `treevgr`.
"""


DATASETS: Mapping[str, Dataset] = {
    "vstar": VSTAR,
    "hrbench": HRBENCH,
    "vsr": VSR,
    "tallyqa": TALLYQA,
    "gqa": GQA,
    "treevgr": TREEVGR,
    "pixmo_count": PIXMO_COUNT,
    "image_folder": IMAGE_FOLDER,
}

VIDEO_DATASETS: Mapping[str, Dataset] = {"video_r1": video_r1()}
"""All datasets of questions about videos."""

dataset_source = functools.partial(opened, DATASETS)
"""Returns the samples of a local copy of one of them; see `vlm_envs.qa.datasets.dataset_source.opened`."""


def video_source(
    name: str,
    folder: str | Path,
    *,
    is_benchmark: bool | None = None,
    train_on_all: bool = False,
    max_frames: int = MAX_FRAMES,
) -> DatasetSource:
    """Returns the samples of a local copy of a video dataset, with at most `max_frames` frames per video."""
    datasets = {"video_r1": video_r1(max_frames)}
    return opened(datasets, name, folder, is_benchmark=is_benchmark, train_on_all=train_on_all)

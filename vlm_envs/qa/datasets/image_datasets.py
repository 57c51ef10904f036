"""Datasets of questions about images, and the registry of all image and video datasets.

The layout that GQA, VSR, TreeVGR-RL, TallyQA, and PixMo-Count expect is described at each one's entry.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from vlm_envs.qa.datasets.dataset_images import StoredImage, media_fault, row_image, without_marks
from vlm_envs.qa.datasets.dataset_rows import (
    BrokenRowError,
    Fields,
    LabelledBox,
    LabelledPoint,
    answer_key,
    box,
    broken,
    category,
    choice_key,
    each_row,
    is_letter,
    objects,
    option_texts,
    plain_text,
    read_json_file,
    row_or_error,
    split_question,
    text,
    whole,
)
from vlm_envs.qa.datasets.dataset_source import Copy, Dataset, DatasetSource, PictureRow, opened
from vlm_envs.qa.datasets.dataset_splits import content_split
from vlm_envs.qa.datasets.high_resolution import HRBENCH, VSTAR
from vlm_envs.qa.datasets.image_folder import IMAGE_FOLDER
from vlm_envs.qa.datasets.video_r1 import MAX_FRAMES, video_r1
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.data_files import FileRoot


def _rows_of_files(row: Callable[..., PictureRow], copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    """Yields the rows of all files; `row` is given the key of a row and the name of its file."""

    def keyed(fields: Fields, where: str, number: int, file: str) -> PictureRow:
        return row(copy, fields, where, key=f"{file.rsplit('.', 1)[0]}/{number}", file=file)

    for name in copy.files:
        yield from each_row(copy.root, name, partial(keyed, file=name))


_GQA_SPLITS = {"train_": "train", "val_": "val", "testdev_": "test"}
_GQA_QUESTIONS = "_questions.json"
_GQA_GRAPHS = ("train_sceneGraphs.json", "val_sceneGraphs.json")

Graphs = Mapping[str, Any]


def _gqa_files(root: FileRoot) -> list[str]:
    """Returns the files of questions: of each split the balanced one, or all there are."""
    files: list[str] = []
    for start in _GQA_SPLITS:
        names = [name for name in root.names(_GQA_QUESTIONS) if name.startswith(start)]
        balanced = f"{start}balanced{_GQA_QUESTIONS}"
        files += [balanced] if balanced in names else names
    return files


def _gqa_rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    graphs: dict[str, Any] = {}
    for name in copy.root.names(".json"):
        if name in _GQA_GRAPHS:
            graphs.update(objects(read_json_file(copy.root, name), name))
    for name in copy.files:
        (split,) = (split for start, split in _GQA_SPLITS.items() if name.startswith(start))
        for number, value in objects(read_json_file(copy.root, name), name).items():
            where, key = f"{name}, question {number}", f"{name.removesuffix(_GQA_QUESTIONS)}/{number}"
            yield row_or_error(partial(_gqa_row, copy, value, where, graphs, key=key, split=split))


def _gqa_row(copy: Copy, value: object, where: str, graphs: Graphs, *, key: str, split: str) -> PictureRow:
    fields = objects(value, where)
    question, image = text(fields, "question", where), text(fields, "imageId", where)
    types = fields.get("types")
    structural = types.get("structural") if isinstance(types, dict) else None
    full = fields.get("fullAnswer")
    return PictureRow(
        key=key,
        where=where,
        split=split,
        answer=answer_key(where, "exact", text(fields, "answer", where), question=question),
        category=category(structural) if isinstance(structural, str) else "other",
        images=(copy.image(f"images/{image}.jpg"),),
        boxes=_gqa_boxes(fields, graphs.get(image), where),
        facts=full.strip() if isinstance(full, str) else "",
    )


def _gqa_boxes(fields: Fields, graph: object, where: str) -> tuple[LabelledBox, ...]:
    """Returns the things that a question's, its answer's and its full answer's words stand for, each once."""
    if graph is None:
        return ()
    things = objects(objects(graph, where).get("objects"), f"{where}, scene graph")
    annotations = fields.get("annotations")
    named: dict[str, None] = {}
    for part in ("question", "answer", "fullAnswer"):
        words = annotations.get(part) if isinstance(annotations, dict) else None
        for numbers in words.values() if isinstance(words, dict) else ():
            named.update(dict.fromkeys(str(numbers).split(",")))
    return tuple(_gqa_thing(things[number], f"{where}, thing {number}") for number in named if number in things)


def _gqa_thing(value: object, where: str) -> LabelledBox:
    thing = objects(value, where)
    return text(thing, "name", where), box([thing.get(side) for side in "xywh"], where, corners=False)


GQA = Dataset(
    expected="a folder with files such as train_balanced_questions.json and a folder images",
    files=_gqa_files,
    rows=_gqa_rows,
    has_boxes=True,
)
"""GQA: questions made from scene graphs, with the boxes of what they are about.

Layout: files such as `train_balanced_questions.json`, `val_balanced_questions.json` and
`testdev_balanced_questions.json`, each an object from a question's number to its fields: `imageId`, `question`,
`answer`, `fullAnswer`, `types` (with `structural`) and `annotations` (from words to numbers of things);
`train_sceneGraphs.json` and `val_sceneGraphs.json`, each an object from an image's number to its `objects` with `name`,
`x`, `y`, `w`, `h`; a folder `images` with `<imageId>.jpg`. Scene graphs may be missing, then there is no evidence. A
file's name tells its split: train, val, or test for `testdev`; files without answers are left out. The download holds
each split twice, balanced and whole (`val_all_questions.json`); where the balanced file is there, it is the split,
since scores are given on it and the other holds its questions again.

Its near million balanced training questions take about a minute and five gigabytes of memory, by a run on a tenth as
many made up ones.

Not run on the original data here.
"""


_VSR_FILES = {"train.jsonl": "train", "dev.jsonl": "val", "test.jsonl": "test"}
_VSR_FOLDERS = ("images/", "", "images/train2017/", "images/val2017/", "train2017/", "val2017/", "trainval2017/")


def _vsr_row(copy: Copy, fields: Fields, where: str, *, key: str, file: str) -> PictureRow:
    caption, label, image = text(fields, "caption", where), fields.get("label"), text(fields, "image", where)
    if label not in (0, 1):
        raise broken(where, "0 or 1 as 'label'", label)
    question = f'Is this statement about the picture true? "{caption}"'
    return PictureRow(
        key=key,
        where=where,
        split=_VSR_FILES[file],
        answer=answer_key(where, "exact", *(("yes", "true") if label else ("no", "false")), question=question),
        category=category(text(fields, "relation", where)),
        images=tuple(copy.image(start + image) for start in _VSR_FOLDERS),
        facts=caption if label else f'It is not so that "{caption}"',
    )


VSR = Dataset(
    expected=f"a folder with {', '.join(_VSR_FILES)} and a folder images",
    files=lambda root: root.existing(_VSR_FILES),
    rows=partial(_rows_of_files, _vsr_row),
)
"""VSR: is a statement about where things are in a photograph true?

Layout: `train.jsonl`, `dev.jsonl` and `test.jsonl`, each line with `image` (a file name), `caption`, `label` (0 or 1)
and `relation`; the images in a folder `images` beside them, or in one of COCO's inside it. The files are the splits.

All published statements of both its divisions, random and zero-shot, were read here; the images were not at hand.
"""


def _treevgr_row(copy: Copy, fields: Fields, where: str, *, key: str, file: str) -> PictureRow:
    image = row_image(fields, where)
    if not isinstance(image, str):
        raise broken(where, "the name of an image file as 'images'", image)
    problem = text(fields, "problem", where)
    if fault := media_fault(fields, problem, (), 1):
        raise BrokenRowError(f"{where}: {fault}. Correct the row or remove it.")
    question = without_marks(problem)
    if not question:
        raise broken(where, "a question as 'problem'", fields.get("problem"))
    answer = _treevgr_answer(fields, question, where)
    return PictureRow(
        key=key,
        where=where,
        split=copy.split_by(image),
        answer=answer,
        category="choice" if answer.kind == "choice" else "open",
        images=(copy.image(image),),
        boxes=_treevgr_boxes(fields, where),
    )


def _treevgr_answer(fields: Fields, question: str, where: str) -> AnswerKey:
    """Returns the key of a choice where there are options or the answer is a letter, else one for a judge."""
    options, value = option_texts(fields, where), fields.get("answer")
    answer = plain_text(value) if options and isinstance(value, int | float) else text(fields, "answer", where)
    if options:
        return choice_key(answer, options, question, where)
    if is_letter(answer):
        return choice_key(answer, *_treevgr_options(question, answer), where)
    return answer_key(where, "semantic", answer, question=question)


def _treevgr_options(question: str, answer: str) -> tuple[tuple[str, ...], str]:
    """Returns the options that a question ends in and the question itself; none unless the answer is one of them."""
    asked, options = split_question(question)
    is_among = answer.strip("().") in string.ascii_uppercase[: len(options)]
    return (options, asked) if options and is_among else ((), question)


def _treevgr_boxes(fields: Fields, where: str) -> tuple[LabelledBox, ...]:
    instances = fields.get("target_instances")
    if not isinstance(instances, list):
        raise broken(where, "a list as 'target_instances'", instances)
    found = []
    for instance in instances:
        thing = objects(instance, where)
        name = thing.get("name")
        label = name.strip() if isinstance(name, str) and name.strip() else "target"
        found.append((label, box(thing.get("bbox"), where, corners=True)))
    return tuple(found)


TREEVGR = Dataset(
    expected="a folder with a .parquet or .jsonl table of problem, answer, images and target_instances",
    files=lambda root: [*root.names(".jsonl"), *root.names(".parquet")],
    rows=partial(_rows_of_files, _treevgr_row),
    is_benchmark=False,
    has_boxes=True,
)
"""TreeVGR-RL: questions of V*'s training set and of VisDrone with the boxes of what they are about (iVGR, table 11).

Layout, as users of the set describe it: one table `vstar30k_visdrone6k_x1y1x2y2.parquet` with the columns `problem`
(the question after a mark `<image>`; options may be lettered lines at its end), `answer` (a letter for VisDrone, words
for V*), `images` (one path each) and `target_instances` (each with `name` and `bbox`: x1, y1, x2, y2 in pixels); the
images at those paths below the table's folder. Tables of the same columns as JSON lines are read too, and those with a
column `options`, a list of texts or numbers, where the answer is a letter or one of them. Rows with videos or sound are
broken. Splits are by a hash of the image's path, so the questions of an image stay together.

Answers in words are to be compared by a judge; by rule alone only the same words are right. Reading parquet needs
pyarrow, the extra `parquet`.

Not run on the original data here.
"""


_TALLYQA_CATEGORIES = {True: "count_simple", False: "count_complex"}


def _tallyqa_row(copy: Copy, fields: Fields, where: str, *, key: str, file: str) -> PictureRow:
    question, image, simple = text(fields, "question", where), text(fields, "image", where), fields.get("issimple")
    return PictureRow(
        key=key,
        where=where,
        split="test" if file == "test.json" else _tallyqa_train_or_val(image),
        answer=answer_key(where, "number", str(whole(fields, "answer", where)), question=question),
        category=_TALLYQA_CATEGORIES[simple] if isinstance(simple, bool) else "count",
        images=tuple(copy.image(name) for name in (image, f"images/{image}")),
    )


def _tallyqa_train_or_val(image: str) -> str:
    """Returns `val` for one image in ten; what the hash calls test is for training, since there is a test file."""
    return "val" if content_split(image) == "val" else "train"


TALLYQA = Dataset(
    expected="a folder with train.json or test.json and the folders of their images",
    files=lambda root: root.existing(("train.json", "test.json")),
    rows=partial(_rows_of_files, _tallyqa_row),
)
"""TallyQA: how many are there? Simple questions, and complex ones that need relations or attributes.

Layout: `train.json` and `test.json`, each a list of objects with `image` (a path such as `train2014/COCO_….jpg` or
`VG_100K/….jpg`), `question`, `answer` (a whole number) and, in the test file, `issimple`; the images' folders beside
them or in a folder `images`. The test file is the test split; rows of the other are val where a hash of the image's
name says so, one in ten, so that the questions of an image stay together.

Not run on the original data here.
"""


_PIXMO_SPLITS = {"train": "train", "validation": "val", "test": "test"}
_PIXMO_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", "")


def _pixmo_files(root: FileRoot) -> list[str]:
    below = FileRoot(data) if (data := Path(root.folder, "data")).is_dir() else None
    names = [*_pixmo_tables(root), *(f"data/{name}" for name in (_pixmo_tables(below) if below else ()))]
    return [name for name in names if _pixmo_split(name) in _PIXMO_SPLITS]


def _pixmo_tables(root: FileRoot) -> list[str]:
    return sorted([*root.names(".parquet"), *root.names(".jsonl")])


def _pixmo_split(name: str) -> str:
    """Returns what the name of a file begins with, such as `validation`."""
    return PurePosixPath(name).name.split("-")[0].split(".")[0]


def _pixmo_row(copy: Copy, fields: Fields, where: str, *, key: str, file: str) -> PictureRow:
    label, count = text(fields, "label", where), whole(fields, "count", where)
    question = f"How many {label} are there in the picture?"
    return PictureRow(
        key=key,
        where=where,
        split=_PIXMO_SPLITS[_pixmo_split(file)],
        answer=answer_key(where, "number", str(count), question=question),
        category="count",
        images=(_pixmo_image(copy, fields, where),),
        points=_pixmo_points(fields, label, where),
        facts=f"Number of {label} in the picture: {count}.",
    )


def _pixmo_image(copy: Copy, fields: Fields, where: str) -> StoredImage:
    if fields.get("image") is not None:
        names = [text(fields, "image", where)]
    else:
        sha256 = text(fields, "image_sha256", where)
        own = PurePosixPath(str(fields.get("image_url") or "").split("?")[0]).suffix.lower()
        names = [f"images/{sha256}{ending}" for ending in dict.fromkeys((own, *_PIXMO_ENDINGS))]
    found = next((name for name in names if copy.has(name)), None)
    if found is None:
        raise broken(where, f"a file {names[0]}, downloaded from its image_url", "none")
    return copy.image(found)


def _pixmo_points(fields: Fields, label: str, where: str) -> tuple[LabelledPoint, ...]:
    points = fields.get("points")
    if isinstance(points, list) and all(isinstance(point, dict) for point in points):
        points = {axis: [point.get(axis) for point in points] for axis in "xy"}
    columns, rows = (points.get(axis) for axis in "xy") if isinstance(points, dict) else (None, None)
    if not isinstance(columns, list) or not isinstance(rows, list) or len(columns) != len(rows):
        raise broken(where, "as many x as y in 'points'", fields.get("points"))
    numbers = [*columns, *rows]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < 1e9 for n in numbers):
        raise broken(where, "numbers in 'points'", fields.get("points"))
    return tuple((label, (float(x), float(y))) for x, y in zip(columns, rows, strict=True))


PIXMO_COUNT = Dataset(
    expected="a folder with tables such as train-00000-of-00001.parquet, or a folder data of them, and a folder images",
    files=_pixmo_files,
    rows=partial(_rows_of_files, _pixmo_row),
    has_boxes=True,
)
"""PixMo-Count: how many things of a kind are there in a photograph from the web, with a point on each?

Layout: tables `train-*.parquet`, `validation-*.parquet` and `test-*.parquet` (or the same columns as `.jsonl`), beside
the images or in a folder `data`, with the columns `image_url`, `image_sha256`, `count` (a whole number), `label` (what
is counted, such as `people`, as a plural) and `points` (`x` and `y`, two lists of the same length, in pixels of the
image; a list of objects with `x` and `y`, as PixMo-Points has it, is read too). The files' names are the splits.

Assumed, for the set holds addresses in place of images: whoever downloads them names each `images/<image_sha256>`, with
the ending of its address, another usual one, or none; or adds a column `image` with its path. Labels do not say a
singular, so every point has the label as it stands. Hosts encode images anew, so hashes are not compared. Rows without
an image are left out, as are points outside it.

Not run on the original data here.
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
"""Every data set of questions about videos, likewise."""

dataset_source = functools.partial(opened, DATASETS)
"""Returns the samples of a user's copy of one of them; see `vlm_envs.qa.datasets.dataset_source.opened`."""


def video_source(
    name: str,
    folder: str | Path,
    *,
    is_benchmark: bool | None = None,
    train_on_all: bool = False,
    max_frames: int = MAX_FRAMES,
) -> DatasetSource:
    """Returns the same of videos, of each of which at most so many frames are shown."""
    datasets = {"video_r1": video_r1(max_frames)}
    return opened(datasets, name, folder, is_benchmark=is_benchmark, train_on_all=train_on_all)

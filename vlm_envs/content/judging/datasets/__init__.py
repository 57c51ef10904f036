"""Judged responses from a user's local copy of public data, or from pairs of one's own; nothing is downloaded.

| kind | file in the folder | what a row has |
|---|---|---|
| `vl_rewardbench` | `data/test-*.parquet`, `data.jsonl` | `id`, `query`, `response` (two), `human_ranking`, `image` |
| `llava_critic` | `pairwise/train-*.parquet` | `id`, `image`, `conversations` of a comparison and its verdict |
| `mm_ifeval` | | `id`, `image`, `question`, `constraints`, and a model's `prediction` |
| `armbench_vl` | its three `.jsonl` files | `idx`, `rm_tag`, `question`, `preds`, `gt`, `images` or `doc_id` |
| `pairs` | | `prompt`, `chosen`, `rejected`, `image` where there is one |

A file `<kind>.jsonl` (a row a line), `<kind>.json` (a list of rows) or `<kind>.parquet` comes before the files that a
data set is published in. An `image` is a file of the folder, base64, or in the table.
"""

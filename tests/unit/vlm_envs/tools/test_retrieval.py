import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.errors import ConfigError
from vlm_envs.tools.document_tools import Bm25Retriever, DenseRetriever, words
from vlm_envs.tools.pdf_documents import PictureDocument
from vlm_envs.tools.pictures import Picture

pytest.importorskip("bm25s", reason="needs bm25s: pip install '.[tools]'")

PAGE = Picture(np.zeros((1, 1, 3), np.uint8))


def document(*texts):
    return PictureDocument("scan", (PAGE,) * len(texts), texts)


def bm25_by_hand(pages, query, k1=1.5, b=0.75):
    """BM25 as Lucene has it: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), tf / (tf + k1 (1 - b + b length / mean))."""
    pages = [page.split() for page in pages]
    mean = sum(map(len, pages)) / len(pages)
    scores = []
    for page in pages:
        score = 0.0
        for word in query.split():
            count, frequency = page.count(word), sum(word in other for other in pages)
            idf = math.log(1 + (len(pages) - frequency + 0.5) / (frequency + 0.5))
            score += idf * count / (count + k1 * (1 - b + b * len(page) / mean))
        scores.append(score)
    return scores


def test_words_keep_numbers_and_single_letters():
    assert words("Table 3: R&D in 2021, Straße ﬁve") == ["table", "3", "r", "d", "in", "2021", "strasse", "five"]


@pytest.mark.parametrize("division", ["\xad", "\xad\r\n", "\ufffe", "\x02", "-\n", "-\r\n  "])
def test_words_divided_at_the_end_of_a_line_are_found_by_either_reading(division):
    retriever, pages = Bm25Retriever(), document("nothing", f"the self{division}made man's refurbish{division}ment")
    for query in ("refurbishment", "self-made", "selfmade", f"refurbish{division}ment"):
        assert retriever.search(pages, query) == [2], query


def test_hyphens_within_a_line_divide_words_as_they_always_did():
    assert words("a self-made man - 2020-2021") == ["a", "self", "made", "man", "2020", "2021"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("本年度预算为四百二十万元。", "预算"),
        ("本年度预算为四百二十万元。", "年"),
        ("本年度预\n算为四百二十万元。", "预算"),
        ("売上高はデータセンターで増加した。", "データ"),
        ("งบประมาณประจำปีของกรุงเทพ", "กรุงเทพ"),
        ("올해예산은 사백이십만 원이다", "예산"),
        ("वार्षिक हिन्दी रिपोर्ट", "हिन्दी"),
        ("第3章 预算2021年度", "2021"),
    ],
    ids=["Chinese", "one character", "two lines", "Japanese", "Thai", "Korean", "Hindi", "mixed"],
)
def test_pages_in_any_script_are_found(text, query):
    assert Bm25Retriever().search(document("something else", text, "另一页讲上海的员工"), query) == [2]


def test_words_of_scripts_without_spaces_are_matched_whole():
    pages = document("算术练习与预测", "预算", "計算")  # The first page has both characters, apart.
    assert Bm25Retriever().search(pages, "预算") == [2]


def test_combining_marks_belong_to_words():
    assert words("हिन्दी में") == ["हिन्दी", "में"]


def test_pages_come_in_the_order_of_bm25():
    pages = ["revenue grew in 2021", "table 3 revenue revenue by year and by region of sale", "staff", "revenue 2021"]
    scores = bm25_by_hand(pages, "revenue 2021")
    by_hand = [index + 1 for index in sorted(range(4), key=lambda index: -scores[index]) if scores[index] > 0]
    assert by_hand == [4, 1, 2]  # Two words on a short page, two on a longer one, one word twice.
    assert Bm25Retriever().search(document(*pages), "Revenue, 2021?") == by_hand


def test_pages_that_share_no_word_do_not_come():
    retriever = Bm25Retriever()
    assert retriever.search(document("alpha", "beta"), "gamma") == []
    assert retriever.search(document("alpha", "beta"), "?!") == []
    assert retriever.search(document("alpha", "beta"), "") == []
    assert retriever.search(document("", "  "), "alpha") == []
    assert retriever.search(document("", "alpha", ""), "alpha") == [2]


def test_equal_pages_come_in_their_order():
    assert Bm25Retriever().search(document("x", "same", "same", "same"), "same") == [2, 3, 4]


def test_indexes_belong_to_contents_not_names():
    retriever = Bm25Retriever()
    assert retriever.search(document("alpha", "beta"), "beta") == [2]
    assert retriever.search(document("beta", "alpha"), "beta") == [1]
    assert pickle.loads(pickle.dumps(retriever)).search(document("alpha", "beta"), "beta") == [2]


@given(st.text(max_size=100), st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_no_query_or_text_raises(query, texts):
    found = Bm25Retriever().search(document(*texts), query)
    assert len(set(found)) == len(found) and set(found) <= set(range(1, len(texts) + 1))


def test_long_queries_are_cut():
    assert Bm25Retriever().search(document("alpha", "beta"), "alpha " * 1_000 + "beta") == [1]


class LetterEncoder:
    """Counts the letters a, b and c."""

    def encode_pages(self, document):
        return np.stack([self.encode_query(document.page_text(n)) for n in range(1, document.num_pages + 1)])

    def encode_query(self, query):
        return np.array([query.count(letter) for letter in "abc"], np.float32)


def test_dense_search_is_by_cosine():
    # Cosines with "ab" = (1, 1, 0): aab 3 / sqrt(2 * 5) = 0.949, c 0, ab 1, aabb 1 (length does not count), "" 0.
    found = DenseRetriever(LetterEncoder()).search(document("aab", "c", "ab", "aabb", ""), "ab")
    assert found == [3, 4, 1, 2, 5]


@pytest.mark.parametrize(
    ("pages", "query", "said"),
    [
        (np.ones((2, 3)), np.ones(3), r"shape \(1, dimensions\)"),
        (np.ones(3), np.ones(3), "dimensions"),
        (np.ones((1, 3)), np.ones(4), "query vector"),
        (np.full((1, 3), np.nan), np.ones(3), "finite"),
        (np.ones((1, 3)), np.full(3, np.inf), "finite"),
    ],
)
def test_wrong_vectors_are_explained(pages, query, said):
    class Encoder:
        def encode_pages(self, document):
            return pages

        def encode_query(self, text):
            return query

    with pytest.raises(ConfigError, match=said):
        DenseRetriever(Encoder()).search(document("a"), "a")

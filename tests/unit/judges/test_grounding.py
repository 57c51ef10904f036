"""Reading points, moments and segments out of Argos responses (section 3.1, appendix C.2)."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.grounding import MAX_POINTS, Moment, Segment, WrittenPoint, read_anchors, read_response
from tests.unit.slow import sized
from vlm_envs.responses.extraction import MAX_TEXT_CHARS


def points(text):
    return read_response(text).points


class TestPoints:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('<points x1="408" y1="179" alt="jeep">a jeep</points>', [WrittenPoint(408, 179, "a jeep")]),
            ('<points x="4" y="5" alt="cup"></points>', [WrittenPoint(4, 5, "cup")]),
            ("<points x12='4.5' y12=' 5 ' alt='cup'> </points>", [WrittenPoint(4.5, 5, "cup")]),
            ('<points alt="cup" y7="2" x7="1">cup</points>', [WrittenPoint(1, 2, "cup")]),
            ('<point x1="1" y1="2" alt="cup">cup</point>', [WrittenPoint(1, 2, "cup")]),
            (
                '<points x1="1" y1="2" x2="3" y2="4" alt="cups">cups</points>',
                [WrittenPoint(1, 2, "cups"), WrittenPoint(3, 4, "cups")],
            ),
            ('<points x1="1" y1="2" alt="no. 5!">no. 5!</points>', [WrittenPoint(1, 2, "no. 5!")]),
        ],
    )
    def test_ways_to_write_them(self, text, expected):
        assert list(points(f"Here is {text} now.")) == expected

    @pytest.mark.parametrize(
        "attributes",
        [
            'x1="nan" y1="2"',
            'x1="1"',
            'y1="2"',
            'x1="1" y2="2"',
            'x1="left" y1="2"',
            "",
            'x1="0x9" y1="1"',
            "x1=1 y1=2",
        ],
    )
    def test_what_cannot_be_read_is_kept_to_score_zero(self, attributes):
        read = points(f"<points {attributes} alt='cup'>cup</points>")
        assert read
        assert all(point.label == "cup" and math.isnan(point.x + point.y) for point in read)

    def test_the_same_point_again_is_no_second_point(self):
        # Argos, appendix C.2: deduplicate identical items.
        tag = '<points x1="1" y1="2" alt="cup">cup</points>'
        other = '<points x1="1" y1="3" alt="cup">cup</points>'
        assert len(points(f"<think>{tag} and {tag}.</think><answer>{tag} {other}</answer>")) == 2

    @pytest.mark.parametrize(
        "text",
        ["<points", '<points x1="1" y1="2">', '<pointsx x1="1" y1="2">a</pointsx>', "＜points＞a＜/points＞", "(1, 2)"],
    )
    def test_what_is_no_tag(self, text):
        assert points(text) == ()

    def test_reading_is_bounded(self):
        tags = "".join(f'<points x1="{n}" y1="1" alt="a">a</points>' for n in range(1_000))
        assert len(points(tags)) == MAX_POINTS

    def test_a_point_takes_the_nearest_frame_and_time_of_its_sentence(self):
        # After Argos, video example 2.
        text = (
            "At 0.00 seconds nothing. "
            'The pan at <points x1="356" y1="273" alt="pan">pan</points> in frame 1 (0.5 seconds) '
            'is smaller than <points x2="356" y2="262" alt="pan">pan</points> in frame 4 at 2.53 seconds. '
            'Later <points x3="1" y3="1" alt="pan">pan</points> is gone.'
        )
        assert points(text) == (
            WrittenPoint(356, 273, "pan", 1, 0.5),
            WrittenPoint(356, 262, "pan", 4, 2.53),
            WrittenPoint(1, 1, "pan"),
        )

    def test_numbers_inside_a_tag_are_no_anchors(self):
        (point,) = points('See <points x1="1" y1="2" alt="sign for frame 3">frame 9</points> here.')
        assert (point.frame, point.time_s) == (None, None)


def tag(x, label="pan"):
    return f'<points x1="{x}" y1="1" alt="{label}">{label}</points>'


class TestWhenAPointIs:
    """Argos, appendix C.2: the frame and time of the point's sentence, or of the clause right before it."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            # Built like Figure 17: each point belongs to the frame named before it, not to a nearer one behind "and".
            (
                f"(seen in several frames, such as frame 2 at 0.81 seconds where the rice is at {tag(1)} and frame 5 "
                f"at 3.25 seconds where it is at {tag(2)}), then she rolls it.",
                [(2, 0.81), (5, 3.25)],
            ),
            (
                f"In frame 24 at 18.71 seconds, a hand lays the foil over the roll (at about {tag(1)}), and later "
                "frames from frame 25 at 19.52 seconds to frame 27 show more of it.",
                [(24, 18.71)],
            ),
            # Built like Figure 18: a frame right behind a point is its own, with the time it was given before.
            (
                f"Comparing frame 1 at 0.00 seconds and frame 4 at 2.53 seconds, the pan at {tag(1)} in frame 1 is "
                f"smaller than the pan at {tag(2)} in frame 4.",
                [(1, 0.0), (4, 2.53)],
            ),
            # The two exact forms of the paper's other prompt, Figure 9
            (f"{tag(1)} in [F3 @ t=1.00s], then {tag(2)} in [F9 @ t=4.00s].", [(3, 1.0), (9, 4.0)]),
            (f"[F3 @ t=1.00s] at {tag(1)}, then [F9 @ t=4.00s] at {tag(2)}.", [(3, 1.0), (9, 4.0)]),
            # A clause before, of the sentence or of the sentence before
            (f"In frame 3 she cuts, and the knife is at {tag(1)}.", [(3, None)]),
            (f"In frame 3 at 1.5 seconds she cuts. The knife is at {tag(1)}.", [(3, 1.5)]),
            (f"In frame 3 she cuts, but nothing moves. The knife is at {tag(1)}.", [(None, None)]),
            (f"In frame 3 she cuts. Nothing else. The knife is at {tag(1)}.", [(None, None)]),
            (f"In frame 3 she cuts. Later the knife is at {tag(1)}.", [(None, None)]),
            (f"<think>In frame 3 she cuts.</think><answer>The knife is at {tag(1)}.</answer>", [(None, None)]),
            # Behind the last point it is said of all of them
            (f"The cup {tag(1)} and the lid {tag(2)} are seen in frame 5.", [(5, None), (5, None)]),
            (f"The cup is at {tag(1)} and in frame 5 the lid is at {tag(2)}.", [(None, None), (5, None)]),
            # A time elsewhere in the clause completes the frame
            (f"In frame 24 the cup {tag(1)} is seen at 18.71 seconds.", [(24, 18.71)]),
            # A stretch is no single frame
            (f"From frame 1 at 0.0 seconds to frame 6 at 2.5 seconds the cup at {tag(1)} moves.", [(None, None)]),
            (f"Between frame 2 and frame 5 the cup at {tag(1)} moves.", [(None, None)]),
            (f"Between 2 and 5 seconds the cup at {tag(1)} moves.", [(None, None)]),
            (f"The cup at {tag(1)} moves between frames 2 and 5.", [(None, None)]),
            (f"During frames 2 to 5 the cup at {tag(1)} moves, and in frame 6 it stops.", [(None, None)]),
            (f"In frame 1 it stands. During frames 2 to 5 the cup at {tag(1)} moves.", [(None, None)]),
            (f"It moves during frames 2 to 5. The cup is at {tag(1)}.", [(None, None)]),
            (f"Between frame 1 at 0.0 seconds and frame 4 the cup shrinks, see {tag(1)} in frame 1.", [(1, 0.0)]),
            # A time with its frame behind it
            (f"At 21.15 seconds (frame 28) the cup is at {tag(1)}.", [(28, 21.15)]),
            (f"At 21.15 seconds in frame 28 the cup is at {tag(1)}.", [(28, 21.15)]),
            (f"See the cup {tag(1)} at 4.47 seconds (frame 4).", [(4, 4.47)]),
            # Set off behind the point's clause
            (f"In frame 3, the cat {tag(1)} sees the dog {tag(2)}, in frame 5.", [(3, None), (5, None)]),
            (f"In frame 3 the cat {tag(1)} is here and the dog {tag(2)} is there, at frame 5.", [(3, None), (5, None)]),
            (f"The cat {tag(1)}, in frame 3, sees the dog {tag(2)}, at 2.0 seconds.", [(3, None), (None, 2.0)]),
            (f"In frame 3, the cat {tag(1)} sits, in frame 5, the dog {tag(2)} runs.", [(3, None), (5, None)]),
            (f"In frame 3, the cat is at {tag(1)}, and in frame 5 it is gone.", [(3, None)]),
            # A list of as many frames as there are points
            (f"In frames 3 and 5 the cat is at {tag(1)} and {tag(2)} respectively.", [(3, None), (5, None)]),
            (f"The cat is at {tag(1)} and {tag(2)} in frames 3 and 5.", [(3, None), (5, None)]),
            (f"In frame 3 at 1.0 s and frame 5 at 2.0 s it is at {tag(1)} and {tag(2)}.", [(3, 1.0), (5, 2.0)]),
            # How long something takes, or how much later it is, is no time
            (f"The clip lasts 60 seconds. The cat at {tag(1)} runs.", [(None, None)]),
            (f"The clip is about 60 seconds long. The cat at {tag(1)} runs.", [(None, None)]),
            (f"2 seconds later, the cat at {tag(1)} runs.", [(None, None)]),
            (f"In frame 3 it sits. 2.5 seconds later, the cat at {tag(1)} runs.", [(None, None)]),
            (f"In frame 3 it sits. A few seconds later the cat at {tag(1)} runs.", [(None, None)]),
            (f"After 5 seconds of waiting, the cat at {tag(1)} runs.", [(None, None)]),
            (f"In frame 3 at 1.0 seconds the cat at {tag(1)} waits for 2 to 4 seconds.", [(3, 1.0)]),
            (f"At 2.0 seconds of the clip the cat is at {tag(1)}.", [(None, 2.0)]),
            (f"At 1 minute 5 seconds the cat is at {tag(1)}.", [(None, None)]),
        ],
    )
    def test_it_is_when_its_sentence_or_the_clause_before_says(self, text, expected):
        assert [(point.frame, point.time_s) for point in points(text)] == expected


class TestAnchors:
    @pytest.mark.parametrize(
        ("sentence", "frame", "time_s"),
        [
            ("In frame 24 at 18.71 seconds, she cuts.", 24, 18.71),
            ("She cuts in Frame 6.", 6, None),
            ("She cuts at 4.47s.", None, 4.47),
            ("She cuts at t=36.31s.", None, 36.31),
            ("In [F17 @ t=19.21s], she cuts.", 17, 19.21),
        ],
    )
    def test_moments(self, sentence, frame, time_s):
        response = read_response(f"First she looks. {sentence} Then she leaves.")
        assert response.moments == (Moment(frame, time_s, sentence),)
        assert response.segments == ()

    @pytest.mark.parametrize(
        ("sentence", "expected"),
        [
            ("Frames 25 to 27 show wrapping.", (25, 27, None, None)),
            ("She wraps in frames 1–6.", (1, 6, None, None)),
            ("From frame 7 through frame 20 she wraps.", (7, 20, None, None)),
            ("From 4.47 to 16.11 seconds she wraps.", (None, None, 4.47, 16.11)),
            ("She wraps, frames 1-6 (0.00-4.47 seconds).", (1, 6, 0.0, 4.47)),
            ("In [F1-F6 @ t=0.00-4.47s] she wraps.", (1, 6, 0.0, 4.47)),
            ("In [F1 @ t=0.00s, F2 @ t=1.66s, F3 @ t=3.31s] she wraps.", (1, 3, 0.0, 3.31)),
            ("She wraps from frame 25 onwards.", (25, None, None, None)),
            ("She rolls from frame 28 at 21.15 seconds to frame 30 at 23.59 seconds.", (28, 30, 21.15, 23.59)),
            ("From frame 25 at 19.52 seconds to frame 27 she wraps.", (25, 27, 19.52, None)),
            ("From frame 25 (19.52s) to frame 27 (20.1s) she wraps.", (25, 27, 19.52, 20.1)),
            ("From frame 25 to frame 27 at 20.1 seconds she wraps.", (25, 27, None, 20.1)),
            ("She wraps in frame 2, frame 3, frame 4 and frame 5.", (2, 5, None, None)),
            ("She wraps between 4.47 and 16.11 seconds.", (None, None, 4.47, 16.11)),
            ("She wraps between 4.47 seconds and 16.11 seconds.", (None, None, 4.47, 16.11)),
            ("Between frame 2 and frame 5 she wraps.", (2, 5, None, None)),
            ("Between frame 2 at 0.8 seconds and frame 5 at 3.2 seconds she wraps.", (2, 5, 0.8, 3.2)),
            ("Between frames 2 and 5 she wraps.", (2, 5, None, None)),
            ("She wraps from 3 seconds up to 5 seconds.", (None, None, 3.0, 5.0)),
            ("She wraps from 3 up to about 5 seconds.", (None, None, 3.0, 5.0)),
            ("From 21.15 seconds (frame 28) to 23.59 seconds (frame 30) she wraps.", (28, 30, 21.15, 23.59)),
            ("From frame 28 at 21.15 seconds, to frame 30 at 23.59 seconds, she wraps.", (28, 30, 21.15, 23.59)),
            ("She wraps from 4.47 to 16.11 seconds (frames 4 to 16).", (4, 16, 4.47, 16.11)),
            ("She wraps in frames 2, 3 and 5.", (2, 5, None, None)),
        ],
    )
    def test_segments(self, sentence, expected):
        response = read_response(f"First she looks. {sentence} Then she leaves.")
        assert response.segments == (Segment(*expected, sentence),)
        assert response.moments == ()

    @pytest.mark.parametrize(
        "sentence",
        [
            "She stirs for 10 seconds.",
            "She stirs for about 2 to 4 seconds.",
            "It takes 3s.",
            "It takes only 3.5 secs.",
            "2 seconds before the end she leaves.",
            "2 to 3 seconds later she leaves.",
            "The first 5 seconds show her.",
            "It is a 60 second clip.",
        ],
    )
    def test_how_long_something_takes_is_neither_moment_nor_stretch(self, sentence):
        response = read_response(sentence)
        assert (response.moments, response.segments) == ((), ())

    @pytest.mark.parametrize(
        ("sentence", "time_s"),
        [
            ("At 2.0 seconds before the crowd, she sings.", 2.0),
            ("At the 5 seconds mark she sings for 10 seconds.", 5.0),
            ("For the singing, see 4.0 seconds.", 4.0),
            ("She stirs for 10 seconds at 4.0 seconds.", 4.0),
        ],
    )
    def test_a_time_beside_a_duration_is_a_time(self, sentence, time_s):
        assert read_response(sentence).moments == (Moment(None, time_s, sentence),)

    def test_a_stretch_of_the_clip_is_no_duration(self):
        sentence = "From 2 to 5 seconds of the clip she sings."
        assert read_response(sentence).segments == (Segment(None, None, 2.0, 5.0, sentence),)

    def test_an_abbreviated_second_ends_no_sentence(self):
        response = read_response("He sits at 3.0 sec. before the man walks. At 5.0 sec. The man stops.")
        assert response.moments == (
            Moment(None, 3.0, "He sits at 3.0 sec. before the man walks."),
            Moment(None, 5.0, "At 5.0 sec."),
        )

    def test_a_sentence_may_speak_of_a_moment_and_of_a_stretch(self):
        response = read_response("Frame 24 shows foil over the roll, and then frames 25 to 27 show wrapping.")
        assert response.moments == (Moment(24, None, "Frame 24 shows foil over the roll"),)
        assert response.segments == (Segment(25, 27, None, None, "frames 25 to 27 show wrapping."),)

    def test_each_moment_has_its_own_part_of_the_sentence(self):
        response = read_response("In frame 3 it falls and in frame 5 at 2.0 seconds it breaks.")
        assert response.moments == (
            Moment(3, None, "In frame 3 it falls"),
            Moment(5, 2.0, "in frame 5 at 2.0 seconds it breaks."),
        )

    def test_a_sentence_with_a_point_may_speak_of_a_stretch(self):
        response = read_response(f"In frame 2 lies {tag(1)}, and from frame 3 at 1.0 seconds to frame 6 it rolls.")
        assert response.moments == ()
        assert response.segments == (Segment(3, 6, 1.0, None, "from frame 3 at 1.0 seconds to frame 6 it rolls."),)

    def test_a_sentence_with_a_point_gives_no_moment(self):
        # Argos, appendix C.2: no overlap with the points.
        response = read_response('In frame 2 a <points x1="1" y1="2" alt="cup">cup</points> falls.')
        assert (response.moments, len(response.points)) == ((), 1)

    def test_a_text_without_time_has_no_anchors(self):
        response = read_response("The frame of the picture is 4 cm wide. F1-scores are high.")
        assert (response.moments, response.segments) == ((), ())


class TestResponse:
    def test_reasoning_and_answer(self):
        response = read_response("<think> It is red. </think><answer>so <|begin_of_box|>B<|end_of_box|>.</answer>")
        assert (response.reasoning, response.answer) == ("It is red.", "B")

    def test_a_response_that_is_too_long_is_not_read(self):
        response = read_response("<answer>B</answer>" + "x" * MAX_TEXT_CHARS)
        assert (response.reasoning, response.answer, response.points) == ("", None, ())

    @pytest.mark.parametrize(
        "piece",
        [
            "<points ",
            '<points x1="',
            "<points>",
            'x1="1" ',
            "[F1 @ t=1s, ",
            "frames 1-",
            "between 1 ",
            "between frame 1s and ",
            "1-",
            ".",
            "frame 1 ",
            "1.",
            "9",
        ],
    )
    def test_walls_of_text_take_bounded_time(self, piece):
        start = time.process_time()
        read_response((piece * 100_000)[: MAX_TEXT_CHARS // sized(8, soak=2)])
        read_response(('<points x1="1" y1="1">a</points>' + piece) * sized(75, soak=300))
        assert time.process_time() - start < 20


PIECES = [
    "<points ",
    'x1="1" ',
    'y1="2" ',
    "alt='",
    ">",
    "cup",
    "</points>",
    "frame 3 ",
    "to 5",
    "4.2 seconds",
    ". ",
    "[",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=60).map("".join))
def test_no_text_raises_and_descriptions_are_verbatim(text):
    response = read_response(text)
    assert all(anchor.description in text for anchor in (*response.moments, *response.segments))


@pytest.mark.parametrize(
    "text",
    [
        "Spanning 4.47 to 16.11 seconds, it stands.",
        "Over 4.47-16.11 seconds it runs.",
        "Within 4.47s to 16.11s it runs.",
        "Over the interval of 4.47 to 16.11 seconds it runs.",
    ],
)
def test_two_moments_are_a_stretch_whatever_is_said_of_it(text):
    (mention,) = read_anchors(text).parts
    assert (mention.time_s, mention.last_s, mention.is_span) == (4.47, 16.11, True)

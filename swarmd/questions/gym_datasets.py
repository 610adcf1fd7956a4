"""The reviewed datasets of reasoning_gym: where each lies, what may be set, and which rule scores it.

A dataset gets a row here after somebody read its upstream source for three things. It regenerates byte for byte everywhere. Its
scorer runs no code on text (no `eval`, `exec`, sympy's `parse_expr`) and costs little for any text under the caps. No constant
answer earns much. `own` is our scorer where upstream's is not harmless.

Any other dataset is refused, whatever the sandbox. A text that reaches `eval` within a complete sandbox still patches the scorer
and writes its own reward: a sandbox protects the machine, not the rewards.

`docs/rewards-for-nothing.md` says which datasets a small policy can answer, and what partial credit each rule pays.
"""

from swarmd.questions.family import ExactRule, Offer
from swarmd.questions.inference import right_answer, score_inference
from swarmd.questions.own_scorers import (
    score_binary_matrix,
    score_number_sorting,
    score_propositional_logic,
    score_spiral_matrix,
)
from swarmd.questions.parameters import Choice, Flag, Real, Some, Whole, span

_FLAG = Flag()
_TERMS_DIGITS = span("terms", 1, 12) | span("digits", 1, 12)
_TASKS = (
    "weekday_offset weekday_of_date weekday_of_date_from_first_date recurring_event_day "
    "count_days count_business_days is_leap_year"
)

OFFERED = {
    "ab": Offer("algorithmic.ab", {"length": Whole(1, 100)}),
    # num_train: the prompt grows with it
    "arc_1d": Offer("arc.arc_1d", span("size", 8, 64) | {"num_train": Whole(1, 8)}),
    "base_conversion": Offer(
        "algorithmic.base_conversion", span("base", 2, 36) | span("value", 0, 1_000_000_000)
    ),
    # its eval runs on the expression it generated itself; terms and digits bound what `divisors` has to factor
    "basic_arithmetic": Offer(
        "arithmetic.basic_arithmetic",
        span("terms", 1, 6)
        | span("digits", 1, 4)
        | {
            "operators": Some(("+", "-", "*", "/")),
            "allow_parentheses": _FLAG,
            "allow_negation": _FLAG,
            "format_style": Choice(("simple", "natural")),
            "whitespace": Choice(("no_space", "single", "random")),
        },
    ),
    # difficulty 2 costs 128 ms a question and 3 costs 2.8 s
    "bf": Offer("code.bf", {"difficulty": Whole(1, 1)}),
    "binary_matrix": Offer(
        "algorithmic.binary_matrix", span("n", 1, 20) | {"p_zero": Real(0.01, 1.0)}, own=score_binary_matrix
    ),
    "caesar_cipher": Offer("algorithmic.caesar_cipher", span("words", 1, 20) | span("rotation", 1, 25)),
    "calendar_arithmetic": Offer(
        "arithmetic.calendar_arithmetic",
        {
            "year": Whole(1, 9000),
            "tasks": Some(tuple(_TASKS.split())),
            "offset_upper_bound": Whole(1, 10_000),
            "leap_year_range": Whole(1, 900),
        },
    ),
    "chain_sum": Offer("arithmetic.chain_sum", _TERMS_DIGITS | {"allow_negation": _FLAG}),
    "count_bits": Offer("arithmetic.count_bits", span("n", 1, 2**63)),
    # builds a sieve of max_n, and lists the primes of every question
    "count_primes": Offer("algorithmic.count_primes", span("n", 1, 20_000)),
    "decimal_arithmetic": Offer(
        "arithmetic.decimal_arithmetic",
        span("num_decimal_places", 1, 10) | span("terms", 2, 10) | {"precision": Whole(3, 28)},
    ),
    "decimal_chain_sum": Offer(
        "arithmetic.decimal_chain_sum",
        _TERMS_DIGITS | span("decimal_places", 0, 8) | {"allow_negation": _FLAG},
    ),
    "fraction_simplification": Offer(
        "arithmetic.fraction_simplification",
        span("value", 1, 100_000)
        | span("factor", 1, 10_000)
        | {"styles": Some(("plain", "latex_inline", "latex_frac", "latex_dfrac"))},
    ),
    "gcd": Offer("arithmetic.gcd", span("numbers", 2, 8) | span("value", 1, 1_000_000_000)),
    "largest_island": Offer(
        "graphs.largest_island",
        span("rows", 1, 20) | span("cols", 1, 20) | span("num_islands", 0, 10) | span("island_size", 0, 20),
    ),
    "lcm": Offer("arithmetic.lcm", span("numbers", 2, 8) | span("value", 1, 1_000_000)),
    "leg_counting": Offer("arithmetic.leg_counting", span("animals", 1, 37) | span("instances", 1, 1000)),
    "letter_counting": Offer("algorithmic.letter_counting", span("words", 1, 50)),
    "letter_jumble": Offer(
        "algorithmic.letter_jumble",
        span("word_len", 1, 64)
        | span("words", 1, 30)
        | {
            "min_corruption_level": Real(0.0, 1.0),
            "max_corruption_level": Real(0.0, 1.0),
            "consecutive_words": _FLAG,
        },
    ),
    "number_filtering": Offer(
        "algorithmic.number_filtering",
        span("numbers", 1, 50)
        | span("decimals", 0, 8)
        | {"min_value": Real(-1e6, 1e6), "max_value": Real(-1e6, 1e6)},
    ),
    "number_format": Offer(
        "arithmetic.number_format",
        span("num_candidates", 2, 20)
        | {"min_n": Real(1, 1e12), "max_n": Real(1, 1e12), "max_delta": Real(0.01, 1e6)},
    ),
    # upstream evaluates the oracle's text
    "number_sorting": Offer(
        "algorithmic.number_sorting",
        span("numbers", 1, 50)
        | span("decimals", 0, 8)
        | {"min_value": Real(-1e6, 1e6), "max_value": Real(-1e6, 1e6)},
        own=score_number_sorting,
    ),
    # half a mark for repeating the number
    "prime_factorization": Offer(
        "arithmetic.prime_factorization", span("value", 2, 1_000_000), exact_only=True
    ),
    "products": Offer("arithmetic.products", _TERMS_DIGITS),
    # no oracle: the answer is any conclusion. Upstream generates with 2^variables rows; complexity doubles the text a step
    "propositional_logic": Offer(
        "logic.propositional_logic",
        span("vars", 1, 6) | span("statements", 1, 8) | span("complexity", 1, 4),
        own=score_propositional_logic,
        exact=ExactRule(score_inference, right_answer),
        chars_max=1024,
    ),
    "rotate_matrix": Offer("algorithmic.rotate_matrix", span("n", 2, 20) | span("rotations", 0, 20)),
    "sentence_reordering": Offer("algorithmic.sentence_reordering", span("words_in_sentence", 3, 20)),
    "simple_equations": Offer("algebra.simple_equations", span("terms", 1, 8) | span("value", 1, 100_000)),
    "simple_geometry": Offer("geometry.simple_geometry", span("sides", 3, 12) | span("angle", 1, 179)),
    "spell_backward": Offer("algorithmic.spell_backward", span("word_len", 3, 10)),
    "spiral_matrix": Offer("algorithmic.spiral_matrix", span("n", 2, 20), own=score_spiral_matrix),
    "word_sequence_reversal": Offer("algorithmic.word_sequence_reversal", span("words", 1, 30)),
    "word_sorting": Offer("algorithmic.word_sorting", span("words", 1, 30) | span("word_length", 3, 12)),
}

_UNSTABLE = "it does not regenerate identically on every machine"
_FREE = "its scorer pays for a constant answer"
_RUNS_CODE = "its scorer runs code on the answer, and no harmless one exists"
_LIBM = "its answers are floats of the machine's own mathematics library"
_SLOW = "a question or a score takes far too long"
_REFUSED = {
    _UNSTABLE: """isomorphic_strings ransom_note polynomial_multiplication knight_swap word_ladder list_functions codeio
        time_intervals intermediate_integration rearc acre""",
    _FREE: """complex_arithmetic game_of_life_halting puzzle24 countdown coin_flip circuit_logic syllogism course_schedule""",
    _RUNS_CODE: "string_insertion n_queens simple_integration bitwise_arithmetic",
    _LIBM: "power_function",
    _SLOW: "number_sequence futoshiki sokoban quantum_lock rubiks_cube rush_hour boxnet",
}
REFUSED = {name: reason for reason, names in _REFUSED.items() for name in names.split()}

"""Values with the one JSON text that a golden digest takes of them: letters, floats and integers at the edges of the form."""

import json
import struct
from typing import Any

TEXTS = (
    "",
    " ~",
    "/",
    '"\\',
    "\b\f\n\r\t",
    "\x00\x1f",
    "\x7f",
    "\x80",
    "é✓",
    "\u2028",
    "\uffff",
    "\U00010000\U0010ffff",
)
FLOATS = (
    *(0.0, -0.0, 1.0, -1.5, 0.1, 100.0, 0.0607, 0.001234, 1 / 3, 2 / 3, 0.1 + 0.2, 123456.789),
    # from here on with an exponent, and the last without
    *(
        1e-4,
        1.5e-4,
        9.999e-5,
        1e-5,
        -1e-7,
        1e15,
        123456789012345.6,
        9999999999999998.0,
        1e16,
        -1.5e16,
        1e22,
        1e100,
    ),
    # the ends, and those of which the nearest with the fewest digits is not what rounding gives
    *(
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        2.0**-44,
        2.0**89,
        2160877224860743.75,
        9007199254740993.0,
    ),
)
INTEGERS = (0, -1, 2**53, -(2**63), 2**64, 10**30)


def json_cases() -> list[dict[str, Any]]:
    """Text by its code points, a float by its eight bytes, an integer by its decimal digits."""
    texts = [{"kind": "text", "value": [ord(c) for c in text], "json": json.dumps(text)} for text in TEXTS]
    floats = [{"kind": "float", "value": struct.pack(">d", one), "json": json.dumps(one)} for one in FLOATS]
    integers = [{"kind": "integer", "value": str(one), "json": json.dumps(one)} for one in INTEGERS]
    return [*texts, *floats, *integers]

"""XXH64 with seed 0, whose low four bytes are a frame's checksum."""

P1, P2, P3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
P4, P5, MASK = 9650029242287828579, 2870177450012600261, 2**64 - 1


def xxh64(data: bytes) -> int:
    """The hash."""
    place, end = 0, len(data) - len(data) % 32
    if len(data) >= 32:
        lanes = [P1 + P2 & MASK, P2, 0, -P1 & MASK]
        for place in range(0, end, 32):
            lanes = [_round(lane, _u64(data, place + 8 * i)) for i, lane in enumerate(lanes)]
        hashed = sum(_turn(lane, (1, 7, 12, 18)[i]) for i, lane in enumerate(lanes)) & MASK
        for lane in lanes:
            hashed = (hashed ^ _round(0, lane)) * P1 + P4 & MASK
    else:
        hashed = P5
    hashed, place = hashed + len(data) & MASK, end
    while place + 8 <= len(data):
        hashed = _turn(hashed ^ _round(0, _u64(data, place)), 27) * P1 + P4 & MASK
        place += 8
    if place + 4 <= len(data):
        word = int.from_bytes(data[place : place + 4], "little")
        hashed = _turn(hashed ^ word * P1 & MASK, 23) * P2 + P3 & MASK
        place += 4
    for byte in data[place:]:
        hashed = _turn(hashed ^ byte * P5 & MASK, 11) * P1 & MASK
    hashed = (hashed ^ hashed >> 33) * P2 & MASK
    hashed = (hashed ^ hashed >> 29) * P3 & MASK
    return hashed ^ hashed >> 32


def _round(lane: int, word: int) -> int:
    return _turn(lane + word * P2 & MASK, 31) * P1 & MASK


def _turn(number: int, num: int) -> int:
    return (number << num | number >> 64 - num) & MASK


def _u64(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 8], "little")

"""The table: each damage with what a node made of it at c42e2ea, before damage was looked for, and how its start ends now.

`silent` says why a damage may pass with nothing said; without it, that is a failure.
"""

from typing import NamedTuple

from tests.chaos.corruption import damage as d
from tests.chaos.corruption.damage import Damage, in_all, in_newest, of, settled


class Row(NamedTuple):
    """A damage, the result of before, the exit codes that may come now, and why nothing may be said."""

    name: str
    damage: Damage
    before: str
    codes: tuple[int, ...] = (0,)
    silent: str = ""


REFUSED = (16,)
SKIPPED = "the time in what is left covers it: numbers are skipped"
KEY, COUNTER, BUFFER = "identity.key", "node.sqlite", "buffer.sqlite"
STANDINGS, BANS, PEERS, ROUNDS = "standings.json", "bans.json", "peers.json", "rounds.jsonl"
WAL = f"{COUNTER}-wal"

ROWS = [
    Row("nothing", d.nothing, "0", silent="nothing was damaged"),
    Row("identity: bit", of(KEY, d.flip), "0, another peer id, silent", REFUSED),
    Row("identity: zeros", of(KEY, d.zeros), "0, another peer id, silent", REFUSED),
    Row("identity: missing", of(KEY, d.remove), "0, another peer id, '(new)' only", REFUSED),
    Row("identity: short", of(KEY, d.short), "16", REFUSED),
    Row("counter: zero length", settled(COUNTER, d.empty), "0, 54 -> 0, silent"),
    Row("counter: missing", settled(COUNTER, d.remove), "0, 54 -> 0, silent"),
    Row("counter: -wal deleted", of(WAL, d.remove), "0, 54 -> 0, silent", silent=SKIPPED),
    Row("counter: -wal header bit", of(WAL, d.flip_header), "0, 54 -> 0, silent", silent=SKIPPED),
    Row("counter: -wal middle bit", of(WAL, d.flip), "0, 54 -> 20, silent", silent=SKIPPED),
    Row("counter: -wal cut", of(WAL, d.cut), "0, 54 -> 20, silent", silent=SKIPPED),
    Row("counter: value byte", settled(COUNTER, d.sql("UPDATE facts SET value = 5 WHERE name = 'next_counter'")),
        "0, 21 -> 5, silent"),
    Row("counter: magic", settled(COUNTER, d.flip_first), "16"),
    Row("counter: cut", settled(COUNTER, d.cut), "16"),
    Row("counter: newer", settled(COUNTER, d.sql(f"PRAGMA user_version = {d.NEWER}")), "16", REFUSED),
    Row("checkpoint: newest, weights", in_newest("model.safetensors", d.flip), "0, the one before, said"),
    Row("checkpoint: newest, optimizer", in_newest("optimizer.safetensors", d.cut), "0, the one before, said"),
    Row("checkpoint: newest, state", in_newest("state.json", d.flip), "0, the one before, said"),
    Row("checkpoint: newest, missing file", in_newest("model.safetensors", d.remove), "0, the one before, said"),
    Row("checkpoint: all", in_all("model.safetensors", d.flip), "16", REFUSED),
    Row("checkpoint: newer format", in_newest("manifest.json", d.newer_format), "16", REFUSED),
    Row("checkpoint: half removed old", d.half_removed, "0, silent", silent="an older one, which the next save removes"),
    Row("checkpoint: kill in removal", d.half_gone, "a damaged round-N stayed", silent="it had lost its name"),
    Row("buffer: payload bits", settled(BUFFER, d.flip_payloads), "0, silent, or 1 at each start"),
    Row("buffer: structure", settled(BUFFER, d.flip_structure), "0, moved aside, said"),
    Row("buffer: magic", settled(BUFFER, d.flip_first), "0, moved aside, said"),
    Row("standings: bit", of(STANDINGS, d.flip), "0, all bans gone, said"),
    Row("standings: cut", of(STANDINGS, d.cut), "0, all bans gone, said"),
    Row("standings: emptied", of(STANDINGS, d.empty), "0, all bans gone, said"),
    Row("standings: missing", of(STANDINGS, d.remove), "0, all bans gone, silent"),
    Row("standings: newer", of(STANDINGS, d.newer), "0, all bans gone, said", REFUSED),
    Row("bans: bit", of(BANS, d.flip), "there was no such file"),
    Row("bans: cut", of(BANS, d.cut), "there was no such file"),
    Row("bans: missing", of(BANS, d.remove), "there was no such file"),
    Row("bans: newer", of(BANS, d.newer), "there was no such file", REFUSED),
    Row("peers: bit", of(PEERS, d.flip), "0, silent"),
    Row("peers: cut", of(PEERS, d.cut), "0, counted"),
    Row("peers: Infinity", of(PEERS, d.infinity), "1 at each start"),
    Row("peers: newer", of(PEERS, d.newer), "0, overwritten"),
    Row("peers: missing", of(PEERS, d.remove), "0, silent", silent="a cache, and a node alone never has one"),
    Row("rounds.jsonl: torn line", of(ROUNDS, d.torn), "0, repaired, silent"),
    Row("rounds.jsonl: cut", of(ROUNDS, d.cut_lines), "0, silent"),
    Row("left-over tmp files", d.leave_temporaries, "0, they stayed for ever", silent="they are removed"),
]  # fmt: skip

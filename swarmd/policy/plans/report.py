"""A choice of plan for people and for programs. Imports no torch."""

from typing import Any

from swarmd.policy.plans.choice import GIB, MARGIN, Choice, Priced, holder_lines
from swarmd.policy.plans.ladder import OPTIMIZERS, Plan


def start_line(choice: Choice) -> str:
    """What `swarmd start` says of it."""
    priced = choice.required()
    room, needs = choice.room, priced.needs
    parts = [("update", needs.update_bytes), ("generation", needs.generate_bytes)]
    told = ", ".join(f"{name} {in_words(size)}" for name, size in parts if size)
    free = "" if room.free_bytes is None else f", of {in_words(room.free_bytes)}"
    line = f"✓ memory     plan {priced.plan.name}: {told}{free}"
    if not priced.fits(room):
        line += f"\n! memory     that is more than fits with a margin of {MARGIN:.0%}; it is tried because --plan says so"
    if room.free_bytes is None:
        line += f"\n! memory     {room.why}"
    return line


def in_words(size_bytes: int) -> str:
    """A size as people read it."""
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes / 2**20:.0f} MiB"


def table_lines(choice: Choice) -> list[str]:
    """The rows of every plan, each in the phase where it is larger, side by side; then the phases, of which the larger counts."""
    names = [row.name for row in choice.plans[0].needs.rows]
    small = max(priced.needs.peak_bytes for priced in choice.plans) < GIB
    unit, digits = (2**20, 0) if small else (GIB, 2)
    head = ["MiB" if small else "GiB", *choice.names]
    rows = [[name, *(_cell(priced, name, unit, digits) for priced in choice.plans)] for name in names]
    for phase in ("generate", "update"):
        sizes = [getattr(priced.needs, f"{phase}_bytes") for priced in choice.plans]
        if any(sizes):
            rows.append([f"in all, {phase}", *(f"{size / unit:.{digits}f}" for size in sizes)])
    verdict = ["fits" if priced.fits(choice.room) else "no" for priced in choice.plans]
    if choice.room.free_bytes is not None:
        rows.append([f"of {choice.room.free_bytes / unit:.{1 if digits else 0}f} free", *verdict])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    ]


def screen(choice: Choice, model: str) -> str:
    """`swarmd doctor memory`."""
    room = choice.room
    free, total = (None if size is None else size / GIB for size in (room.free_bytes, room.total_bytes))
    lines = [f"Memory of {model}, {choice.num_parameters / 1e6:.0f} M parameters, on {choice.device}"]
    if free is None:
        lines.append(f"It is not known how much is free: {room.why}.")
    else:
        lines.append(f"{free:.1f} of {total:.1f} GiB are free; a plan fits with {MARGIN:.0%} to spare.")
    lines += holder_lines(room)
    lines += ["", *table_lines(choice), ""]
    lines += [f"{priced.plan.name:<16}{describe(priced.plan)}" for priced in choice.plans]
    chosen = choice.chosen
    verdict = "no plan fits" if chosen is None else f"plan {chosen.plan.name}"
    if chosen is not None and choice.forced:
        verdict += ", forced" if chosen.fits(room) else ", forced: by these figures it does not fit"
    return "\n".join([*lines, "", f"-> {verdict}"])


def document(choice: Choice, model: str) -> dict[str, Any]:
    """`swarmd doctor memory --json`. Schema version 1."""
    return {
        "schema": 1,
        "model": model,
        "num_parameters": choice.num_parameters,
        "device": choice.device,
        "total_bytes": choice.room.total_bytes,
        "free_bytes": choice.room.free_bytes,
        "why_unknown": choice.room.why,
        "margin": MARGIN,
        "holders": [vars(holder) for holder in choice.room.holders],
        "plan": choice.chosen.plan.name if choice.chosen else None,
        "forced": choice.forced,
        "plans": [_plan_document(priced, choice) for priced in choice.plans],
    }


def describe(plan: Plan) -> str:
    """A plan in words."""
    parts = ["the engine sleeps during an update" if plan.engine_sleeps else "nothing is given back"]
    if plan.checkpointing:
        parts.append("activations are computed twice, a quarter of the tokens at a time")
    words = {
        "adam-8bit": "moments of 8 bits",
        "host": "masters and moments in the host's memory",
        "lora": "only adapters are trained",
    }
    if plan.optimizer != OPTIMIZERS[0]:
        parts.append(words[plan.optimizer])
    return "; ".join(parts)


def _plan_document(priced: Priced, choice: Choice) -> dict[str, Any]:
    return {
        "name": priced.plan.name,
        "engine_sleeps": priced.plan.engine_sleeps,
        "gradient_checkpointing": priced.plan.checkpointing,
        "optimizer": priced.plan.optimizer,
        "generate_bytes": priced.needs.generate_bytes,
        "update_bytes": priced.needs.update_bytes,
        "peak_bytes": priced.needs.peak_bytes,
        "fits": priced.fits(choice.room),
        "rows": [vars(row) for row in priced.needs.rows],
    }


def _cell(priced: Priced, name: str, unit: int, digits: int) -> str:
    row = next(row for row in priced.needs.rows if row.name == name)
    size = max(row.generate_bytes, row.update_bytes)
    return "-" if not size else f"{size / unit:.{digits}f}"

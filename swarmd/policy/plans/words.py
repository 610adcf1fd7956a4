"""A choice of plan for people and for programs. Imports no torch."""

from swarmd.errors import OutOfMemory
from swarmd.optimizers import OPTIMIZERS
from swarmd.policy.plans.choice import MARGIN, NOT_ASKED, Choice, Priced
from swarmd.policy.plans.ladder import Plan
from swarmd.policy.plans.room import Room

GIB = 2**30


def required(choice: Choice) -> Priced:
    """The chosen plan. Raises OutOfMemory when none fits, with the table and what would help."""
    if choice.chosen is not None:
        return choice.chosen
    room, least = choice.room, min(choice.plans, key=lambda priced: priced.needs.peak_bytes)
    where = choice.device
    if any(priced.fits(room) for priced in choice.plans):
        room, where = choice.host, "the host"
        least = min(
            (p for p in choice.plans if p.fits(choice.room)), key=lambda priced: priced.needs.host_bytes
        )
    size_bytes = least.needs.peak_bytes if where == choice.device else least.needs.host_bytes
    need, free = size_bytes * (1 + MARGIN), room.free_bytes or 0
    raise OutOfMemory(
        f"not enough memory on {where}: the smallest plan, {least.plan.name}, needs {need / GIB:.1f} GiB "
        f"with its margin, and {free / GIB:.1f} GiB are free",
        "\n  ".join([*table_lines(choice), *_holder_lines(choice.room)]),
        f"{_help(room, need)}; `--plan {least.plan.name}` tries it anyway",
    )


def start_line(choice: Choice) -> str:
    """The lines of `swarmd start` about memory."""
    priced = required(choice)
    room, needs = choice.room, priced.needs
    parts = [("update", needs.update_bytes), ("generation", needs.generate_bytes)]
    told = ", ".join(f"{name} {in_words(size)}" for name, size in parts if size)
    free = "" if room.free_bytes is None else f", of {in_words(room.free_bytes)}"
    line = f"✓ memory     plan {priced.plan.name}: {told}{free}"
    if not priced.fits(room, choice.host):
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
    if choice.room.free_bytes is not None:
        verdict = ["fits" if priced.fits(choice.room) else "no" for priced in choice.plans]
        rows.append([_free(choice.room, unit, digits), *verdict])
    if any(priced.needs.host_bytes for priced in choice.plans):
        sizes = [priced.needs.host_bytes for priced in choice.plans]
        rows.append(["on the host", *(f"{size / unit:.{digits}f}" for size in sizes)])
        if choice.host.free_bytes is not None:
            verdict = ["fits" if priced.fits(NOT_ASKED, choice.host) else "no" for priced in choice.plans]
            rows.append([_free(choice.host, unit, digits), *verdict])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    ]


def _free(room: Room, unit: int, digits: int) -> str:
    return f"of {(room.free_bytes or 0) / unit:.{1 if digits else 0}f} free"


def screen(choice: Choice, model: str) -> str:
    """`swarmd doctor memory`."""
    room = choice.room
    free, total = (None if size is None else size / GIB for size in (room.free_bytes, room.total_bytes))
    lines = [f"Memory of {model}, {choice.num_parameters / 1e6:.0f} M parameters, on {choice.device}"]
    if free is None:
        lines.append(f"It is not known how much is free: {room.why}.")
    else:
        lines.append(f"{free:.1f} of {total:.1f} GiB are free; a plan fits with {MARGIN:.0%} to spare.")
    lines += _holder_lines(room)
    lines += ["", *table_lines(choice), ""]
    lines += [f"{priced.plan.name:<16}{describe(priced.plan)}" for priced in choice.plans]
    chosen = choice.chosen
    verdict = "no plan fits" if chosen is None else f"plan {chosen.plan.name}"
    if chosen is not None and choice.forced:
        verdict += (
            ", forced" if chosen.fits(room, choice.host) else ", forced: by these figures it does not fit"
        )
    return "\n".join([*lines, "", f"-> {verdict}"])


def document(choice: Choice, model: str) -> dict[str, object]:
    """`swarmd doctor memory --json`. Schema version 1."""
    return {
        "schema": 1,
        "model": model,
        "num_parameters": choice.num_parameters,
        "device": choice.device,
        "total_bytes": choice.room.total_bytes,
        "free_bytes": choice.room.free_bytes,
        "host_free_bytes": choice.host.free_bytes,
        "why_unknown": choice.room.why,
        "margin": MARGIN,
        "holders": [vars(holder) for holder in choice.room.holders],
        "plan": choice.chosen.plan.name if choice.chosen else None,
        "forced": choice.forced,
        "plans": [_plan_document(priced, choice) for priced in choice.plans],
    }


def describe(plan: Plan) -> str:
    """A plan in words."""
    parts = ["the engine sleeps during an update" if plan.how.engine_sleeps else "nothing is given back"]
    if plan.how.checkpointing:
        parts.append("activations are computed twice, a quarter of the tokens at a time")
    elif plan.name == "small-batches":
        parts.append("half of the tokens at a time")
    if plan.how.kind is not OPTIMIZERS[0]:
        parts.append(plan.how.kind.words)
    return "; ".join(parts)


def _plan_document(priced: Priced, choice: Choice) -> dict[str, object]:
    return {
        "name": priced.plan.name,
        "engine_sleeps": priced.plan.how.engine_sleeps,
        "gradient_checkpointing": priced.plan.how.checkpointing,
        "optimizer": priced.plan.how.optimizer,
        "generate_bytes": priced.needs.generate_bytes,
        "update_bytes": priced.needs.update_bytes,
        "peak_bytes": priced.needs.peak_bytes,
        "host_bytes": priced.needs.host_bytes,
        "fits": priced.fits(choice.room, choice.host),
        "rows": [vars(row) for row in priced.needs.rows],
    }


def _holder_lines(room: Room) -> list[str]:
    """Who else holds memory of the device."""
    return [
        f"pid {holder.pid} {holder.name} holds "
        + ("an unknown share" if holder.size_bytes is None else f"{holder.size_bytes / GIB:.1f} GiB")
        for holder in room.holders
    ]


def _help(room: Room, need: float) -> str:
    free, total = room.free_bytes or 0, room.total_bytes or 0
    if total >= need:
        return f"free {(need - free) / GIB:.1f} GiB, which others hold"
    return (
        "take a smaller model (swarmd doctor memory --model NAME; every card that updates holds the whole model, also where "
        "several share an update), or lower policy.tokens_max, experience.completions"
    )


def _cell(priced: Priced, name: str, unit: int, digits: int) -> str:
    row = next(row for row in priced.needs.rows if row.name == name)
    size = max(row.generate_bytes, row.update_bytes)
    return "-" if not size else f"{size / unit:.{digits}f}"

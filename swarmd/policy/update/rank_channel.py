"""What the update process and its ranks say to each other: JSON, with tensors beside it as safetensors, over a socket pair."""

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from swarmd.policy.update.packing import Pack, PromptGroup, TokenCompletion, WeighedCompletion
from swarmd.policy.update.token_losses import TokenPass

_SIZES = struct.Struct("<QQ")  # of the JSON and of the tensors


class Channel:
    """One end of the pair. Messages are plain values under string keys, with named tensors."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> None:
        """Raises OSError when the other end is gone."""
        text = json.dumps(message).encode()
        # the format refuses tensors that share memory, such as two masks that are both all False
        data = save({name: tensor.clone() for name, tensor in tensors.items()}) if tensors else b""
        self.sock.sendall(_SIZES.pack(len(text), len(data)) + text + data)

    def receive(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The next message. Raises EOFError or OSError when the other end is gone."""
        num_text, num_data = _SIZES.unpack(self._exactly(_SIZES.size))
        message: dict[str, Any] = json.loads(self._exactly(num_text))
        data = self._exactly(num_data)
        return message, load(data) if data else {}

    def _exactly(self, num: int) -> bytes:
        parts, missing = [], num
        while missing:
            part = self.sock.recv(min(missing, 1 << 20))
            if not part:
                raise EOFError("the other end of the channel is closed")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def packs_to_plain(packs: Sequence[Pack]) -> list[Any]:
    """Plain values that `packs_from_plain` turns back; numbers survive bit for bit."""
    return [[asdict(group) for group in pack.groups] for pack in packs]


def packs_from_plain(plain: Sequence[Any]) -> list[Pack]:
    """The packs again, equal to those that were sent."""
    packs = []
    for groups in plain:
        packs.append(pack := Pack())
        for group in groups:
            completions = [
                WeighedCompletion(
                    **{**_tuples(weighed), "completion": TokenCompletion(**_tuples(weighed["completion"]))}
                )
                for weighed in group["completions"]
            ]
            pack.add(PromptGroup(**{**_tuples(group), "completions": tuple(completions)}))
    return packs


def passes_to_plain(passes: Sequence[TokenPass]) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """The plain fields of each pass, and its tensors on the CPU under `<number>/<field>`."""
    plain: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    for number, found in enumerate(passes):
        values = {field.name: getattr(found, field.name) for field in fields(TokenPass)}
        plain.append({name: value for name, value in values.items() if not isinstance(value, Tensor)})
        tensors |= {
            f"{number}/{name}": value.cpu() for name, value in values.items() if isinstance(value, Tensor)
        }
    return plain, tensors


def passes_from_plain(
    plain: Sequence[dict[str, Any]], tensors: Mapping[str, Tensor], device: Any
) -> list[TokenPass]:
    """The passes again, with their tensors on `device`."""
    values = [dict(one) for one in plain]
    for key, tensor in tensors.items():
        number, _, name = key.partition("/")
        values[int(number)][name] = tensor.to(device)
    return [TokenPass(**one) for one in values]


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}

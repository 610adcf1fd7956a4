"""Models of a hub: the cache first, and each way a download can fail has a message of its own. The hub is on this machine."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarmd.errors import DiskFull, ModelUnavailable, Temporary
from swarmd.policy.model.resolve import download_model, resolve_model
from tests.policy.model.fake_hub import BROKEN, FORBIDDEN, GATED, PRIVATE, PUBLIC, REVISION, fake_hub


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """An empty cache, and the switch "offline" off; call it with an endpoint."""
    from huggingface_hub import constants, file_download

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(file_download, "HF_HUB_CACHE", str(tmp_path / "cache"), raising=False)

    def use(endpoint: str) -> None:
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)

    return use


@pytest.fixture
def hub(online: Any, model_dir: Path) -> Iterator[str]:
    with fake_hub(model_dir) as endpoint:
        online(endpoint)
        yield endpoint


def test_a_model_is_resolved_without_its_weights_and_then_downloaded(hub: str, tmp_path: Path) -> None:
    model = resolve_model(PUBLIC)
    assert (model.kind, model.path, model.revision) == ("hub", None, REVISION)
    assert (model.architecture, model.has_chat_template) == ("Qwen2ForCausalLM", True)
    assert not list(tmp_path.rglob("*.safetensors"))
    told: list[tuple[int, int]] = []
    path = download_model(model, lambda *sizes: told.append(sizes))
    assert (path / "model.safetensors").is_file()
    assert told
    assert told[-1][0] == told[-1][1] > 0


def test_a_downloaded_model_needs_no_network(hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = download_model(resolve_model(PUBLIC), lambda *_: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = resolve_model(PUBLIC)
    assert (model.path, model.revision) == (path, REVISION)
    assert model.num_parameters is not None
    assert download_model(model, lambda *_: None) == path


def test_a_half_downloaded_model_is_not_taken_for_a_whole_one(
    hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = download_model(resolve_model(PUBLIC), lambda *_: None)
    (path / "model.safetensors").unlink()
    assert resolve_model(PUBLIC).path is None
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable, match="does not hold all of it"):
        resolve_model(PUBLIC)


@pytest.mark.parametrize(
    ("repo_id", "message"),
    [
        (GATED, "is gated"),
        (PRIVATE, "knows no model"),
        (FORBIDDEN, "refuses model org/forbidden"),
        ("org/absent", "knows no model"),
    ],
)
def test_the_hubs_refusals_are_told_apart(hub: str, repo_id: str, message: str) -> None:
    with pytest.raises(ModelUnavailable, match=message):
        resolve_model(repo_id)


def test_a_failing_hub_is_temporary(hub: str) -> None:
    with pytest.raises(Temporary, match="does not answer"):
        resolve_model(BROKEN)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://hub.invalid"])
def test_an_unreachable_hub_is_temporary_and_says_what_to_check(online: Any, endpoint: str) -> None:
    online(endpoint)
    with pytest.raises(Temporary) as caught:
        resolve_model(PUBLIC)
    assert "HTTPS_PROXY" in caught.value.fix
    assert caught.value.exit_code == 75


def test_a_full_disk_during_the_download_is_named(hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = resolve_model(PUBLIC)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.snapshot_download", full)
    with pytest.raises(DiskFull):
        download_model(model, lambda *_: None)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (RuntimeError("Cannot send a request, as the client has been closed."), Temporary),
        (AttributeError("'NoneType' object has no attribute 'stream'"), Temporary),
        (RuntimeError("x"), RuntimeError),
        (AttributeError("'NoneType' object has no attribute 'x'"), AttributeError),
    ],
)
def test_a_client_that_another_thread_of_the_download_closed_is_temporary(
    online: Any, model_dir: Path, monkeypatch: pytest.MonkeyPatch, found: Exception, kind: type[Exception]
) -> None:
    with fake_hub(model_dir) as endpoint:
        online(endpoint)
        model = resolve_model(PUBLIC)

    def closed(*_: Any, **__: Any) -> None:
        raise found

    monkeypatch.setattr("huggingface_hub.snapshot_download", closed)
    with pytest.raises(kind):
        download_model(model, lambda *_: None)


def test_a_hub_that_vanishes_between_resolving_and_downloading_is_temporary(
    online: Any, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_hub(model_dir) as endpoint:
        online(endpoint)
        model = resolve_model(PUBLIC)
    monkeypatch.setattr("time.sleep", lambda _: None)  # the client's pauses between its attempts
    with pytest.raises(Temporary):
        download_model(model, lambda *_: None)
